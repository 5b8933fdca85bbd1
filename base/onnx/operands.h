#ifndef UCUDNN_BASE_ONNX_OPERANDS_H_
#define UCUDNN_BASE_ONNX_OPERANDS_H_

// Checks what the ONNX library's shape inference assumes unchecked: it reads
// dimensions that may be missing. Internal to base/onnx.

#include <onnx/onnx_pb.h>

#include <vector>

#include "base/onnx/operation.h"
#include "base/result.h"

namespace ucudnn {

// kInvalidArgument if inferring the node's shapes with inputs of these types
// (null where left out) would read missing dimensions; kUnimplemented for the
// few operators whose inference cannot be trusted at all.
Status CheckOperands(const onnx::NodeProto& node,
                     const std::vector<const OnnxType*>& inputs);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_ONNX_OPERANDS_H_
