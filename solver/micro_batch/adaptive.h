#ifndef UCUDNN_SOLVER_MICRO_BATCH_ADAPTIVE_H_
#define UCUDNN_SOLVER_MICRO_BATCH_ADAPTIVE_H_

// The adaptive batch-size policy: which micro-configurations of one convolution
// are worth a measurement, when their workspaces are known beforehand (asking
// for them costs no time on a device) and a few limits are of interest.
//
// An unmeasured time is believed to be no less than (1 - optimism) times what
// its algorithm's measured neighbours let expect:
//   t(b) = between the nearest measured batches, linear in b; outside of them
//          in proportion to b. A batch that took longer than a larger one is
//          believed to take as long as that.
// For each limit, workspace reuse (wr.h) is solved with measured times where
// there are any and believed ones elsewhere. No plan under the limit is faster
// than that, as far as the belief is true. While it beats the best plan made
// of measured points by more than `tolerance`, what it uses and nobody has
// measured is to be measured next: of each plan the point with the largest
// share of the images. When no limit asks for more, the measured points alone
// plan each of them within `tolerance` of all points, as far as the belief is
// true.
//
// To begin with, the largest batch of each algorithm under each limit is asked
// for, and from those that are not far behind the largest power of two below.
//
// A point with few repeats was only looked at, and may have been disturbed: it
// is believed to be up to `doubt` faster than it seemed, and is asked for again
// where a plan under a limit would then gain.
//
// Pure: same input, same answer.

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
  std::vector<Bytes> limits;  // those of interest
  // How far below its neighbours' line a time may lie. H200: FP32 times of
  // AlexNet do by more in 1 % of cases (docs/adr/0005-adaptive-batch-sizes).
  double optimism = 0.15;
  double tolerance = 0.005;
  // What has fewer repeats than these was only looked at.
  int settled_repeats = 3;
  double doubt = 0.05;
  // An algorithm this many times slower than the fastest at its largest batch
  // is not looked at a second time without reason.
  double far_behind = 3.0;
};

// The batches whose workspaces are to be asked for: each up to 16, then eight
// in each octave, and the even parts batch/2 to batch/16, ascending. What fits
// a limit exactly lies between two of them.
std::vector<BatchSize> SizesToAsk(BatchSize batch);

// What is to be measured next, of `choices`, given what was measured of them;
// empty if nothing is worth it. What was only looked at is to be measured well.
// Neither needs to be sorted; what was measured at batches that are no choice
// serves plans and beliefs too. O(limits * wr.h's), each round of measuring.
// kInvalidArgument: `batch`, `limits` or a point is out of wr.h's range, or an
// option of [0, 1).
Result<std::vector<SizedAlgorithm>> NextToMeasure(
    std::span<const SizedAlgorithm> choices,
    std::span<const MeasuredPoint> measured, const AdaptiveRequest& request);

// The measured points that the plans under the limits consist of, sorted.
Result<std::vector<SizedAlgorithm>> PointsInUse(
    std::span<const MeasuredPoint> measured, const AdaptiveRequest& request);

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_MICRO_BATCH_ADAPTIVE_H_
