#ifndef UCUDNN_BASE_ONNX_RULES_H_
#define UCUDNN_BASE_ONNX_RULES_H_

// What the operators that networks consist of compute, of every version of the
// operator set: their outputs' types, and the numbers that shapes depend on.
// Internal to base/onnx.

#include <optional>
#include <vector>

#include "base/onnx/operation.h"
#include "base/result.h"

namespace ucudnn {

// The types of the outputs; absent for operators without a rule. kNotFound if
// they depend on numbers that are not known; kInvalidArgument, or
// kUnimplemented for convolutions (ConvolutionOf), if the operands or
// attributes are not accepted.
Result<std::optional<std::vector<OnnxType>>> InferOutputs(
    const OnnxOperation& operation);

// The elements of each output, as far as they follow from known ones and from
// shapes, for outputs of these types with at most kMaxOnnxValues elements in
// all.
std::vector<std::optional<OnnxNumbers>> ComputeOutputs(
    const OnnxOperation& operation, const std::vector<OnnxType>& outputs);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_ONNX_RULES_H_
