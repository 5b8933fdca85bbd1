#ifndef UCUDNN_BASE_ONNX_CONV_H_
#define UCUDNN_BASE_ONNX_CONV_H_

// The geometry of ONNX's Conv and ConvTranspose nodes; internal to base/onnx.

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <vector>

#include "base/graph.h"
#include "base/result.h"

namespace ucudnn {

using TensorShape = std::vector<std::int64_t>;

// Whether the node is a convolution that ConvolutionOf reads.
bool IsConvolution(const onnx::NodeProto& node);

// The convolution of `node`, from its attributes and the shapes of its first
// two inputs and its output. Errors as for ReadOnnx, without the node's name.
Result<NodeConvolution> ConvolutionOf(const onnx::NodeProto& node,
                                      const TensorShape& input,
                                      const TensorShape& filter,
                                      const TensorShape& output);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_ONNX_CONV_H_
