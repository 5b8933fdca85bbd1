#ifndef UCUDNN_COORDINATOR_PLANNING_DRIFT_H_
#define UCUDNN_COORDINATOR_PLANNING_DRIFT_H_

// Detects drift: a job's steps that no longer take the time they used to, or
// take less than its plan predicts. Pure functions.
//
// A plan predicts only the convolutions of a step. The rest (other layers, the
// exchange of gradients, reading images) is unknown, so steps are compared with
// the job's own first ones. The prediction is only a lower bound: no step is
// shorter than its convolutions.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/units.h"

namespace ucudnn {

struct StepSummary {
  std::int64_t samples = 0;  // how many steps are summarised
  Nanoseconds last{0};
  Nanoseconds median{0};
  Nanoseconds p90{0};
};

// Zeros if there are none.
StepSummary Summarize(std::span<const Nanoseconds> steps);

// Of a rank's steps under one revision, at most so many are kept: the first
// ones, then the latest.
inline constexpr std::size_t kFirstSteps = 16;
inline constexpr std::size_t kMaxKeptSteps = 128;

// A rank's steps under one revision.
struct StepHistory {
  // Absent until kFirstSteps and kMinDriftSamples more are
  // known.
  std::optional<Nanoseconds> first_median;
  StepSummary last;  // of the steps after the first ones; until then, of all
};
StepHistory HistoryOf(std::span<const Nanoseconds> kept);

// With fewer steps, drift is not judged.
inline constexpr std::int64_t kMinDriftSamples = 8;

// The evidence of drift, such as "rank 1: its last 40 steps took 13.9 ms
// (median; p90 14.2 ms), its first ones 10.0 ms: 39 % longer". Absent unless
// the last steps' median differs from the first ones' by more than `tolerance`
// (0.1 is 10 %), or is shorter than the predicted convolutions by more than
// that, or, with `of_step`, the predicted step. A `predicted` of 0 means that
// there is no prediction.
std::optional<std::string> Drift(std::int64_t rank, const StepHistory& steps,
                                 Nanoseconds predicted, double tolerance,
                                 bool of_step = false);

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_PLANNING_DRIFT_H_
