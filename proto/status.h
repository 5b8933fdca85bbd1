#ifndef UCUDNN_PROTO_STATUS_H_
#define UCUDNN_PROTO_STATUS_H_

// Our errors and gRPC's are numbered alike. What a service of ours answers is
// marked, so that a client tells its UNAVAILABLE from that of a transport that
// did not get there.

#include <grpcpp/support/status.h>

#include "base/result.h"

namespace ucudnn {

grpc::Status ToGrpc(const Status& status);
Status FromGrpc(const grpc::Status& status);

// Whether ToGrpc made this status, on the other side of the wire or on this
// one: a success, or a failure with the mark.
bool IsFromService(const grpc::Status& status);

}  // namespace ucudnn

#endif  // UCUDNN_PROTO_STATUS_H_
