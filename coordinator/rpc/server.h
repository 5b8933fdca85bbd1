#ifndef UCUDNN_COORDINATOR_RPC_SERVER_H_
#define UCUDNN_COORDINATOR_RPC_SERVER_H_

// The coordinator over gRPC: decode, call, encode. With health checking and
// reflection.

#include <memory>
#include <string>

#include "base/result.h"
#include "coordinator/coordinator.h"
#include "coordinator/metrics.h"

namespace ucudnn {

class RpcServer {
 public:
  // Listens on `address` ("host:port", port 0 for any free one).
  // kUnavailable if the address cannot be had.
  static Result<std::unique_ptr<RpcServer>> Start(const std::string& address,
                                                  Coordinator& coordinator,
                                                  Metrics& metrics);
  virtual ~RpcServer() = default;
  virtual int port() const = 0;
  // Answers what is under way for at most a second, then ends.
  virtual void Stop() = 0;
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_RPC_SERVER_H_
