#ifndef UCUDNN_TESTS_CLIENT_DROPIN_ASK_LISTENER_H_
#define UCUDNN_TESTS_CLIENT_DROPIN_ASK_LISTENER_H_

// Ports that are not services of REST.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "base/result.h"

namespace ucudnn::test {

// A port where nobody listens and nobody else can.
class ClosedPort {
 public:
  ClosedPort() : descriptor_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const raw = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof(address);
    UCUDNN_CHECK(bind(descriptor_, raw, size) == 0);
    UCUDNN_CHECK(getsockname(descriptor_, raw, &size) == 0);
    port_ = ntohs(address.sin_port);
  }
  ClosedPort(const ClosedPort&) = delete;
  ClosedPort& operator=(const ClosedPort&) = delete;
  ~ClosedPort() { close(descriptor_); }

  int descriptor() const { return descriptor_; }
  std::string address() const { return fmt::format("127.0.0.1:{}", port_); }

 private:
  int descriptor_;
  int port_ = 0;
};

// A listening socket; connections wait in its queue until it is told to answer.
class Listener {
 public:
  Listener() { UCUDNN_CHECK(listen(port_.descriptor(), 8) == 0); }
  ~Listener() {
    if (thread_.joinable()) thread_.join();
  }

  // Hands the next connection to `serve`, and closes it.
  void Serve(std::function<void(int connection)> serve) {
    thread_ = std::thread([this, serve = std::move(serve)] {
      const int connection = accept(port_.descriptor(), nullptr, nullptr);
      serve(connection);
      close(connection);
    });
  }

  // Answers the next connection with `text`, and closes it.
  void Say(std::string text) {
    Serve([text = std::move(text)](int connection) {
      // Wait for the request, because closing early could discard the answer.
      char byte = 0;
      (void)!read(connection, &byte, 1);
      (void)!write(connection, text.data(), text.size());
      shutdown(connection, SHUT_WR);
      while (read(connection, &byte, 1) > 0) {
      }
    });
  }

  std::string address() const { return port_.address(); }

 private:
  ClosedPort port_;  // until the constructor listens
  std::thread thread_;
};

}  // namespace ucudnn::test

#endif  // UCUDNN_TESTS_CLIENT_DROPIN_ASK_LISTENER_H_
