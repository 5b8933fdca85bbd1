#include "client/dropin/wire/grpc_status.h"
#include "tests/fuzz/fuzz.h"

namespace ucudnn {

// A code of gRPC's and something that can be printed, whatever was sent.
UCUDNN_FUZZ(grpc_status, text) {
  GrpcStatus status;
  ReadGrpcStatus(text, &status);
  UCUDNN_CHECK(CodeName(status.code) != "");
  UCUDNN_CHECK(IsPlainText(status.message));
  UCUDNN_CHECK(status.message.size() <= 4 * 1024 + 3);
}

}  // namespace ucudnn
