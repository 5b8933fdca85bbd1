#ifndef UCUDNN_SOLVER_MICRO_BATCH_HOST_TIME_H_
#define UCUDNN_SOLVER_MICRO_BATCH_HOST_TIME_H_

// What the host's time to enqueue means for a plan. Runs that follow each other
// take the device's time where the host is ahead of it, and the host's where it
// is not; which of them holds depends on all that a program enqueues. A run's
// paced time is the longer of both: what runs back to back take at most.
//
// A plan from what CountHostTime returns is never worse than undivided in
// either case: its micro-batches' paced times add up to no more than the least
// paced time of a point of the whole batch within the limit. Without the host's
// times it is the plan of the points as they are.

#include <span>
#include <vector>

#include "base/profile.h"
#include "base/units.h"

namespace ucudnn {

// The points for plans of `batch` images within `limit`; O(points^2) of the
// whole batch, which are few. Pure.
//
// What enqueueing takes longer than the run is added to the point's spread:
// so SolveWr and SolvePareto trust a division (solver/micro_batch/wr.h, Noise)
// only if its paced times, with their spreads, add up to less than the device's
// time of the undivided batch. Of the points of the whole batch those are left
// out for which there is one of less paced time, within the limit or with no
// more workspace than theirs. Where a plan may get any workspace (WD), the
// limit is 0, and the above holds for points that need no more workspace than
// the plan.
std::vector<MeasuredPoint> CountHostTime(std::span<const MeasuredPoint> points,
                                         BatchSize batch, Bytes limit);

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_MICRO_BATCH_HOST_TIME_H_
