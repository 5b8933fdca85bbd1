#include "base/service/supervisor.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace ucudnn {
namespace {

std::int64_t NumberIn(const std::optional<std::string>& text) {
  std::int64_t number = 0;
  if (text) {
    std::from_chars(text->data(), text->data() + text->size(), number);
  }
  return number;
}

}  // namespace

Supervisor::Supervisor(const Environment& environment)
    : socket_(environment("NOTIFY_SOCKET").value_or("")) {
  // The variables also reach a daemon's children, which are not watched.
  const std::int64_t watched = NumberIn(environment("WATCHDOG_PID"));
  if (watched == 0 || watched == getpid()) {
    watchdog_interval_ =
        std::chrono::microseconds(NumberIn(environment("WATCHDOG_USEC")));
  }
}

void Supervisor::Alive() {
  if (watchdog_interval_.count() <= 0) return;
  {
    const std::lock_guard lock(mutex_);
    const auto now = Clock::now();
    if (last_alive_ && now - *last_alive_ < watchdog_interval_ / 4) return;
    last_alive_ = now;
  }
  Send("WATCHDOG=1");
}

void Supervisor::Send(std::string_view state) const {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket_.empty() || socket_.size() >= sizeof(address.sun_path)) return;
  std::memcpy(address.sun_path, socket_.data(), socket_.size());
  // How systemd writes an abstract address, whose first byte is zero.
  if (address.sun_path[0] == '@') address.sun_path[0] = '\0';
  const auto length =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_.size());
  const int descriptor = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return;
  // Nothing can be done if it does not arrive: systemd then acts as if the
  // daemon were silent.
  (void)sendto(descriptor, state.data(), state.size(), MSG_NOSIGNAL,
               reinterpret_cast<const sockaddr*>(&address), length);
  close(descriptor);
}

}  // namespace ucudnn
