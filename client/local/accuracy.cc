#include "client/local/accuracy.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

namespace ucudnn {
namespace {

// Enough to find the larger errors; fewer where each is a long sum.
std::size_t SamplesOf(ConvOp op) {
  return op == ConvOp::kBackwardFilter ? 128 : 512;
}

constexpr double kUseless = std::numeric_limits<double>::infinity();

// A sequence that is the same everywhere.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t Next() {
    state_ += 0x9e3779b97f4a7c15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }
  // Uniform in [-1, 1), with the mantissa of a float.
  float Unit() { return static_cast<float>(Next() >> 40) * 0x1p-23F - 1.0F; }
  std::int64_t Below(std::int64_t n) {
    return static_cast<std::int64_t>(Next() % static_cast<std::uint64_t>(n));
  }

 private:
  std::uint64_t state_;
};

// Half and bfloat16 as the upper bits of a float, for values in [-1, 1] with
// few enough bits in the mantissa.
std::uint16_t Narrow(float value, Precision precision) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  if (precision == Precision::kBf16) {
    return static_cast<std::uint16_t>(bits >> 16);
  }
  if (value == 0) return 0;
  const std::uint32_t exponent = ((bits >> 23) & 0xff) - 127 + 15;
  return static_cast<std::uint16_t>(((bits >> 16) & 0x8000) | (exponent << 10) |
                                    ((bits >> 13) & 0x3ff));
}

float Widen(std::uint16_t bits, Precision precision) {
  std::uint32_t wide = 0;
  if (precision == Precision::kBf16) {
    wide = static_cast<std::uint32_t>(bits) << 16;
  } else {
    const std::uint32_t exponent = (bits >> 10) & 0x1f;
    const std::uint32_t mantissa = bits & 0x3ff;
    if (exponent == 31) return std::numeric_limits<float>::infinity();
    if (exponent == 0) {
      const float tiny = static_cast<float>(mantissa) * 0x1p-24F;
      return (bits & 0x8000) != 0 ? -tiny : tiny;
    }
    wide = (static_cast<std::uint32_t>(bits & 0x8000) << 16) |
           ((exponent - 15 + 127) << 23) | (mantissa << 13);
  }
  float value = 0;
  std::memcpy(&value, &wide, sizeof(value));
  return value;
}

std::vector<float> Values(std::int64_t count, Precision precision,
                          std::uint64_t seed) {
  Random random(seed);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) {
    value = random.Unit();
    // Few bits, and none of them lost in any of the formats.
    if (ElementBytes(precision) == 2) value = std::round(value * 64) / 64;
  }
  return values;
}

std::vector<unsigned char> Encoded(const std::vector<float>& values,
                                   Precision precision) {
  const auto element = static_cast<std::size_t>(ElementBytes(precision));
  std::vector<unsigned char> bytes(values.size() * element);
  if (element == 4) {
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint16_t narrow = Narrow(values[i], precision);
    std::memcpy(&bytes[i * 2], &narrow, 2);
  }
  return bytes;
}

// Indexes a packed tensor: outer (image or filter), channel, depth, height,
// width.
class Indexer {
 public:
  Indexer(std::int64_t channels, const Spatial& extents, Layout layout)
      : channels_(channels), extents_(extents), layout_(layout) {}
  std::int64_t operator()(std::int64_t outer, std::int64_t channel,
                          const Spatial& at) const {
    const std::int64_t pixel =
        (at[0] * extents_[1] + at[1]) * extents_[2] + at[2];
    const std::int64_t pixels = extents_[0] * extents_[1] * extents_[2];
    return layout_ == Layout::kNchw
               ? (outer * channels_ + channel) * pixels + pixel
               : (outer * pixels + pixel) * channels_ + channel;
  }
  // What operator() was given.
  void Split(std::int64_t index, std::int64_t* outer, std::int64_t* channel,
             Spatial* at) const {
    const std::int64_t pixels = extents_[0] * extents_[1] * extents_[2];
    std::int64_t pixel = 0;
    if (layout_ == Layout::kNchw) {
      pixel = index % pixels;
      *channel = index / pixels % channels_;
    } else {
      *channel = index % channels_;
      pixel = index / channels_ % pixels;
    }
    *outer = index / pixels / channels_;
    *at = {pixel / extents_[2] / extents_[1], pixel / extents_[2] % extents_[1],
           pixel % extents_[2]};
  }

 private:
  std::int64_t channels_;
  Spatial extents_;
  Layout layout_;
};

