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
// Whether it is one that PoolingOf reads.
bool IsPooling(const onnx::NodeProto& node);

// An evenly padded convolution for a node that pads one side more than the
// other, as TensorFlow's SAME does at stride 2: the elements to add around its
// input or, if it is transposed, to take away from around its output.
struct PaddedConvolution {
  NodeConvolution convolution;
  Spatial before = {0, 0, 0};
  Spatial after = {0, 0, 0};
  TensorShape output;  // the node's

  bool IsPadded() const { return before != Spatial{} || after != Spatial{}; }
};

// The convolution of `node`, from its attributes and the shapes of its first
// two inputs. Errors as for ReadOnnx, without the node's name.
Result<PaddedConvolution> ConvolutionOf(const onnx::NodeProto& node,
                                        const TensorShape& input,
                                        const TensorShape& filter);

// What a MaxPool or AveragePool makes of its input.
struct PooledShape {
  TensorShape output;
  // Where it rounds up, the padding after is as large as the output needs.
  // Absent if the windows are dilated or their padding is negative.
  std::optional<std::array<Window, 3>> windows;
};

// Errors as for ConvolutionOf.
Result<PooledShape> PoolingOf(const onnx::NodeProto& node,
                              const TensorShape& input);

// What the node divides by, if it is an AveragePool with these windows.
Divisor DivisorOf(const onnx::NodeProto& node,
                  const std::array<Window, 3>& windows);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_ONNX_CONV_H_
