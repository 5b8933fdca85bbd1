#ifndef UCUDNN_COORDINATOR_DRIFT_H_
#define UCUDNN_COORDINATOR_DRIFT_H_

// How long steps took against what was predicted. Pure functions.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"

namespace ucudnn {

struct StepSummary {
  std::int64_t samples = 0;  // of which the rest is made
  Nanoseconds last{0};
  Nanoseconds median{0};
  Nanoseconds p90{0};  // nine of ten took at most that long
};

// Zeros if there are none.
StepSummary Summarize(const std::vector<Nanoseconds>& recent);

// Fewer steps say nothing: the first ones warm up.
inline constexpr std::int64_t kLeastSamplesOfDrift = 8;

// The evidence, if a rank's median differs by more than `tolerance`, a part of
// the prediction: "rank 1: its last 40 steps took 13.9 ms (median; p90 14.2
// ms), 10 ms were predicted: 39 % longer". None without a prediction.
std::optional<std::string> Drift(std::int64_t rank, const StepSummary& steps,
                                 Nanoseconds predicted, double tolerance);

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_DRIFT_H_
