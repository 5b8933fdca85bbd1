#ifndef UCUDNN_BASE_ONNX_SHAPES_H_
#define UCUDNN_BASE_ONNX_SHAPES_H_

// The types of a model's tensors; internal to base/onnx.

#include <string>
#include <unordered_map>

#include "base/onnx/model.h"
#include "base/onnx/operation.h"
#include "base/result.h"

namespace ucudnn {

using OnnxTypes = std::unordered_map<std::string, OnnxType>;

// The type of every input and of every tensor the nodes compute, by name. It
// comes from base/onnx/rules.h or, for operators without a rule there, from the
// model (value_info), or else from the ONNX library if it knows the model's
// version of the operator. Numbers that shapes depend on (a Reshape's) are
// computed if the inputs' shapes and constants determine them.
// kInvalidArgument or kUnimplemented, naming the node, if the model is not
// valid or a type cannot be inferred.
Result<OnnxTypes> InferOnnxTypes(const OnnxModel& model);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_ONNX_SHAPES_H_
