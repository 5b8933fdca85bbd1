#ifndef UCUDNN_SOLVER_MICRO_BATCH_WR_H_
#define UCUDNN_SOLVER_MICRO_BATCH_WR_H_

// Workspace reuse: divides the mini-batch of one kernel into micro-batches
// that run one after the other in one workspace.
//
//   T(b) = min over points p of  p.time + A(b - p.batch)
//   A(0) = 0,  A(b) = min over points p of  AddingTime(p) + A(b - p.batch)
//   where p.batch <= b, p.workspace <= limit, and the policy admits p.batch
//
// Source: mu-cuDNN (CLUSTER 2018) section III-B, T(b) and c(b); the same
// recurrence in the IPSJ 2017 paper, section 3.2. The policies are theirs; the
// mini-batch itself is a candidate under each of them. They have T alone: that
// the micro-batches after the first take another time, since they add to a
// filter gradient, is ours. Where no adding time was recorded, A is T.
//
// Method: of the points of one batch size only the fastest that fits matters.
// The sizes are added in ascending order, in one pass over the curve each; a
// size that smaller ones already compose at least as well is left out.
// O(points + B * sizes kept) time, O(B) memory, for all b up to B.
//
// Ties: fewest micro-batches, then least workspace, then per micro-batch the
// algorithm's name, then the largest first micro-batch and so on.
//
// Order: the micro-batch that writes, then those that add, largest first. Where
// A is T the largest of all is the first.
//
// Noise: a point carries the spread of its repeats. A division counts as faster
// than the undivided batch only if
//   time + sum of its micro-batches' spreads < undivided time - its spread
// (a micro-batch that runs n times errs n times in the same direction, so
// spreads add up). If the division of least time fails this test, the one of
// least time plus spread is tried; if that fails too, the batch stays
// undivided. Without spread (single measurements) the division of least time
// is returned.
//
// All functions are pure, deterministic and thread-safe.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/plan/plan.h"
#include "base/profile.h"
#include "base/result.h"
#include "base/units.h"

namespace ucudnn {

struct WrRequest {
  BatchSize batch;
  Bytes workspace_limit;  // of each kernel
  BatchPolicy policy = BatchPolicy::kAll;
};

// The plans for every mini-batch up to the largest. Refers to the points that
// it was made from, which must outlive it.
class WrCurve {
 public:
  BatchSize max_batch() const { return BatchSize(std::ssize(final_) - 1); }

  // The time of the plan for `batch`; absent if there is none under the limit,
  // or if `batch` is not in [1, max_batch()].
  std::optional<Nanoseconds> TimeAt(BatchSize batch) const;

  // No division under the limit has less (median) time. Below TimeAt only if
  // noise ruled out a faster division.
  std::optional<Nanoseconds> LowerBoundAt(BatchSize batch) const;

  // The fastest undivided execution under the limit.
  std::optional<Nanoseconds> UndividedTimeAt(BatchSize batch) const;

  // The workspace of the plan for `batch`.
  std::optional<Bytes> WorkspaceAt(BatchSize batch) const;

  // The plan's micro-batches in their order; empty if there is no plan.
  // O(number of micro-batches).
  std::vector<MicroBatch> PlanAt(BatchSize batch) const;

 private:
  friend class WrSolver;

  // How each mini-batch is composed: a first micro-batch, and the rest by this
  // or another chain. Indexed by batch size.
  struct Chain {
    std::vector<const MeasuredPoint*> best;  // null if nothing fits
    std::vector<std::uint64_t> cost;
    std::vector<std::int64_t> workspace;
    std::vector<std::int32_t> count;
    std::vector<std::int32_t> first;
  };
  struct Divisions {
    Chain writing;
    std::optional<Chain> adding;  // of the rest; absent if `writing` serves

    const Chain& rest() const { return adding ? *adding : writing; }
  };
  enum class Final : std::uint8_t { kNone, kUndivided, kFastest, kCautious };

  Final FinalAt(BatchSize batch) const;

  Divisions fastest_;   // least time
  Divisions cautious_;  // least time plus spread; empty if it was not needed
  std::vector<std::uint64_t> cautious_time_;
  std::vector<Final> final_;
};

// The curve of one kernel's points. kInvalidArgument if `max_batch` is not in
// [1, kMaxBatchSize], the limit is negative, or a point has a batch below 1, a
// negative workspace or a time or spread outside [0, 2^62] ns. Divisions that
// take longer than 2^62 ns (146 years) do not count as plans.
Result<WrCurve> SolveWrCurve(std::span<const MeasuredPoint> points,
                             BatchSize max_batch, Bytes workspace_limit,
                             BatchPolicy policy);

// The plan of one kernel. Errors of SolveWrCurve; kFailedPrecondition if no
// division fits the limit, naming the smallest sufficient limit, or if no
// measured sizes sum to the batch, naming the nearest possible batch below;
// kOutOfRange if every division takes longer than 2^62 ns.
Result<KernelPlan> SolveWr(const KernelProfile& kernel,
                           const WrRequest& request);

// The plan of a list of kernels, each under the limit. Errors of SolveWr; the
// smallest limit named is the one under which every kernel has a plan.
// kInvalidArgument if there is no kernel; kOutOfRange if the total time
// exceeds 2^62 ns or the total workspace 2^62 bytes.
Result<WorkspacePlan> SolveWr(const Profile& profile, const WrRequest& request);

// The smallest limit under which `batch` can be composed:
//   W(0) = 0,  W(b) = min over points p of max(p.workspace, W(b - p.batch)).
// Absent if no measured sizes sum to `batch`. O(points + B * sizes).
std::optional<Bytes> SmallestLimit(std::span<const MeasuredPoint> points,
                                   BatchSize batch, BatchPolicy policy);

// Why SolveWr has no plan for these points: its kFailedPrecondition or
// kOutOfRange, without the kernel's name. Call it only if there is no plan.
Error WhyNoWrPlan(std::span<const MeasuredPoint> points,
                  const WrRequest& request);

// The kInvalidArgument of SolveWrCurve.
Status CheckWrArguments(std::span<const MeasuredPoint> points, BatchSize batch,
                        Bytes workspace_limit);

// Whether `policy` lets a division of `mini_batch` use micro-batches of
// `batch`.
bool PolicyAdmits(BatchPolicy policy, BatchSize batch, BatchSize mini_batch);

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_MICRO_BATCH_WR_H_
