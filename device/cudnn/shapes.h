#ifndef UCUDNN_DEVICE_CUDNN_SHAPES_H_
#define UCUDNN_DEVICE_CUDNN_SHAPES_H_

// A convolution in the numbers that both of cuDNN's APIs take. Pure.

#include <array>
#include <cstdint>

#include "base/conv_problem.h"
#include "base/result.h"
#include "base/units.h"

namespace ucudnn::cudnn {

// A packed tensor. Dimensions are always in the order N, C, (D,) H, W, for a
// filter K, C, (T,) R, S; the layout shows in the strides alone.
struct TensorShape {
  int rank = 4;  // 4 or 5
  std::array<std::int64_t, 5> dims = {};
  std::array<std::int64_t, 5> strides = {};  // in elements
};

struct ConvShapes {
  int spatial_dims = 2;
  TensorShape input;
  TensorShape filter;  // C over one group
  TensorShape output;
  // The first `spatial_dims` count.
  std::array<std::int64_t, 3> padding = {};
  std::array<std::int64_t, 3> stride = {};
  std::array<std::int64_t, 3> dilation = {};
};

// The shapes of `batch` images. kInvalidArgument if the geometry is not valid
// or the batch not in [1, kMaxBatchSize]; kUnimplemented if a dimension or
// stride exceeds the 31 bits that cuDNN counts in.
Result<ConvShapes> ShapesOf(const ConvProblem& problem, BatchSize batch);

// The largest power of two, up to 16, that divides the address of every image
// of a tensor that starts at a multiple of 16 and has `image_elements` per
// image: the alignment that pointers to micro-batches are guaranteed to have.
std::int64_t ImageAlignment(std::int64_t image_elements, Precision precision);

}  // namespace ucudnn::cudnn

#endif  // UCUDNN_DEVICE_CUDNN_SHAPES_H_
