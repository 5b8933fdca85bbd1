#ifndef UCUDNN_BASE_ONNX_CONV_H_
#define UCUDNN_BASE_ONNX_CONV_H_

// The geometry of ONNX's Conv and ConvTranspose nodes, and the windows of its
// pooling nodes; internal to base/onnx.

#include <onnx/onnx_pb.h>

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/graph.h"
#include "base/result.h"

namespace ucudnn {

using TensorShape = std::vector<std::int64_t>;

// Whether the node is a convolution that ConvolutionOf reads.
bool IsConvolution(const onnx::NodeProto& node);

// A convolution of its input with these elements added around it, because it is
// padded unevenly: TensorFlow's SAME at stride 2 pads one side more.
struct PaddedConvolution {
  NodeConvolution convolution;
  Spatial before = {0, 0, 0};
  Spatial after = {0, 0, 0};

  bool IsPadded() const { return before != Spatial{} || after != Spatial{}; }
};

// The convolution of `node`, from its attributes and the shapes of its first
// two inputs and its output. Errors as for ReadOnnx, without the node's name.
Result<PaddedConvolution> ConvolutionOf(const onnx::NodeProto& node,
                                        const TensorShape& input,
                                        const TensorShape& filter,
                                        const TensorShape& output);

// The windows of a MaxPool or AveragePool, from its attributes and the shapes
// of its input and output. Where it rounds up, the padding after is as large as
// its output needs. Absent for other nodes, for dilated windows, and for
// attributes that do not agree with the shapes.
std::optional<std::array<Window, 3>> PoolingOf(const onnx::NodeProto& node,
                                               const TensorShape& input,
                                               const TensorShape& output);

// What the node divides by, if it is an AveragePool with these windows.
Divisor DivisorOf(const onnx::NodeProto& node,
                  const std::array<Window, 3>& windows);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_ONNX_CONV_H_
