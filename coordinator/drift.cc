#include "coordinator/drift.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/median.h"

namespace ucudnn {

StepSummary Summarize(const std::vector<Nanoseconds>& recent) {
  StepSummary summary;
  if (recent.empty()) return summary;
  std::vector<Nanoseconds> sorted = recent;
  std::ranges::sort(sorted);
  summary.samples = std::ssize(sorted);
  summary.last = recent.back();
  summary.median = MiddleOf(sorted).median;
  // The smallest that at least nine of ten do not exceed.
  summary.p90 = sorted[(sorted.size() * 9 + 9) / 10 - 1];
  return summary;
}

std::optional<std::string> Drift(std::int64_t rank, const StepSummary& steps,
                                 Nanoseconds predicted, double tolerance) {
  if (predicted <= Nanoseconds(0) || steps.samples < kLeastSamplesOfDrift) {
    return std::nullopt;
  }
  const double part = static_cast<double>(steps.median.count()) /
                          static_cast<double>(predicted.count()) -
                      1;
  if (std::abs(part) <= tolerance) return std::nullopt;
  return fmt::format(
      "rank {}: its last {} steps took {} (median; p90 {}), {} were predicted: "
      "{:.0f} % {}",
      rank, steps.samples, HumanTime(steps.median), HumanTime(steps.p90),
      HumanTime(predicted), std::abs(part) * 100,
      part > 0 ? "longer" : "shorter");
}

}  // namespace ucudnn