template <class Body>
void ForEach(const Spatial& extents, Body&& body) {
  Spatial at = {};
  for (at[0] = 0; at[0] < extents[0]; ++at[0]) {
    for (at[1] = 0; at[1] < extents[1]; ++at[1]) {
      for (at[2] = 0; at[2] < extents[2]; ++at[2]) body(at);
    }
  }
}

// Which input pixel the filter's tap reads for an output pixel, if any.
bool InputAt(const ConvGeometry& g, const Spatial& output, const Spatial& tap,
             Spatial* input) {
  for (std::size_t i = 0; i < 3; ++i) {
    (*input)[i] =
        output[i] * g.stride[i] - g.padding[i] + tap[i] * g.dilation[i];
    if ((*input)[i] < 0 || (*input)[i] >= g.input[i]) return false;
  }
  return true;
}

// The output pixel that reads an input pixel through the filter's tap, if any.
bool OutputAt(const ConvGeometry& g, const Spatial& input, const Spatial& tap,
              Spatial* output) {
  const Spatial extents = g.output();
  for (std::size_t i = 0; i < 3; ++i) {
    const std::int64_t at = input[i] + g.padding[i] - tap[i] * g.dilation[i];
    if (at < 0 || at % g.stride[i] != 0) return false;
    (*output)[i] = at / g.stride[i];
    if ((*output)[i] >= extents[i]) return false;
  }
  return true;
}

// Element `index` of op(a, b), in double.
double Exact(const ConvProblem& problem, std::int64_t batch,
             const std::vector<float>& a, const std::vector<float>& b,
             std::int64_t index) {
  const ConvGeometry& g = problem.geometry;
  const std::int64_t group_channels = g.channels / g.groups;
  const std::int64_t group_filters = g.filters / g.groups;
  const Indexer input(g.channels, g.input, problem.layout);
  const Indexer output(g.filters, g.output(), problem.layout);
  const Indexer filter(group_channels, g.filter, problem.layout);
  const auto at = [](const std::vector<float>& values, std::int64_t i) {
    return static_cast<double>(values[static_cast<std::size_t>(i)]);
  };
  double sum = 0;
  std::int64_t outer = 0;
  std::int64_t channel = 0;
  Spatial here = {};
  Spatial there = {};
  switch (problem.op) {
    case ConvOp::kForward: {
      output.Split(index, &outer, &channel, &here);
      const std::int64_t first = channel / group_filters * group_channels;
      ForEach(g.filter, [&](const Spatial& tap) {
        if (!InputAt(g, here, tap, &there)) return;
        for (std::int64_t c = 0; c < group_channels; ++c) {
          sum += at(a, input(outer, first + c, there)) *
                 at(b, filter(channel, c, tap));
        }
      });
      return sum;
    }
    case ConvOp::kBackwardData: {
      input.Split(index, &outer, &channel, &here);
      const std::int64_t first = channel / group_channels * group_filters;
      ForEach(g.filter, [&](const Spatial& tap) {
        if (!OutputAt(g, here, tap, &there)) return;
        for (std::int64_t k = 0; k < group_filters; ++k) {
          sum += at(a, output(outer, first + k, there)) *
                 at(b, filter(first + k, channel % group_channels, tap));
        }
      });
      return sum;
    }
    case ConvOp::kBackwardFilter: {
      Spatial tap = {};
      filter.Split(index, &outer, &channel, &tap);
      const std::int64_t first = outer / group_filters * group_channels;
      for (std::int64_t n = 0; n < batch; ++n) {
        ForEach(g.output(), [&](const Spatial& pixel) {
          if (!InputAt(g, pixel, tap, &there)) return;
          sum += at(a, input(n, first + channel, there)) *
                 at(b, output(n, outer, pixel));
        });
      }
      return sum;
    }
  }
  return sum;
}

Result<DeviceBuffer> OnDevice(Device& device, const std::vector<float>& values,
                              Precision precision) {
  const auto bytes = Encoded(values, precision);
  const Bytes size(static_cast<std::int64_t>(bytes.size()));
  UCUDNN_ASSIGN_OR_RETURN(DeviceBuffer buffer, device.Allocate(size));
  UCUDNN_RETURN_IF_ERROR(device.Upload(buffer.data(), bytes.data(), size));
  return buffer;
}

// Sampled elements of the result, with what they should be.
struct Sample {
  std::int64_t index = 0;
  double exact = 0;
};

