#include "proto/status.h"

#include <string>

namespace ucudnn {

grpc::Status ToGrpc(const Status& status) {
  if (status) return grpc::Status::OK;
  const auto code = static_cast<char>(status.error().code);
  // The details are a google.rpc.Status by convention; these are its first
  // field, the code, as tag and value.
  return {static_cast<grpc::StatusCode>(status.error().code),
          status.error().message, std::string{'\x08', code}};
}

grpc::Status Stopping() {
  return {grpc::StatusCode::UNAVAILABLE, "the coordinator is stopping"};
}

bool IsFromService(const grpc::Status& status) {
  return status.ok() || !status.error_details().empty();
}

Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return {};
  return tl::unexpected<Error>(
      Error{static_cast<Code>(status.error_code()), status.error_message()});
}

}  // namespace ucudnn
