#ifndef UCUDNN_SOLVER_MICRO_BATCH_ADAPTIVE_H_
#define UCUDNN_SOLVER_MICRO_BATCH_ADAPTIVE_H_

// The adaptive batch-size policy: which micro-configurations of one convolution
// are worth measuring, given a few workspace limits. The workspaces of all are
// known beforehand, since the library tells them without running anything.
//
// An unmeasured time is estimated as (1 - optimism) times the value t(b) that
// the measured times of its algorithm suggest:
//   t(b) is linear between the nearest measured batches, and proportional to b
//   beyond them. A batch that took longer than a larger one counts with the
//   larger one's time.
// For each limit, workspace reuse (wr.h) is solved with measured times and, for
// unmeasured points, estimates. If estimates are never too high, no plan under
// the limit is faster. While that plan beats the best one of measured points by
// more than `tolerance`, its unmeasured point with the largest share of the
// images is measured next. Once no limit asks for more, the measured points
// alone give plans within `tolerance` of those of all points, under the same
// condition.
//
// First of all, the largest batch of each algorithm under each limit is
// measured, then, for algorithms that are not `far_behind`, the largest power
// of two below it.
//
// A point with few repeats is provisional and may have been disturbed. Its time
// may be too long by `doubt`, so it is measured again if a plan under a limit
// would gain from that.
//
// Pure and deterministic.

#include <span>
#include <vector>

#include "base/profile.h"
#include "base/result.h"
#include "base/units.h"

namespace ucudnn {

// Something that the device could run.
struct SizedAlgorithm {
  BatchSize batch;
  Algorithm algorithm;
  Bytes workspace;

  friend auto operator<=>(const SizedAlgorithm&,
                          const SizedAlgorithm&) = default;
};

struct AdaptiveRequest {
  BatchSize batch;            // the mini-batch
  std::vector<Bytes> limits;  // the limits of interest
  // How far below its neighbours' line a time may lie. On an H200, 1 % of
  // AlexNet's FP32 times lie further below
  // (docs/adr/0005-adaptive-batch-sizes).
  double optimism = 0.15;
  double tolerance = 0.005;
  // Points with fewer repeats are provisional.
  int settled_repeats = 3;
  double doubt = 0.05;
  // An algorithm this many times slower than the fastest at its largest batch
  // is measured again only if a plan would use it.
  double far_behind = 3.0;
};

// The batches whose workspaces to ask for, ascending: each up to 16, then eight
// in each octave, and the even parts batch/2 to batch/16. The largest batch
// that fits a limit lies between two of them.
std::vector<BatchSize> SizesToAsk(BatchSize batch);

// The `choices` to measure next, given what was measured; empty if nothing is
// worth measuring. Provisional points that are returned need more repeats.
// Neither list needs to be sorted; measured points that are not choices count
// for plans and estimates too. Takes O(limits) times wr.h's cost.
// kInvalidArgument if `batch`, `limits` or a point is out of wr.h's range, or
// an option is out of its own.
Result<std::vector<SizedAlgorithm>> NextToMeasure(
    std::span<const SizedAlgorithm> choices,
    std::span<const MeasuredPoint> measured, const AdaptiveRequest& request);

// The measured points that the plans under the limits use, sorted.
Result<std::vector<SizedAlgorithm>> PointsInUse(
    std::span<const MeasuredPoint> measured, const AdaptiveRequest& request);

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_MICRO_BATCH_ADAPTIVE_H_
