// Replaces onnx.cc in builds without ONNX.

#include "base/onnx/onnx.h"

namespace ucudnn {

Result<Graph> ReadOnnx(std::string_view, std::string_view, BatchSize,
                       std::string_view source) {
  return Fail(Code::kUnimplemented,
              "{}: this build reads no ONNX models (it was configured with "
              "UCUDNN_WITH_ONNX=OFF); a network as CSV is accepted",
              source);
}

}  // namespace ucudnn