double ElementAt(const std::vector<unsigned char>& bytes, std::int64_t index,
                 Precision precision) {
  const auto element = static_cast<std::size_t>(ElementBytes(precision));
  const unsigned char* from = &bytes[static_cast<std::size_t>(index) * element];
  if (element == 4) {
    float value = 0;
    std::memcpy(&value, from, sizeof(value));
    return value;
  }
  std::uint16_t value = 0;
  std::memcpy(&value, from, sizeof(value));
  return Widen(value, precision);
}

double ErrorOf(const std::vector<unsigned char>& result,
               const std::vector<Sample>& samples, Precision precision) {
  double error = 0;
  double largest = 0;
  for (const Sample& sample : samples) {
    const double got = ElementAt(result, sample.index, precision);
    if (!std::isfinite(got)) return kUseless;
    error = std::max(error, std::abs(got - sample.exact));
    largest = std::max(largest, std::abs(sample.exact));
  }
  if (largest > 0) return error / largest;
  return error > 0 ? kUseless : 0.0;
}

}  // namespace

Result<std::vector<double>> MeasureErrors(
    Device& device, const ConvProblem& problem, BatchSize batch,
    std::span<const Algorithm> algorithms) {
  const ConvGeometry& g = problem.geometry;
  const Precision precision = problem.precision;
  const std::int64_t input = batch.count() * g.input_elements();
  const std::int64_t output = batch.count() * g.output_elements();
  const std::int64_t filter = g.filter_elements();
  const bool forward = problem.op == ConvOp::kForward;
  const bool to_filter = problem.op == ConvOp::kBackwardFilter;
  const std::int64_t out = to_filter ? filter : (forward ? output : input);
  const auto a = Values(forward || to_filter ? input : output, precision, 1);
  const auto b = Values(to_filter ? output : filter, precision, 2);
  // Keeps the result of many products within the range of half.
  const double products =
      static_cast<double>(g.multiply_adds() * batch.count()) /
      static_cast<double>(out);
  const auto alpha = static_cast<float>(
      std::exp2(-std::ceil(std::log2(std::max(products, 1.0)) / 2)));

  UCUDNN_ASSIGN_OR_RETURN(const auto da, OnDevice(device, a, precision));
  UCUDNN_ASSIGN_OR_RETURN(const auto db, OnDevice(device, b, precision));
  UCUDNN_ASSIGN_OR_RETURN(
      const auto result, device.Allocate(Bytes(out * ElementBytes(precision))));
  std::vector<Sample> samples(SamplesOf(problem.op));
  Random random(3);
  for (Sample& sample : samples) {
    sample.index = random.Below(out);
    sample.exact =
        double{alpha} * Exact(problem, batch.count(), a, b, sample.index);
  }

  std::vector<double> errors;
  std::vector<unsigned char> bytes(
      static_cast<std::size_t>(result.size().count()));
  for (const Algorithm& algorithm : algorithms) {
    errors.push_back(kUseless);
    const auto convolution = device.Prepare(problem, batch, algorithm);
    if (!convolution) continue;
    UCUDNN_ASSIGN_OR_RETURN(const auto workspace,
                            device.Allocate((*convolution)->workspace()));
    UCUDNN_RETURN_IF_ERROR(device.Fill(result.data(), 0, result.size()));
    Status ran = (*convolution)
                     ->Run({.a = da.data(),
                            .b = db.data(),
                            .out = result.data(),
                            .alpha = alpha,
                            .beta = 0},
                           workspace.data(), workspace.size());
    if (ran) ran = device.Synchronize();
    if (!ran && ran.error().code == Code::kDataLoss) {
      return tl::unexpected<Error>(std::move(ran).error());
    }
    if (!ran) continue;
    UCUDNN_RETURN_IF_ERROR(
        device.Download(bytes.data(), result.data(), result.size()));
    errors.back() = ErrorOf(bytes, samples, precision);
  }
  return errors;
}

double AdmittedError(Precision precision) {
  switch (precision) {
    case Precision::kFp32:
      return 1e-5;
    case Precision::kTf32:
    case Precision::kPseudoHalf:
      return 2e-3;
    case Precision::kTrueHalf:
    case Precision::kBf16:
      return 2e-2;
  }
  return 0;
}

bool IsAccurate(Precision precision, double error, double best) {
  return error <= AdmittedError(precision) ||
         (std::isfinite(error) && error <= 4 * best);
}

}  // namespace ucudnn
