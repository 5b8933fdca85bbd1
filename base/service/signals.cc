#include "base/service/signals.h"

#include <unistd.h>

#include <atomic>
#include <thread>

namespace ucudnn {
namespace {

std::atomic<int> stop_signal{0};

// Runs until the process ends.
void AwaitSignals(std::stop_source stop, const sigset_t& set) {
  int signal = 0;
  sigwait(&set, &signal);
  stop_signal = signal;
  stop.request_stop();
  sigwait(&set, &signal);
  std::signal(signal, SIG_DFL);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  kill(getpid(), signal);
}

}  // namespace

std::stop_token StopOnSignals() {
  static const std::stop_source source = [] {
    const StopSignals signals;
    std::stop_source stop;
    std::thread(AwaitSignals, stop, signals.set()).detach();
    return stop;
  }();
  return source.get_token();
}

int StopSignal() { return stop_signal; }

}  // namespace ucudnn
