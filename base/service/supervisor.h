#ifndef UCUDNN_BASE_SERVICE_SUPERVISOR_H_
#define UCUDNN_BASE_SERVICE_SUPERVISOR_H_

// Tells the service manager that started a daemon how it fares, by the protocol
// of sd_notify(3): systemd's Type=notify and WatchdogSec. Where nobody listens
// ($NOTIFY_SOCKET is not set), all of it does nothing.

#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/service/environment.h"

namespace ucudnn {

// Thread-safe.
class Supervisor {
 public:
  // From $NOTIFY_SOCKET, $WATCHDOG_USEC and $WATCHDOG_PID.
  explicit Supervisor(const Environment& environment);

  // The daemon serves.
  void Ready() const { Send("READY=1"); }
  // It was asked to stop.
  void Stopping() const { Send("STOPPING=1"); }
  // It still works. To be called often: tells so about four times in the time
  // after which the service manager restarts a silent daemon, if there is one.
  void Alive();

 private:
  using Clock = std::chrono::steady_clock;

  void Send(std::string_view state) const;

  std::string socket_;                             // empty: nobody listens
  std::chrono::microseconds watchdog_interval_{};  // zero: none
  std::mutex mutex_;
  std::optional<Clock::time_point> last_alive_;
};

}  // namespace ucudnn

#endif  // UCUDNN_BASE_SERVICE_SUPERVISOR_H_
