#include "proto/status.h"

namespace ucudnn {

grpc::Status ToGrpc(const Status& status) {
  if (status) return grpc::Status::OK;
  return {static_cast<grpc::StatusCode>(status.error().code),
          status.error().message};
}

Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return {};
  return tl::unexpected<Error>(
      Error{static_cast<Code>(status.error_code()), status.error_message()});
}

}  // namespace ucudnn
