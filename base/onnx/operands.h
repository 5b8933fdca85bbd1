#ifndef UCUDNN_BASE_ONNX_OPERANDS_H_
#define UCUDNN_BASE_ONNX_OPERANDS_H_

// Checks what the ONNX library's shape inference assumes unchecked: it reads
// dimensions and values that may be missing. Internal to base/onnx.

#include <onnx/onnx_pb.h>

#include <vector>

#include "base/result.h"

namespace ucudnn {

// Whether every dimension is a number and, for a type, whether it has a shape.
bool IsKnown(const onnx::TensorShapeProto& shape);
bool IsKnown(const onnx::TypeProto& type);

// kInvalidArgument if inferring the node's shapes with inputs of these types
// (null where unknown) would read missing dimensions or values; kUnimplemented
// for the few operators whose inference cannot be trusted at all.
Status CheckOperands(const onnx::NodeProto& node,
                     const std::vector<const onnx::TypeProto*>& inputs);

// Whether the node's values may be computed from inputs that hold these (null
// where unknown). What it computes is not longer than they are together, at
// most kMaxOnnxValues (base/limits.h).
bool MayCompute(const onnx::NodeProto& node,
                const std::vector<const onnx::TensorShapeProto*>& values);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_ONNX_OPERANDS_H_
