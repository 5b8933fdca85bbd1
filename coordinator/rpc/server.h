#ifndef UCUDNN_COORDINATOR_RPC_SERVER_H_
#define UCUDNN_COORDINATOR_RPC_SERVER_H_

// The coordinator over gRPC, with health checking and reflection: the calls of
// calls.h. No call holds a thread but while it runs (dispatcher.h): requests
// and answers come and go through completion queues. Thread-safe.

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
  // OK unless connections are not accepted now (listener.h).
  virtual Status Accepting() const = 0;
  // What health checks are answered from now on; not serving at first.
  virtual void SetServing(bool serving) = 0;
  // Gives running calls a second to finish.
  virtual void Stop() = 0;
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_RPC_SERVER_H_
