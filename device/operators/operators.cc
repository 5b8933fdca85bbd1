#include "device/operators/operators.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace ucudnn {
namespace {

struct Tap {
  std::int64_t from = 0;
  double weight = 1;
};

double PlaceOf(Resizing::Place place, std::int64_t o, std::int64_t in,
               std::int64_t out) {
  const double scale = static_cast<double>(in) / static_cast<double>(out);
  const auto at = static_cast<double>(o);
  switch (place) {
    case Resizing::Place::kHalfPixel:
      return (at + 0.5) * scale - 0.5;
    case Resizing::Place::kAsymmetric:
      return at * scale;
    case Resizing::Place::kAlignCorners:
      break;
  }
  return out == 1
             ? 0
             : at * static_cast<double>(in - 1) / static_cast<double>(out - 1);
}

std::vector<Tap> TapsOfPixel(const Resizing& resizing, std::int64_t o,
                             std::int64_t in, std::int64_t out) {
  const double place = PlaceOf(resizing.place, o, in, out);
  const auto inside = [&](double at) {
    return std::clamp<std::int64_t>(static_cast<std::int64_t>(at), 0, in - 1);
  };
  if (resizing.mode == Resizing::Mode::kNearest) {
    return {
        {inside(resizing.rounds ? std::ceil(place - 0.5) : std::floor(place))}};
  }
  const double below = std::floor(place);
  if (place == below) return {{inside(below)}};
  return {{inside(below), 1 - (place - below)},
          {inside(below + 1), place - below}};
}

AxisTaps TapsOfAxis(const Resizing& resizing, std::int64_t in, std::int64_t out,
                    bool backward) {
  std::vector<std::vector<Tap>> taps(
      static_cast<std::size_t>(backward ? in : out));
  for (std::int64_t o = 0; o < out; ++o) {
    for (const Tap& tap : TapsOfPixel(resizing, o, in, out)) {
      if (backward) {
        taps[static_cast<std::size_t>(tap.from)].push_back({o, tap.weight});
      } else {
        taps[static_cast<std::size_t>(o)].push_back(tap);
      }
    }
  }
  AxisTaps axis;
  axis.starts.push_back(0);
  for (const std::vector<Tap>& of_pixel : taps) {
    for (const Tap& tap : of_pixel) {
      axis.from.push_back(static_cast<std::int32_t>(tap.from));
      axis.weights.push_back(static_cast<float>(tap.weight));
    }
    axis.starts.push_back(static_cast<std::int32_t>(axis.from.size()));
  }
  return axis;
}

}  // namespace

std::uint32_t DropoutThreshold(double ratio) {
  constexpr double kRange = 4294967296.0;
  return static_cast<std::uint32_t>(
      std::clamp(ratio * kRange, 0.0, kRange - 1));
}

std::array<AxisTaps, 3> TapsOf(const Resizing& resizing, bool backward) {
  const auto in = resizing.input.axes();
  const auto out = resizing.output.axes();
  return {TapsOfAxis(resizing, in[0], out[0], backward),
          TapsOfAxis(resizing, in[1], out[1], backward),
          TapsOfAxis(resizing, in[2], out[2], backward)};
}

}  // namespace ucudnn
