#ifndef UCUDNN_BASE_ONNX_SHAPES_H_
#define UCUDNN_BASE_ONNX_SHAPES_H_

// Shape inference by the ONNX library; internal to base/onnx.

#include <onnx/onnx_pb.h>

#include <string>
#include <unordered_map>

#include "base/onnx/model.h"
#include "base/result.h"

namespace ucudnn {

using OnnxTypes = std::unordered_map<std::string, onnx::TypeProto>;

// The type of every input and of every tensor the nodes compute, by name; if it
// cannot be inferred, the type that the model declares, or an unset one. Values
// that shapes depend on (sizes given to Resize) are computed if the inputs'
// shapes and constants determine them. kInvalidArgument, naming the node, if
// the model is not valid.
Result<OnnxTypes> InferOnnxTypes(const OnnxModel& model);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_ONNX_SHAPES_H_
