#ifndef UCUDNN_COORDINATOR_RPC_ACCEPTOR_H_
#define UCUDNN_COORDINATOR_RPC_ACCEPTOR_H_

// Listens for gRPC. Its own listener takes connections until no descriptor is
// left, for REST, probes and the database either, and then never accepts again.
//
//   UCUDNN_ASSIGN_OR_RETURN(const auto acceptor, Acceptor::Listen(
//       "127.0.0.1:0", [](int connection) { ... }));
//   acceptor->Start();

#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"

namespace ucudnn {

class Acceptor {
 public:
  // Gets accepted connections, non-blocking ones, and closes them.
  using Take = std::function<void(int connection)>;

  // Listens on "host:port", port 0 for any free one. kUnavailable if it cannot.
  static Result<std::unique_ptr<Acceptor>> Listen(const std::string& address,
                                                  Take take);
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  // Calls `take` from now on, on a thread of its own.
  void Start();
  // Accepts nothing from now on.
  void Stop();

  int port() const { return port_; }
  // Where connections of this host reach it: the addresses it listens on, or
  // loopback's if it listens on all.
  std::vector<sockaddr_storage> own_addresses() const;
  // Whether it closed the last connection at once, since few descriptors are
  // left (kReservedDescriptors).
  bool full() const { return full_; }
  // Whether it can accept nothing any more, until Reopen succeeds.
  bool broken() const { return broken_; }
  Status Reopen();

 private:
  Acceptor(std::string address, Take take);
  // Opens the sockets of the address.
  Status Open();
  void Run();
  // Accepts what waits at a socket; false if it never will again.
  bool AcceptAll(int socket);
  bool IsFull();

  const std::string address_;
  const Take take_;
  const int stop_;  // an eventfd
  int port_ = 0;
  std::vector<int> sockets_;
  std::atomic<bool> full_ = false;
  std::atomic<bool> broken_ = false;
  // At most so many descriptors are open: those counted last and the
  // connections since.
  std::size_t open_ = 0;
  std::chrono::steady_clock::time_point counted_;
  std::thread thread_;
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_RPC_ACCEPTOR_H_
