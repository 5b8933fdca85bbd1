#ifndef UCUDNN_SOLVER_MICRO_BATCH_HOST_TIME_H_
#define UCUDNN_SOLVER_MICRO_BATCH_HOST_TIME_H_

// Accounts for the host's time to enqueue runs. Consecutive runs take the
// device's time while the host is ahead of the device, and otherwise the
// host's; which one depends on everything that a program enqueues. The paced
// time of a run is the longer of the two: the most that it can take in a
// sequence of runs.
//
// A plan made of the points that CountHostTime returns is never slower than
// undivided in either case: the paced times of its micro-batches sum to no more
// than the least paced time of a point of the whole batch within the limit. For
// points without a host's time the plan is unchanged.

#include <span>
#include <vector>

#include "base/profile.h"
#include "base/units.h"

namespace ucudnn {

// The points for plans of `batch` images within `limit`. Pure; quadratic in the
// number of points of the whole batch, which are few.
//
// The time by which enqueueing exceeds the run is added to the point's spread,
// so SolveWr and SolvePareto trust a division (solver/micro_batch/wr.h, Noise)
// only if its paced times, with their spreads, sum to less than the device's
// time of the undivided batch. A point of the whole batch is omitted if another
// one has less paced time and is within the limit or needs no more workspace.
// If a plan may get any workspace (WD), pass 0 as the limit; the guarantee
// above then holds for undivided points that need no more workspace than the
// plan.
std::vector<MeasuredPoint> CountHostTime(std::span<const MeasuredPoint> points,
                                         BatchSize batch, Bytes limit);

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_MICRO_BATCH_HOST_TIME_H_
