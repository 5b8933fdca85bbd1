#ifndef UCUDNN_BASE_ONNX_RULE_H_
#define UCUDNN_BASE_ONNX_RULE_H_

// A rule gives the types of an operator's outputs; what rules share. Internal
// to base/onnx.

#include <vector>

#include "base/onnx/operation.h"
#include "base/result.h"

namespace ucudnn::rules {

using Types = std::vector<OnnxType>;
// The operands that the operator must have are there. Errors as for
// InferOutputs (base/onnx/rules.h).
using Rule = Result<Types> (*)(const OnnxOperation& op);

// One output with the element type of the first operand.
Types One(const OnnxOperation& op, TensorShape shape);

// The shape of operands that are repeated where they have one element.
// kInvalidArgument if they do not match.
Result<TensorShape> Joined(const TensorShape& a, const TensorShape& b);

// Which axes of the first operand a node is given by its attribute `axes` or
// this input: all of them if it is given none.
Result<std::vector<bool>> AxesOf(const OnnxOperation& op, std::size_t input);

// The rules in layout_rules.cc: of operators that view, cut, put together or
// make tensors.
Result<Types> Flatten(const OnnxOperation& op);
Result<Types> Reshape(const OnnxOperation& op);
Result<Types> Squeeze(const OnnxOperation& op);
Result<Types> Unsqueeze(const OnnxOperation& op);
Result<Types> Transpose(const OnnxOperation& op);
Result<Types> Blocks(const OnnxOperation& op);
Result<Types> Concat(const OnnxOperation& op);
Result<Types> Split(const OnnxOperation& op);
Result<Types> Slice(const OnnxOperation& op);
Result<Types> Gather(const OnnxOperation& op);
Result<Types> GatherElements(const OnnxOperation& op);
Result<Types> Pad(const OnnxOperation& op);
Result<Types> Resize(const OnnxOperation& op);
Result<Types> Expand(const OnnxOperation& op);
Result<Types> Tile(const OnnxOperation& op);
Result<Types> Shape(const OnnxOperation& op);
Result<Types> Size(const OnnxOperation& op);
Result<Types> Constant(const OnnxOperation& op);
Result<Types> ConstantOfShape(const OnnxOperation& op);
Result<Types> Range(const OnnxOperation& op);

}  // namespace ucudnn::rules

#endif  // UCUDNN_BASE_ONNX_RULE_H_
