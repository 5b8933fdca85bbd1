// Replaces what needs the ONNX library in builds without it.

#include "base/onnx/input_shape.h"
#include "base/onnx/onnx.h"

namespace ucudnn {
namespace {

tl::unexpected<Error> WithoutOnnx(std::string_view source) {
  return Fail(Code::kUnimplemented,
              "{}: this build reads no ONNX models (it was configured with "
              "UCUDNN_WITH_ONNX=OFF); a network as CSV is accepted",
              source);
}

}  // namespace

Result<Graph> ReadOnnx(std::string_view, std::string_view, BatchSize,
                       std::string_view source) {
  return WithoutOnnx(source);
}

Result<std::string> WithoutWeights(std::string_view, std::string_view source) {
  return WithoutOnnx(source);
}

Result<std::string> WithInputShapes(std::string_view,
                                    const std::vector<InputShape>&,
                                    std::string_view source) {
  return WithoutOnnx(source);
}

}  // namespace ucudnn
