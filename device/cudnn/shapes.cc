#include "device/cudnn/shapes.h"

#include <limits>

namespace ucudnn::cudnn {
namespace {

// `extents` are in the order depth, height, width.
TensorShape Packed(std::int64_t outer, std::int64_t channels,
                   const Spatial& extents, int spatial_dims, Layout layout) {
  TensorShape shape;
  shape.rank = spatial_dims + 2;
  shape.dims[0] = outer;
  shape.dims[1] = channels;
  const auto spatial = static_cast<std::size_t>(spatial_dims);
  for (std::size_t i = 0; i < spatial; ++i) {
    shape.dims[2 + i] = extents[3 - spatial + i];
  }
  std::int64_t stride = 1;
  if (layout == Layout::kNhwc) {
    shape.strides[1] = 1;
    stride = channels;
  }
  for (std::size_t i = 1 + spatial; i >= 2; --i) {
    shape.strides[i] = stride;
    stride *= shape.dims[i];
  }
  if (layout == Layout::kNchw) {
    shape.strides[1] = stride;
    stride *= channels;
  }
  shape.strides[0] = stride;
  return shape;
}

bool FitsInt(const TensorShape& shape) {
  constexpr std::int64_t kMax = std::numeric_limits<int>::max();
  for (std::size_t i = 0; i < shape.dims.size(); ++i) {
    if (shape.dims[i] > kMax || shape.strides[i] > kMax) return false;
  }
  return true;
}

}  // namespace

Result<ConvShapes> ShapesOf(const ConvProblem& problem, BatchSize batch) {
  const ConvGeometry& g = problem.geometry;
  UCUDNN_RETURN_IF_ERROR(Validate(g));
  if (batch < BatchSize(1) || batch > kMaxBatchSize) {
    return Fail(Code::kInvalidArgument, "a batch of {} is not in [1, {}]",
                batch.count(), kMaxBatchSize.count());
  }
  ConvShapes shapes;
  shapes.spatial_dims = g.spatial_dims;
  const int n = g.spatial_dims;
  shapes.input = Packed(batch.count(), g.channels, g.input, n, problem.layout);
  shapes.filter =
      Packed(g.filters, g.channels / g.groups, g.filter, n, problem.layout);
  shapes.output =
      Packed(batch.count(), g.filters, g.output(), n, problem.layout);
  const auto spatial = static_cast<std::size_t>(n);
  for (std::size_t i = 0; i < spatial; ++i) {
    const std::size_t from = 3 - spatial + i;
    shapes.padding[i] = g.padding[from];
    shapes.stride[i] = g.stride[from];
    shapes.dilation[i] = g.dilation[from];
  }
  constexpr std::int64_t kMax = std::numeric_limits<int>::max();
  bool fits =
      FitsInt(shapes.input) && FitsInt(shapes.filter) && FitsInt(shapes.output);
  for (std::size_t i = 0; i < 3; ++i) {
    fits = fits && shapes.padding[i] <= kMax && shapes.stride[i] <= kMax &&
           shapes.dilation[i] <= kMax;
  }
  if (!fits) {
    return Fail(Code::kUnimplemented,
                "{}: an image has more elements than cuDNN can count ({})",
                ToString(problem), kMax);
  }
  return shapes;
}

std::int64_t ImageAlignment(std::int64_t image_elements, Precision precision) {
  const std::int64_t bytes = image_elements * ElementBytes(precision);
  std::int64_t alignment = 16;
  while (bytes % alignment != 0) alignment /= 2;
  return alignment;
}

}  // namespace ucudnn::cudnn
