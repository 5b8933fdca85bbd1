#ifndef UCUDNN_COORDINATOR_RPC_SERVER_H_
#define UCUDNN_COORDINATOR_RPC_SERVER_H_

// The coordinator over gRPC, with health checking and reflection.
// Thread-safe.

#include <chrono>
#include <memory>
#include <string>

#include "base/result.h"
#include "coordinator/limits.h"

namespace ucudnn {

class Dispatcher;

class RpcServer {
 public:
  // Listens on `address` ("host:port", port 0 for any free one).
  // kUnavailable if it cannot.
  // Calls end whose answers are not read for `patience`.
  static Result<std::unique_ptr<RpcServer>> Start(
      const std::string& address, Dispatcher& dispatcher,
      std::chrono::milliseconds patience = kRpcPatience);
  virtual ~RpcServer() = default;
  virtual int port() const = 0;
  // OK unless hardly a thread is free for calls, or new connections have not
  // been accepted lately. A listener that
  // stopped accepting, as gRPC's does when descriptors run out, is set up
  // again; this ends the connections that were open.
  virtual Status Accepting() const = 0;
  // What health checks are answered from now on; not serving at first.
  virtual void SetServing(bool serving) = 0;
  // Gives running calls a second to finish.
  virtual void Stop() = 0;
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_RPC_SERVER_H_
