#ifndef UCUDNN_SOLVER_ASSIGN_KINDS_H_
#define UCUDNN_SOLVER_ASSIGN_KINDS_H_

// Groups the GPUs of an assignment into kinds, for solver/assign.

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "solver/assign/assign.h"

namespace ucudnn::assign_internal {

inline constexpr std::int64_t kForever =
    std::numeric_limits<std::int64_t>::max();

// Equal GPUs. `costs` are the batches they may use, by rising batch.
struct GpuKind {
  std::vector<std::size_t> gpus;
  std::span<const BatchCost> costs;
  std::vector<BatchCost> own_costs;  // if `costs` is not a whole table
  // Entry i: the least time of all batches from i * kBlock of `costs` on; never
  // falls. One entry a block, since reading memory dominates for large tables.
  static constexpr std::size_t kBlock = 16;
  std::vector<std::int64_t> least_from;

  std::int64_t count() const { return std::ssize(gpus); }
  // The position in `costs` after the largest batch within `time`; 0 if every
  // batch takes longer. O(log |costs| + kBlock).
  std::size_t LargestWithin(std::int64_t time) const;
  std::int64_t LargestBatchWithin(std::int64_t time) const {
    const std::size_t end = LargestWithin(time);
    return end == 0 ? 0 : costs[end - 1].batch.count();
  }
};

// The kinds with their batches up to `largest`, including kinds that can use no
// batch. Errors: those of SolveAssignment for the problem itself.
Result<std::vector<GpuKind>> MakeKinds(const AssignProblem& problem,
                                       BatchSize largest);

// The least time for which `enough` holds; absent if there is none. `enough`
// must be monotone and may change only where some kind's largest batch does.
// Expected O(kinds + log |costs|) calls.
std::optional<std::int64_t> LeastEnough(
    std::span<const GpuKind> kinds,
    const std::function<bool(std::int64_t)>& enough);

}  // namespace ucudnn::assign_internal

#endif  // UCUDNN_SOLVER_ASSIGN_KINDS_H_
