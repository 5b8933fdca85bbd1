#ifndef UCUDNN_TESTS_SUPPORT_NOTIFY_SOCKET_H_
#define UCUDNN_TESTS_SUPPORT_NOTIFY_SOCKET_H_

// Receives what a daemon tells its service manager (sd_notify(3)).

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "base/result.h"
#include "tests/support/process.h"

namespace ucudnn::test {

class NotifySocket {
 public:
  NotifySocket() : NotifySocket("") {}
  // `address` as in $NOTIFY_SOCKET; empty: a file of its own.
  explicit NotifySocket(std::string address)
      : address_(address.empty() ? folder_ / "notify" : std::move(address)),
        descriptor_(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un bound{};
    bound.sun_family = AF_UNIX;
    UCUDNN_CHECK(address_.size() < sizeof(bound.sun_path));
    std::memcpy(bound.sun_path, address_.data(), address_.size());
    if (bound.sun_path[0] == '@') bound.sun_path[0] = '\0';
    UCUDNN_CHECK(bind(descriptor_, reinterpret_cast<const sockaddr*>(&bound),
                      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) +
                                             address_.size())) == 0);
  }
  ~NotifySocket() { close(descriptor_); }
  NotifySocket(const NotifySocket&) = delete;
  NotifySocket& operator=(const NotifySocket&) = delete;

  // For $NOTIFY_SOCKET.
  const std::string& address() const { return address_; }
  // All that came so far, each datagram a text.
  const std::vector<std::string>& Received() {
    std::array<char, 4096> text;
    for (ssize_t size = 0; (size = recv(descriptor_, text.data(), text.size(),
                                        MSG_DONTWAIT)) >= 0;) {
      received_.emplace_back(text.data(), static_cast<std::size_t>(size));
    }
    return received_;
  }

 private:
  TemporaryFolder folder_;
  std::string address_;
  int descriptor_;
  std::vector<std::string> received_;
};

}  // namespace ucudnn::test

#endif  // UCUDNN_TESTS_SUPPORT_NOTIFY_SOCKET_H_
