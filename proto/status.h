#ifndef UCUDNN_PROTO_STATUS_H_
#define UCUDNN_PROTO_STATUS_H_

// Our errors and gRPC's have the same numbers. Answers of our services are
// marked, so that a client can tell a service's UNAVAILABLE from the
// transport's.

#include <grpcpp/support/status.h>

#include "base/result.h"

namespace ucudnn {

// The trailing metadata of a coordinator that has too much to do: for how many
// milliseconds to wait before another try, as gRPC's own retries understand it.
inline constexpr char kPushbackHeader[] = "grpc-retry-pushback-ms";

grpc::Status ToGrpc(const Status& status);
Status FromGrpc(const grpc::Status& status);

// A status that no service of ours made, with which clients go to the next
// coordinator: this one ends.
grpc::Status Stopping();

// Whether ToGrpc made this status, on either side of the wire: a success, or a
// failure with the mark.
bool IsFromService(const grpc::Status& status);

}  // namespace ucudnn

#endif  // UCUDNN_PROTO_STATUS_H_
