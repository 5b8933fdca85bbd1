#include "device/reference_element.h"

#include <array>
#include <cmath>
#include <cstddef>

namespace ucudnn {
namespace {

// A packed tensor: outer dimension, channels, three extents.
struct Packed {
  std::int64_t channels = 1;
  Spatial extents = {1, 1, 1};
  Layout layout = Layout::kNchw;

  std::int64_t pixels() const { return extents[0] * extents[1] * extents[2]; }

  std::size_t IndexOf(std::int64_t outer, std::int64_t channel,
                      const Spatial& at) const {
    const std::int64_t pixel =
        (at[0] * extents[1] + at[1]) * extents[2] + at[2];
    const std::int64_t inner = layout == Layout::kNhwc
                                   ? pixel * channels + channel
                                   : channel * pixels() + pixel;
    return static_cast<std::size_t>(outer * channels * pixels() + inner);
  }

  struct Place {
    std::int64_t outer = 0;
    std::int64_t channel = 0;
    Spatial at = {};
  };
  Place PlaceOf(std::int64_t index) const {
    Place place;
    place.outer = index / (channels * pixels());
    const std::int64_t inner = index % (channels * pixels());
    const bool last = layout == Layout::kNhwc;
    place.channel = last ? inner % channels : inner / pixels();
    const std::int64_t pixel = last ? inner / channels : inner % pixels();
    place.at = {pixel / (extents[1] * extents[2]),
                pixel / extents[2] % extents[1], pixel % extents[2]};
    return place;
  }
};

// Calls `f` with every position of `extents`.
template <class F>
void ForEach(const Spatial& extents, F&& f) {
  Spatial at = {};
  for (at[0] = 0; at[0] < extents[0]; ++at[0]) {
    for (at[1] = 0; at[1] < extents[1]; ++at[1]) {
      for (at[2] = 0; at[2] < extents[2]; ++at[2]) f(at);
    }
  }
}

// The input position that filter position `tap` reads for output position `at`;
// false if it is padding.
bool InputOf(const ConvGeometry& g, const Spatial& at, const Spatial& tap,
             Spatial* input) {
  for (std::size_t i = 0; i < 3; ++i) {
    (*input)[i] = at[i] * g.stride[i] - g.padding[i] + tap[i] * g.dilation[i];
    if ((*input)[i] < 0 || (*input)[i] >= g.input[i]) return false;
  }
  return true;
}

// The output position for which filter position `tap` reads input position
// `at`; false if there is none.
bool OutputOf(const ConvGeometry& g, const Spatial& at, const Spatial& tap,
              Spatial* output) {
  const Spatial extents = g.output();
  for (std::size_t i = 0; i < 3; ++i) {
    const std::int64_t from = at[i] + g.padding[i] - tap[i] * g.dilation[i];
    if (from < 0 || from % g.stride[i] != 0) return false;
    (*output)[i] = from / g.stride[i];
    if ((*output)[i] >= extents[i]) return false;
  }
  return true;
}

}  // namespace

ReferenceElement ComputeElement(const ConvProblem& folded,
                                BatchSize folded_batch,
                                const std::vector<float>& a,
                                const std::vector<float>& b,
                                std::int64_t index) {
  const auto [problem, batch] = Unfold(folded, folded_batch);
  const ConvGeometry& g = problem.geometry;
  const std::int64_t group_channels = g.channels / g.groups;
  const std::int64_t group_filters = g.filters / g.groups;
  const Packed input = {g.channels, g.input, problem.layout};
  const Packed filter = {group_channels, g.filter, problem.layout};
  const Packed output = {g.filters, g.output(), problem.layout};
  ReferenceElement sum;
  // Few operands repeat, and division is slow, so avoid the modulo if possible.
  const auto value = [](const std::vector<float>& values, std::size_t i) {
    return double{values[i < values.size() ? i : i % values.size()]};
  };
  const auto add = [&](std::size_t i, std::size_t j) {
    const double product = value(a, i) * value(b, j);
    sum.value += product;
    sum.magnitude += std::fabs(product);
  };
  Spatial other = {};
  switch (problem.op) {
    case ConvOp::kForward: {
      const auto [n, k, at] = output.PlaceOf(index);
      const std::int64_t first = k / group_filters * group_channels;
      for (std::int64_t c = 0; c < group_channels; ++c) {
        ForEach(g.filter, [&, k = k, n = n, at = at](const Spatial& tap) {
          if (!InputOf(g, at, tap, &other)) return;
          add(input.IndexOf(n, first + c, other), filter.IndexOf(k, c, tap));
        });
      }
      break;
    }
    case ConvOp::kBackwardData: {
      const auto [n, c, at] = input.PlaceOf(index);
      const std::int64_t first = c / group_channels * group_filters;
      for (std::int64_t k = first; k < first + group_filters; ++k) {
        ForEach(g.filter, [&, c = c, n = n, at = at](const Spatial& tap) {
          if (!OutputOf(g, at, tap, &other)) return;
          add(output.IndexOf(n, k, other),
              filter.IndexOf(k, c % group_channels, tap));
        });
      }
      break;
    }
    case ConvOp::kBackwardFilter: {
      const auto [k, c, tap] = filter.PlaceOf(index);
      const std::int64_t channel = k / group_filters * group_channels + c;
      for (std::int64_t n = 0; n < batch.count(); ++n) {
        ForEach(g.output(), [&, k = k, tap = tap](const Spatial& at) {
          if (!InputOf(g, at, tap, &other)) return;
          add(input.IndexOf(n, channel, other), output.IndexOf(n, k, at));
        });
      }
      break;
    }
  }
  return sum;
}

OperandElements ElementsOf(const ConvProblem& problem, BatchSize batch) {
  const ConvGeometry& g = problem.geometry;
  const std::int64_t input = batch.count() * g.input_elements();
  const std::int64_t output = batch.count() * g.output_elements();
  const std::int64_t filter = g.filter_elements();
  switch (problem.op) {
    case ConvOp::kForward:
      return {input, filter, output};
    case ConvOp::kBackwardData:
      return {output, filter, input};
    case ConvOp::kBackwardFilter:
      return {input, output, filter};
  }
  return {};
}

}  // namespace ucudnn
