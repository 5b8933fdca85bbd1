#ifndef UCUDNN_BASE_ONNX_CHECKS_H_
#define UCUDNN_BASE_ONNX_CHECKS_H_

// Refuses what the ONNX library must not see, and what plans cannot contain;
// internal to base/onnx. Errors as for ReadOnnx.

#include <onnx/onnx_pb.h>

#include "base/result.h"

namespace ucudnn {

// A tensor that the library reads. It would look for data in other files.
Status CheckRead(const onnx::TensorProto& tensor);

// The nodes and initializers; also refuses nodes that may contain convolutions
// we would miss.
Status CheckNodes(const onnx::ModelProto& model);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_ONNX_CHECKS_H_
