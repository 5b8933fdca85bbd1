#include "tests/support/reference_conv.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace ucudnn::test {
namespace {

// Distances between neighbours of a packed tensor: along its outermost
// dimension, its channels, and its three spatial ones.
struct Strides {
  std::int64_t outer = 0;
  std::int64_t channel = 0;
  Spatial spatial = {};
};

Strides PackedStrides(std::int64_t channels, const Spatial& extent,
                      Layout layout) {
  const std::int64_t pixels = extent[0] * extent[1] * extent[2];
  const std::int64_t pixel = layout == Layout::kNhwc ? channels : 1;
  return {channels * pixels, layout == Layout::kNhwc ? 1 : pixels,
          Spatial{extent[1] * extent[2] * pixel, extent[2] * pixel, pixel}};
}

float FromHalf(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int mantissa = bits & 1023;
  float value = 0;
  if (exponent == 31) {
    value = mantissa == 0 ? INFINITY : NAN;
  } else if (exponent == 0) {
    value = std::ldexp(static_cast<float>(mantissa), -24);
  } else {
    value = std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
  }
  return (bits & 0x8000) != 0 ? -value : value;
}

std::uint16_t ToHalf(double value) {
  const unsigned sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | 0x7e00);
  if (magnitude >= 65520) return static_cast<std::uint16_t>(sign | 0x7c00);
  // Rounds in units of the last place of its binade, or of the subnormals.
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  exponent = std::max(exponent - 1, -14);
  const auto units = static_cast<unsigned>(
      std::nearbyint(std::ldexp(magnitude, 10 - exponent)));
  // A carry out of the mantissa correctly raises the exponent.
  const unsigned bits =
      units < 1024 ? units : (unsigned(exponent + 14) << 10) + units;
  return static_cast<std::uint16_t>(sign | bits);
}

std::uint16_t ToBfloat(double value) {
  const auto narrow = static_cast<float>(value);
  std::uint32_t bits = 0;
  std::memcpy(&bits, &narrow, sizeof(bits));
  if (std::isnan(narrow)) return 0x7fc0;
  return static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

float FromBfloat(std::uint16_t bits) {
  const std::uint32_t wide = std::uint32_t{bits} << 16;
  float value = 0;
  std::memcpy(&value, &wide, sizeof(value));
  return value;
}

// Calls visit(input, filter, output) for every product of a convolution, with
// the positions of its three elements.
template <class Visit>
void ForEachProduct(const ConvProblem& problem, BatchSize batch,
                    const Visit& visit) {
  const ConvGeometry& g = problem.geometry;
  const Spatial out = g.output();
  const std::int64_t group_channels = g.channels / g.groups;
  const std::int64_t group_filters = g.filters / g.groups;
  const Strides x = PackedStrides(g.channels, g.input, problem.layout);
  const Strides w = PackedStrides(group_channels, g.filter, problem.layout);
  const Strides y = PackedStrides(g.filters, out, problem.layout);
  const auto dot = [](const Strides& s, std::int64_t n, std::int64_t c,
                      const Spatial& at) {
    return n * s.outer + c * s.channel + at[0] * s.spatial[0] +
           at[1] * s.spatial[1] + at[2] * s.spatial[2];
  };
  for (std::int64_t n = 0; n < batch.count() * g.images; ++n)
    for (std::int64_t k = 0; k < g.filters; ++k)
      for (std::int64_t od = 0; od < out[0]; ++od)
        for (std::int64_t oh = 0; oh < out[1]; ++oh)
          for (std::int64_t ow = 0; ow < out[2]; ++ow) {
            const Spatial o = {od, oh, ow};
            const std::int64_t output = dot(y, n, k, o);
            const std::int64_t first = k / group_filters * group_channels;
            for (std::int64_t t = 0; t < g.filter[0]; ++t)
              for (std::int64_t r = 0; r < g.filter[1]; ++r)
                for (std::int64_t s = 0; s < g.filter[2]; ++s) {
                  const Spatial f = {t, r, s};
                  Spatial i;
                  bool inside = true;
                  for (std::size_t d = 0; d < 3; ++d) {
                    i[d] = o[d] * g.stride[d] + f[d] * g.dilation[d] -
                           g.padding[d];
                    inside = inside && i[d] >= 0 && i[d] < g.input[d];
                  }
                  if (!inside) continue;
                  for (std::int64_t c = 0; c < group_channels; ++c) {
                    visit(dot(x, n, first + c, i), dot(w, k, c, f), output);
                  }
                }
          }
}

}  // namespace

