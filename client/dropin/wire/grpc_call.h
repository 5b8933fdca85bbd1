#ifndef UCUDNN_CLIENT_DROPIN_WIRE_GRPC_CALL_H_
#define UCUDNN_CLIENT_DROPIN_WIRE_GRPC_CALL_H_

// One unary gRPC call without the gRPC library, which must not be loaded into a
// user's process (docs/adr/0013): as much of HTTP/2 as one call on a fresh
// connection needs.

#include <string>
#include <string_view>

#include "base/result.h"
#include "client/dropin/wire/byte_stream.h"
#include "client/dropin/wire/wire_access.h"

namespace ucudnn {

// Calls `method` ("/ucudnn.v1.CoordinatorService/GetStatus") with a serialized
// message and returns the serialized answer, of at most 16 MiB, by the
// deadline.
//
// kUnauthenticated and kPermissionDenied: the service does not take what
// `access` shows; kUnavailable: no connection, or it ended early, or any other
// refusal, which the message names; kDeadlineExceeded; kInternal: the peer does
// not speak HTTP/2, or sends too much; errors of TlsClient::Connect.
Result<std::string> CallGrpc(std::string_view endpoint, std::string_view method,
                             std::string_view message, Deadline deadline,
                             const WireAccess& access = {});

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_DROPIN_WIRE_GRPC_CALL_H_
