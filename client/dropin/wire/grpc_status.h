#ifndef UCUDNN_CLIENT_DROPIN_WIRE_GRPC_STATUS_H_
#define UCUDNN_CLIENT_DROPIN_WIRE_GRPC_STATUS_H_

// A call's status, from HTTP/2 headers (RFC 7541).

#include <string>
#include <string_view>

#include "base/result.h"

namespace ucudnn {

struct GrpcStatus {
  Code code = Code::kOk;  // kUnknown if it is none of gRPC's
  std::string message;    // as Excerpt (base/text.h) quotes 1 KiB of it

  friend bool operator==(const GrpcStatus&, const GrpcStatus&) = default;
};

// Takes grpc-status and grpc-message from a block of headers, as far as it is
// understood: not what is Huffman-coded, which gRPC's servers send none of, and
// not what refers to earlier headers, which we ask peers not to do
// (SETTINGS_HEADER_TABLE_SIZE 0).
void ReadGrpcStatus(std::string_view block, GrpcStatus* status);

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_DROPIN_WIRE_GRPC_STATUS_H_