OperandSizes SizesOf(const ConvProblem& problem, BatchSize batch) {
  const ConvGeometry& g = problem.geometry;
  const std::int64_t x = batch.count() * g.input_elements();
  const std::int64_t w = g.filter_elements();
  const std::int64_t y = batch.count() * g.output_elements();
  switch (problem.op) {
    case ConvOp::kForward:
      return {x, w, y};
    case ConvOp::kBackwardData:
      return {y, w, x};
    case ConvOp::kBackwardFilter:
      return {x, y, w};
  }
  return {};
}

ReferenceResult ReferenceConv(const ConvProblem& problem, BatchSize batch,
                              const std::vector<double>& a,
                              const std::vector<double>& b) {
  const OperandSizes sizes = SizesOf(problem, batch);
  UCUDNN_CHECK(std::int64_t(a.size()) == sizes.a);
  UCUDNN_CHECK(std::int64_t(b.size()) == sizes.b);
  ReferenceResult result;
  result.out.assign(std::size_t(sizes.out), 0.0);
  std::vector<double> magnitudes(std::size_t(sizes.out), 0.0);
  const auto add = [&](std::int64_t i, std::int64_t j, std::int64_t out) {
    const double product = a[std::size_t(i)] * b[std::size_t(j)];
    result.out[std::size_t(out)] += product;
    magnitudes[std::size_t(out)] += std::fabs(product);
  };
  ForEachProduct(problem, batch,
                 [&](std::int64_t x, std::int64_t w, std::int64_t y) {
                   switch (problem.op) {
                     case ConvOp::kForward:
                       add(x, w, y);
                       break;
                     case ConvOp::kBackwardData:
                       add(y, w, x);
                       break;
                     case ConvOp::kBackwardFilter:
                       add(x, y, w);
                       break;
                   }
                 });
  result.scale = *std::max_element(magnitudes.begin(), magnitudes.end());
  return result;
}

std::vector<double> ExactValues(std::int64_t count, std::uint64_t seed) {
  std::vector<double> values(static_cast<std::size_t>(count));
  std::uint64_t state = seed * 2 + 1;
  for (double& value : values) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    const auto step = static_cast<int>((state >> 33) % 16);  // 0 to 15
    value = (step < 8 ? step - 8 : step - 7) / 8.0;
  }
  return values;
}

std::vector<unsigned char> Encode(const std::vector<double>& values,
                                  Precision precision) {
  const auto size = static_cast<std::size_t>(ElementBytes(precision));
  std::vector<unsigned char> bytes(values.size() * size);
  for (std::size_t i = 0; i < values.size(); ++i) {
    unsigned char* const at = &bytes[i * size];
    if (size == 4) {
      const auto value = static_cast<float>(values[i]);
      std::memcpy(at, &value, size);
    } else {
      const std::uint16_t value = precision == Precision::kBf16
                                      ? ToBfloat(values[i])
                                      : ToHalf(values[i]);
      std::memcpy(at, &value, size);
    }
  }
  return bytes;
}

std::vector<double> Decode(const std::vector<unsigned char>& bytes,
                           Precision precision) {
  const auto size = static_cast<std::size_t>(ElementBytes(precision));
  std::vector<double> values(bytes.size() / size);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const unsigned char* const at = &bytes[i * size];
    if (size == 4) {
      float value = 0;
      std::memcpy(&value, at, size);
      values[i] = value;
    } else {
      std::uint16_t value = 0;
      std::memcpy(&value, at, size);
      values[i] =
          precision == Precision::kBf16 ? FromBfloat(value) : FromHalf(value);
    }
  }
  return values;
}

ConvProblem GroupedProblem(ConvOp op, Layout layout) {
  ConvProblem problem;
  problem.op = op;
  problem.layout = layout;
  problem.geometry.channels = 8;
  problem.geometry.filters = 12;
  problem.geometry.groups = 2;
  problem.geometry.input = {1, 9, 8};
  problem.geometry.filter = {1, 3, 2};
  problem.geometry.padding = {0, 1, 0};
  problem.geometry.stride = {1, 2, 1};
  problem.geometry.dilation = {1, 1, 2};
  return problem;
}

}  // namespace ucudnn::test
