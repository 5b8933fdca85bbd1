#ifndef UCUDNN_BASE_SERVICE_SIGNALS_H_
#define UCUDNN_BASE_SERVICE_SIGNALS_H_

// How a program ends cleanly on Ctrl-C or SIGTERM. A daemon holds these signals
// back before it starts its first thread, and its main thread waits for them:
//
//   const StopSignals signals;
//   ... start threads ...
//   while (!signals.Wait(1s)) Maintain();
//
// A command that waits for others hands on a token instead:
//
//   auto connection = Connection::Open(list, source, StopOnSignals());

#include <chrono>
#include <csignal>
#include <ctime>
#include <stop_token>

namespace ucudnn {

class StopSignals {
 public:
  StopSignals() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGINT);
    sigaddset(&set_, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
  }

  const sigset_t& set() const { return set_; }

  // Whether one of the signals came within `time`. It may come before.
  bool Wait(std::chrono::milliseconds time) const {
    timespec limit{};
    limit.tv_sec = time.count() / 1000;
    limit.tv_nsec = (time.count() % 1000) * 1'000'000;
    return sigtimedwait(&set_, nullptr, &limit) > 0;
  }

 private:
  sigset_t set_;
};

// A stop is requested by the first of the signals that comes from now on; the
// second ends the program at once, by its default action. Call it before other
// threads start: they must hold the signals back too.
std::stop_token StopOnSignals();

}  // namespace ucudnn

#endif  // UCUDNN_BASE_SERVICE_SIGNALS_H_
