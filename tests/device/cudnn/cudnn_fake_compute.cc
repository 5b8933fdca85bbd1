#include <array>
#include <cmath>

#include "tests/device/cudnn/cudnn_fake.h"

namespace ucudnn::cudnn {
namespace {

// The attributes of the operation's three forms, in the order forward,
// backward_data, backward_filter.
using Forms = std::array<int, 3>;
constexpr Forms kConvolution = {
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC};
constexpr Forms kInput = {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X};
constexpr Forms kFilter = {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW};
constexpr Forms kOutput = {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY};
constexpr Forms kAlpha = {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA};
constexpr Forms kBeta = {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
                         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
                         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};

using Four = std::array<std::int64_t, 4>;

struct View {
  Four dims = {};
  Four strides = {};
  float* data = nullptr;

  std::int64_t count() const { return dims[0] * dims[1] * dims[2] * dims[3]; }
  std::size_t At(std::int64_t n, std::int64_t c, std::int64_t y,
                 std::int64_t x) const {
    return static_cast<std::size_t>(n * strides[0] + c * strides[1] +
                                    y * strides[2] + x * strides[3]);
  }
};

View ViewOf(const FakeDescriptor& operation, int attribute, const void* data) {
  const auto& tensor = *reinterpret_cast<const FakeDescriptor*>(
      operation.ints.at(attribute).at(0));
  View view;
  for (std::size_t i = 0; i < 4; ++i) {
    view.dims[i] = tensor.ints.at(CUDNN_ATTR_TENSOR_DIMENSIONS).at(i);
    view.strides[i] = tensor.ints.at(CUDNN_ATTR_TENSOR_STRIDES).at(i);
  }
  view.data = static_cast<float*>(const_cast<void*>(data));
  return view;
}

}  // namespace

void ComputeFake(const FakeDescriptor& operation,
                 const std::vector<const void*>& pointers,
                 std::int64_t engine) {
  std::size_t form = 0;
  while (operation.ints.count(kConvolution[form]) == 0) ++form;
  const View x = ViewOf(operation, kInput[form], pointers[0]);
  const View w = ViewOf(operation, kFilter[form], pointers[1]);
  const View y = ViewOf(operation, kOutput[form], pointers[2]);
  const View& out = form == 0 ? y : form == 1 ? x : w;
  if (Fake().memory.count(out.data) == 0) return;
  const auto& convolution = *reinterpret_cast<const FakeDescriptor*>(
      operation.ints.at(kConvolution[form]).at(0));
  const auto& stride =
      convolution.ints.at(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
  const auto& dilation = convolution.ints.at(CUDNN_ATTR_CONVOLUTION_DILATIONS);
  const auto& padding =
      convolution.ints.at(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);

  std::vector<double> sums(static_cast<std::size_t>(out.count()));
  std::vector<double> magnitudes(sums.size());
  const auto add = [&](std::size_t to, float a, float b) {
    sums[to] += double{a} * double{b};
    magnitudes[to] += std::fabs(double{a} * double{b});
  };
  const auto visit = [&](std::int64_t n, std::int64_t k, std::int64_t c,
                         std::int64_t oy, std::int64_t ox, std::int64_t r,
                         std::int64_t s) {
    const std::int64_t iy = oy * stride[0] - padding[0] + r * dilation[0];
    const std::int64_t ix = ox * stride[1] - padding[1] + s * dilation[1];
    if (iy < 0 || ix < 0 || iy >= x.dims[2] || ix >= x.dims[3]) return;
    // The filter's number of channels reveals the groups.
    const std::int64_t group = k / (y.dims[1] / (x.dims[1] / w.dims[1]));
    const std::size_t in_x = x.At(n, group * w.dims[1] + c, iy, ix);
    const std::size_t in_w = w.At(k, c, r, s);
    const std::size_t in_y = y.At(n, k, oy, ox);
    if (form == 0) add(in_y, x.data[in_x], w.data[in_w]);
    if (form == 1) add(in_x, y.data[in_y], w.data[in_w]);
    if (form == 2) add(in_w, x.data[in_x], y.data[in_y]);
  };
  for (std::int64_t n = 0; n < y.dims[0]; ++n) {
    for (std::int64_t k = 0; k < w.dims[0]; ++k) {
      for (std::int64_t c = 0; c < w.dims[1]; ++c) {
        for (std::int64_t i = 0; i < y.dims[2] * y.dims[3]; ++i) {
          for (std::int64_t j = 0; j < w.dims[2] * w.dims[3]; ++j) {
            visit(n, k, c, i / y.dims[3], i % y.dims[3], j / w.dims[3],
                  j % w.dims[3]);
          }
        }
      }
    }
  }
  const float alpha = operation.floats.at(kAlpha[form]).at(0);
  float beta = operation.floats.at(kBeta[form]).at(0);
  if (Fake().ignoring_beta.count(engine) != 0) beta = 0;
  if (Fake().adding_always.count(engine) != 0) beta = 1;
  const double off = Fake().imprecise.count(engine) != 0 ? 1e-4 : 0;
  const std::size_t last =
      sums.size() - (Fake().unfinished.count(engine) != 0 ? 1 : 0);
  for (std::size_t i = 0; i < last; ++i) {
    double value = alpha * (sums[i] + off * magnitudes[i]);
    if (beta != 0) value += double{beta} * double{out.data[i]};
    out.data[i] = static_cast<float>(value);
  }
}

}  // namespace ucudnn::cudnn
