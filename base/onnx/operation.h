#ifndef UCUDNN_BASE_ONNX_OPERATION_H_
#define UCUDNN_BASE_ONNX_OPERATION_H_

// One node of an ONNX model with what is known of its operands; internal to
// base/onnx.

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/onnx/conv.h"
#include "base/result.h"

namespace ucudnn {

// A tensor's type: every dimension is a number.
struct OnnxType {
  int element = 0;  // onnx::TensorProto::DataType
  TensorShape shape;
};

// Enough for every int64 and every double exactly.
using OnnxNumber = long double;

// All elements of a tensor, row by row.
using OnnxNumbers = std::vector<OnnxNumber>;

// The elements of a tensor in the model; absent if they lie elsewhere, are too
// many (kMaxOnnxValues) or of another type than bool, integers, float, double.
std::optional<OnnxNumbers> NumbersOf(const onnx::TensorProto& tensor);

struct OnnxOperation {
  const onnx::NodeProto& node;
  int opset;
  std::vector<const OnnxType*> types;       // of inputs; null where left out
  std::vector<const OnnxNumbers*> numbers;  // null where not known

  bool Has(std::size_t input) const {
    return input < types.size() && types[input] != nullptr;
  }
  const TensorShape& Shape(std::size_t input) const {
    return types[input]->shape;
  }
  // The axis of the first input that the attribute `axis` names.
  Result<std::size_t> Axis(std::int64_t absent) const;
  // The elements of an input, which must be integers. kNotFound if they are not
  // known; kInvalidArgument if they are not integers of 63 bits.
  Result<std::vector<std::int64_t>> Integers(std::size_t input) const;
  // The same of the attribute or, if there is none, of the input; absent if
  // there is neither.
  Result<std::optional<std::vector<std::int64_t>>> Integers(
      std::string_view attribute, std::size_t input) const;
};

// The node's attribute; null if it has none of this name.
const onnx::AttributeProto* FindAttribute(const onnx::NodeProto& node,
                                          std::string_view name);
std::int64_t IntegerAttribute(const onnx::NodeProto& node,
                              std::string_view name, std::int64_t absent);
std::string TextAttribute(const onnx::NodeProto& node, std::string_view name,
                          std::string_view absent);

// The axis that `axis`, counted from the end if negative, means of `rank`.
Result<std::size_t> AxisOf(std::int64_t axis, std::size_t rank);

// The product of all extents; `shape` has been counted (CheckedProduct).
std::int64_t ElementsOf(const TensorShape& shape);

// What a Slice reads along an axis: `count` elements from `first` on.
struct OnnxSlice {
  std::int64_t first = 0;
  std::int64_t step = 1;
  std::int64_t count = 0;
};
// For each axis of the Slice's operand. Errors as for OnnxOperation::Integers;
// kInvalidArgument too for operands that do not match.
Result<std::vector<OnnxSlice>> SlicesOf(const OnnxOperation& operation);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_ONNX_OPERATION_H_
