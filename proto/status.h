#ifndef UCUDNN_PROTO_STATUS_H_
#define UCUDNN_PROTO_STATUS_H_

// Our errors and gRPC's are numbered alike.

#include <grpcpp/support/status.h>

#include "base/result.h"

namespace ucudnn {

grpc::Status ToGrpc(const Status& status);
Status FromGrpc(const grpc::Status& status);

}  // namespace ucudnn

#endif  // UCUDNN_PROTO_STATUS_H_
