#ifndef UCUDNN_BASE_SERVICE_SIGNALS_H_
#define UCUDNN_BASE_SERVICE_SIGNALS_H_

// How a program ends cleanly on Ctrl-C or SIGTERM: it holds these signals back
// before it starts its first thread, and its main thread waits for them.
//
//   const StopSignals signals;
//   ... start threads ...
//   while (!signals.Wait(1s)) Maintain();

#include <chrono>
#include <csignal>
#include <ctime>

namespace ucudnn {

class StopSignals {
 public:
  StopSignals() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGINT);
    sigaddset(&set_, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
  }

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

}  // namespace ucudnn

#endif  // UCUDNN_BASE_SERVICE_SIGNALS_H_
