#ifndef UCUDNN_TESTS_COORDINATOR_BREAK_LISTENER_H_
#define UCUDNN_TESTS_COORDINATOR_BREAK_LISTENER_H_

#include <arpa/inet.h>
#include <sys/socket.h>

namespace ucudnn::test {

// Makes every accept() of this process's listener on `port` fail, as when
// descriptors run out. False if there is none.
inline bool BreakListener(int port) {
  for (int fd = 3; fd < 1024; ++fd) {
    int listens = 0;
    socklen_t size = sizeof(listens);
    sockaddr_storage address{};
    socklen_t address_size = sizeof(address);
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 ||
        listens != 1 ||
        getsockname(fd, reinterpret_cast<sockaddr*>(&address), &address_size) !=
            0) {
      continue;
    }
    // The port lies at the same place for IPv4 and IPv6.
    const auto& ip = reinterpret_cast<const sockaddr_in&>(address);
    if ((ip.sin_family == AF_INET || ip.sin_family == AF_INET6) &&
        ntohs(ip.sin_port) == port) {
      return shutdown(fd, SHUT_RDWR) == 0;
    }
  }
  return false;
}

}  // namespace ucudnn::test

#endif  // UCUDNN_TESTS_COORDINATOR_BREAK_LISTENER_H_
