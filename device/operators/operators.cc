#include "device/operators/operators.h"

#include <algorithm>

namespace ucudnn {

std::uint32_t DropoutThreshold(double ratio) {
  constexpr double kRange = 4294967296.0;
  return static_cast<std::uint32_t>(
      std::clamp(ratio * kRange, 0.0, kRange - 1));
}

}  // namespace ucudnn
