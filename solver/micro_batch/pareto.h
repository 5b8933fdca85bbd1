#ifndef UCUDNN_SOLVER_MICRO_BATCH_PARETO_H_
#define UCUDNN_SOLVER_MICRO_BATCH_PARETO_H_

// The desirable configurations of one kernel: the divisions of its mini-batch
// that no other division beats in both time and workspace.
//
//   C(b) = D( union over bm <= b, cm in Cm(bm), c in A(b - bm) of {cm} + c )
//   D(C) = { c in C | for all c' in C: T(c) < T(c') or M(c) < M(c') }
//   where A is C itself, or where points have an adding time the same
//   recurrence over those
//
// Source: mu-cuDNN (CLUSTER 2018) section III-C.1; the same in the IPSJ 2017
// paper, section 3.3.1. One of several equal configurations is kept.
//
// Method: a configuration's workspace is a maximum, so it takes only the
// values that points have, and the front at B is the WR optimum T(B) as the
// limit rises from one of these values to the next. The optimum is updated from
// value to value: a point (p, t) that now fits is either no faster than the
// current composition of p, and is dropped for good, or one pass
//   T(b) = min(T(b), t + T(b - p))   for b = p, ..., B
// admits it; with adding times, one more pass over the sizes at each value.
// O(P log P + K * B) for P points of which K are kept, against
// O(B^2 * |C|) merges of the recurrence; O(P + B) memory.
//
// Noise: if points carry a spread, the rule of solver/micro_batch/wr.h applies:
// the front is that of the WR plans under all limits.
//
// All functions are pure, deterministic and thread-safe.

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "base/plan/plan.h"
#include "base/profile.h"
#include "base/result.h"
#include "base/units.h"
#include "solver/micro_batch/wr.h"

namespace ucudnn {

struct FrontPoint {
  Nanoseconds time{0};
  Bytes workspace;

  friend bool operator==(const FrontPoint&, const FrontPoint&) = default;
};

// The fastest point within `limit` of those by rising workspace and falling
// time; absent if none fits. O(log points).
std::optional<std::size_t> FastestWithin(std::span<const FrontPoint> front,
                                         Bytes limit);

// Refers to the measured points that it was made from, which must outlive it.
class ParetoFront {
 public:
  // By rising workspace and strictly falling time; not empty.
  const std::vector<FrontPoint>& points() const { return points_; }

  std::optional<std::size_t> FastestWithin(Bytes limit) const {
    return ucudnn::FastestWithin(points_, limit);
  }

  // The micro-batches of point `i`: those of SolveWr under LimitOf(i), at the
  // same cost.
  std::vector<MicroBatch> PlanAt(std::size_t i) const;

  // The least limit under which point `i` is the WR plan: its workspace, or
  // more if noise rules the point out at less.
  Bytes LimitOf(std::size_t i) const;

  BatchSize batch() const { return batch_; }
  BatchPolicy policy() const { return policy_; }

 private:
  friend Result<ParetoFront> SolvePareto(std::span<const MeasuredPoint> points,
                                         const WrRequest& request);

  // Adds the WR plan, if any, under a limit larger than those before.
  void Add(std::optional<Nanoseconds> time, std::optional<Bytes> workspace,
           Bytes limit);

  std::vector<FrontPoint> points_;
  std::vector<Bytes> limits_;  // LimitOf each point; empty without noise
  std::span<const MeasuredPoint> measured_;
  BatchSize batch_;
  BatchPolicy policy_ = BatchPolicy::kAll;
};

// The front of one kernel's points for `request.batch`, up to a workspace of
// `request.workspace_limit`. Errors of SolveWr, kernel unnamed.
Result<ParetoFront> SolvePareto(std::span<const MeasuredPoint> points,
                                const WrRequest& request);

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_MICRO_BATCH_PARETO_H_
