#ifndef UCUDNN_BASE_ONNX_OPERANDS_H_
#define UCUDNN_BASE_ONNX_OPERANDS_H_

// What the ONNX library's inference takes for granted without looking: it
// reads dimensions and values that need not be there. A part of base/onnx.

#include <onnx/onnx_pb.h>

#include <vector>

#include "base/result.h"

namespace ucudnn {

// Whether every dimension is a number; a type's also if it has a shape at all.
bool IsKnown(const onnx::TensorShapeProto& shape);
bool IsKnown(const onnx::TypeProto& type);

// kInvalidArgument if inferring the node's shapes with inputs of these types
// (null where unknown) would read what is not there; kUnimplemented for the few
// operators whose inference cannot be trusted at all.
Status CheckOperands(const onnx::NodeProto& node,
                     const std::vector<const onnx::TypeProto*>& inputs);

// Whether the node's values may be computed from inputs that hold these (null
// where unknown).
bool MayCompute(const onnx::NodeProto& node,
                const std::vector<const onnx::TensorShapeProto*>& values);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_ONNX_OPERANDS_H_
