#include "device/elements.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace ucudnn {
namespace {

float HalfToFloat(std::uint16_t half) {
  const bool negative = (half & 0x8000U) != 0;
  const int exponent = (half >> 10) & 0x1f;
  const auto mantissa = static_cast<float>(half & 0x3ffU);
  float value = 0;
  if (exponent == 31) {
    value = mantissa == 0 ? std::numeric_limits<float>::infinity()
                          : std::numeric_limits<float>::quiet_NaN();
  } else if (exponent == 0) {
    value = std::ldexp(mantissa, -24);
  } else {
    value = std::ldexp(mantissa + 1024, exponent - 25);
  }
  return negative ? -value : value;
}

// The bits of a float that half represents exactly as a normal number.
std::uint16_t ExactHalf(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t exponent = ((bits >> 23) & 0xffU) - 127 + 15;
  return static_cast<std::uint16_t>(((bits >> 16) & 0x8000U) |
                                    (exponent << 10) | ((bits >> 13) & 0x3ffU));
}

bool IsHalf(Precision precision) {
  return precision == Precision::kTrueHalf ||
         precision == Precision::kPseudoHalf;
}

// SplitMix64, good enough for test data.
std::uint64_t Next(std::uint64_t& state) {
  std::uint64_t z = (state += 0x9e3779b97f4a7c15U);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

}  // namespace

std::string RandomElements(std::int64_t count, Precision precision,
                           std::uint64_t seed) {
  const auto element = static_cast<std::size_t>(ElementBytes(precision));
  std::string bytes(static_cast<std::size_t>(count) * element, '\0');
  std::uint64_t state = seed;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    const std::uint64_t random = Next(state);
    const float magnitude = static_cast<float>(random % 64 + 1) / 64;
    const float value = (random >> 63) != 0 ? -magnitude : magnitude;
    char* out = bytes.data() + i * element;
    if (element == sizeof value) {
      std::memcpy(out, &value, sizeof value);
      continue;
    }
    const auto small = IsHalf(precision)
                           ? ExactHalf(value)
                           : static_cast<std::uint16_t>(
                                 std::bit_cast<std::uint32_t>(value) >> 16);
    std::memcpy(out, &small, sizeof small);
  }
  return bytes;
}

std::vector<float> DecodeElements(const std::string& bytes,
                                  Precision precision) {
  const auto element = static_cast<std::size_t>(ElementBytes(precision));
  std::vector<float> values(bytes.size() / element);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const char* in = bytes.data() + i * element;
    if (element == sizeof(float)) {
      std::memcpy(&values[i], in, sizeof(float));
      continue;
    }
    std::uint16_t small = 0;
    std::memcpy(&small, in, sizeof small);
    values[i] = IsHalf(precision)
                    ? HalfToFloat(small)
                    : std::bit_cast<float>(std::uint32_t{small} << 16);
  }
  return values;
}

}  // namespace ucudnn
