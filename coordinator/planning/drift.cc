#include "coordinator/planning/drift.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/median.h"

namespace ucudnn {

StepSummary Summarize(std::span<const Nanoseconds> steps) {
  StepSummary summary;
  if (steps.empty()) return summary;
  std::vector<Nanoseconds> sorted(steps.begin(), steps.end());
  std::ranges::sort(sorted);
  summary.samples = std::ssize(sorted);
  summary.last = steps.back();
  summary.median = MedianAndSpreadOf(sorted).median;
  // The smallest that at least nine of ten do not exceed.
  summary.p90 = sorted[(sorted.size() * 9 + 9) / 10 - 1];
  return summary;
}

StepHistory HistoryOf(std::span<const Nanoseconds> kept) {
  StepHistory history;
  if (kept.size() < kFirstSteps + static_cast<std::size_t>(kMinDriftSamples)) {
    history.last = Summarize(kept);
    return history;
  }
  history.first_median = Summarize(kept.first(kFirstSteps)).median;
  history.last = Summarize(kept.subspan(kFirstSteps));
  return history;
}

std::optional<std::string> Drift(std::int64_t rank, const StepHistory& steps,
                                 Nanoseconds predicted, double tolerance,
                                 bool of_step) {
  const StepSummary& last = steps.last;
  if (last.samples < kMinDriftSamples) return std::nullopt;
  const auto beyond = [&](Nanoseconds expected) {
    return static_cast<double>(last.median.count()) /
               static_cast<double>(expected.count()) -
           1;
  };
  const std::string took =
      fmt::format("rank {}: its last {} steps took {} (median; p90 {})", rank,
                  last.samples, HumanTime(last.median), HumanTime(last.p90));
  if (predicted > Nanoseconds(0) && beyond(predicted) < -tolerance) {
    return fmt::format("{}, {} predicted to take {}: {:.0f} % shorter", took,
                       of_step ? "each was" : "the convolutions in them were",
                       HumanTime(predicted), -beyond(predicted) * 100);
  }
  if (!steps.first_median || *steps.first_median <= Nanoseconds(0)) {
    return std::nullopt;
  }
  const double part = beyond(*steps.first_median);
  if (std::abs(part) <= tolerance) return std::nullopt;
  return fmt::format("{}, its first ones {}: {:.0f} % {}", took,
                     HumanTime(*steps.first_median), std::abs(part) * 100,
                     part > 0 ? "longer" : "shorter");
}

}  // namespace ucudnn
