#ifndef UCUDNN_CLIENT_DROPIN_WIRE_GRPC_CALL_H_
#define UCUDNN_CLIENT_DROPIN_WIRE_GRPC_CALL_H_

// One unary gRPC call without the gRPC library, which must not be loaded into a
// user's process (docs/adr/0013): as much of HTTP/2 as one call on a fresh
// connection without TLS needs.

#include <string>
#include <string_view>

#include "base/result.h"
#include "client/dropin/wire/tcp.h"

namespace ucudnn {

// Calls `method` ("/ucudnn.v1.CoordinatorService/GetStatus") with a serialized
// message and returns the serialized answer, of at most 16 MiB, by the
// deadline.
//
// kUnavailable: no connection, or it ended early, or an answer without a
// message, which is how a service refuses; kDeadlineExceeded; kInternal: the
// peer does not speak HTTP/2, or sends too much.
Result<std::string> CallGrpc(std::string_view endpoint, std::string_view method,
                             std::string_view message, Deadline deadline);

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_DROPIN_WIRE_GRPC_CALL_H_
