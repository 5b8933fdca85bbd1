#ifndef UCUDNN_CLIENT_DROPIN_WIRE_GRPC_CALL_H_
#define UCUDNN_CLIENT_DROPIN_WIRE_GRPC_CALL_H_

// One unary call to a gRPC service without gRPC's library, which has no place
// in a stranger's process (docs/adr/0014): HTTP/2 as far as one call on a fresh
// connection without TLS needs it.

#include <string>
#include <string_view>

#include "base/result.h"
#include "client/dropin/wire/tcp.h"

namespace ucudnn {

// Calls `method` ("/ucudnn.v1.CoordinatorService/GetStatus") with a serialized
// message and returns the answer's, of at most 16 MiB. All is over by the
// deadline.
//
// kUnavailable: no connection, or one that ended early, or an answer without a
// message, which is how a service refuses; kDeadlineExceeded; kInternal: what
// answered does not speak HTTP/2, or too much.
Result<std::string> CallGrpc(std::string_view endpoint, std::string_view method,
                             std::string_view message, Deadline deadline);

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_DROPIN_WIRE_GRPC_CALL_H_
