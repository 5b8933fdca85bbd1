#include "device/rounding.h"

#include <algorithm>
#include <string>

namespace ucudnn {

double ToleranceOf(Precision precision) {
  switch (precision) {
    case Precision::kFp32:
      return 5e-6;
    case Precision::kTf32:
    case Precision::kPseudoHalf:
      return 2e-3;
    case Precision::kTrueHalf:
      return 2e-2;
    case Precision::kBf16:
      return 1e-2;
  }
  return 0;
}

bool IsLargeWinograd(const Algorithm& algorithm, const ConvGeometry& geometry) {
  return algorithm.name.find("WINOGRAD") != std::string::npos &&
         *std::max_element(geometry.filter.begin(), geometry.filter.end()) > 3;
}

double ToleranceOf(const Algorithm& algorithm, const ConvGeometry& geometry) {
  constexpr double kLargeWinograd = 5e-4;
  const double tolerance = ToleranceOf(algorithm.precision);
  return IsLargeWinograd(algorithm, geometry)
             ? std::max(tolerance, kLargeWinograd)
             : tolerance;
}

}  // namespace ucudnn
