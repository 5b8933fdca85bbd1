#ifndef UCUDNN_COORDINATOR_DRIFT_H_
#define UCUDNN_COORDINATOR_DRIFT_H_

// Whether a job's steps became another length than they had, or than its plan
// can explain. Pure functions.
//
// A plan predicts the convolutions of a step. What else there is in one (other
// layers, the exchange of gradients, reading images) it does not know, so that
// a step is compared with the job's own first ones, and only from below with
// the prediction: no step is shorter than the convolutions in it.

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/units.h"

namespace ucudnn {

struct StepSummary {
  std::int64_t samples = 0;  // of which the rest is made
  Nanoseconds last{0};
  Nanoseconds median{0};
  Nanoseconds p90{0};  // nine of ten took at most that long
};

// Zeros if there are none.
StepSummary Summarize(std::span<const Nanoseconds> steps);

// What is known of a rank's steps under one revision.
struct StepHistory {
  // Absent until there are kFirstSteps (store/records.h) and as many after them
  // as drift takes.
  std::optional<Nanoseconds> first_median;
  StepSummary last;  // of those after the first ones, or of all until then
};
StepHistory HistoryOf(std::span<const Nanoseconds> kept);

// Fewer steps say nothing.
inline constexpr std::int64_t kLeastSamplesOfDrift = 8;

// The evidence, if the last steps' median differs from the first ones' by more
// than `tolerance`, a part of it: "rank 1: its last 40 steps took 13.9 ms
// (median; p90 14.2 ms), its first ones 10.0 ms: 39 % longer". Or if it is
// shorter than the predicted convolutions by more than that; 0: there is no
// prediction.
std::optional<std::string> Drift(std::int64_t rank, const StepHistory& steps,
                                 Nanoseconds predicted, double tolerance);

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_DRIFT_H_
