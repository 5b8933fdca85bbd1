#ifndef UCUDNN_COORDINATOR_LISTENER_H_
#define UCUDNN_COORDINATOR_LISTENER_H_

// Listens for gRPC and for HTTP. gRPC's own listener takes connections until no
// descriptor is left, for REST, probes and the database either, and then never
// accepts again.
//
//   UCUDNN_ASSIGN_OR_RETURN(const auto listener, Listener::Open(
//       "127.0.0.1:0", "HTTP", 0, [](int connection) { ... }));
//   listener->Start();

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"

namespace ucudnn {

class Listener {
 public:
  // Gets accepted connections, non-blocking ones, and closes them.
  using Take = std::function<void(int connection)>;

  // Listens on "host:port", port 0 for any free one, for `protocol`, as errors
  // call it. Connections are closed at once while fewer than `reserved`
  // descriptors of the process, or half of them, are left. kUnavailable if it
  // cannot listen.
  static Result<std::unique_ptr<Listener>> Open(const std::string& address,
                                                const std::string& protocol,
                                                std::size_t reserved,
                                                Take take);
  ~Listener();

  // Calls `take` from now on, on a thread of its own. If it cannot accept any
  // more, it opens its sockets again, on the same port.
  void Start();
  // Accepts nothing from now on.
  void Stop();
  int port() const;
  // kUnavailable while connections are not accepted, and why. Thread-safe.
  Status Accepting() const;

 private:
  class Sockets;
  explicit Listener(std::unique_ptr<Sockets> sockets);

  const std::unique_ptr<Sockets> sockets_;
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_LISTENER_H_
