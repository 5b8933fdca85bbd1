#ifndef UCUDNN_BASE_SERVICE_SIGNALS_H_
#define UCUDNN_BASE_SERVICE_SIGNALS_H_

// Clean shutdown on Ctrl-C or SIGTERM. A daemon blocks these signals before it
// starts its first thread, and its main thread waits for them:
//
//   const StopSignals signals;
//   ... start threads ...
//   while (!signals.Wait(1s)) Maintain();
//
// A command that waits for others passes on a token instead:
//
//   auto connection = Connection::Open(list, source, StopOnSignals());

#include <chrono>
#include <csignal>
#include <ctime>
#include <initializer_list>
#include <optional>
#include <stop_token>

namespace ucudnn {

class StopSignals {
 public:
  // Waits for `others` too, such as SIGHUP.
  StopSignals(std::initializer_list<int> others = {}) {
    sigemptyset(&set_);
    sigaddset(&set_, SIGINT);
    sigaddset(&set_, SIGTERM);
    for (const int other : others) sigaddset(&set_, other);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
  }

  const sigset_t& set() const { return set_; }

  // Whether one of the signals arrived, before the call or within `time`.
  bool Wait(std::chrono::milliseconds time) const {
    return Next(time).has_value();
  }
  // The first of the signals that arrived, before the call or within `time`.
  std::optional<int> Next(std::chrono::milliseconds time) const {
    timespec limit{};
    limit.tv_sec = time.count() / 1000;
    limit.tv_nsec = (time.count() % 1000) * 1'000'000;
    const int signal = sigtimedwait(&set_, nullptr, &limit);
    return signal > 0 ? std::optional(signal) : std::nullopt;
  }

 private:
  sigset_t set_;
};

// The first of the signals from now on requests a stop; the second ends the
// program at once, by its default action. Call this before other threads start:
// they must block the signals too.
std::stop_token StopOnSignals();

// The signal that requested that stop; 0 while there is none.
int StopSignal();

}  // namespace ucudnn

#endif  // UCUDNN_BASE_SERVICE_SIGNALS_H_
