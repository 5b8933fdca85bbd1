#ifndef UCUDNN_SOLVER_ASSIGN_KINDS_H_
#define UCUDNN_SOLVER_ASSIGN_KINDS_H_

// The GPUs of an assignment as kinds, for solver/assign.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "solver/assign/assign.h"

namespace ucudnn::assign_internal {

// GPUs that are alike. `costs` are the batches they may use, by rising batch.
struct Kind {
  std::vector<std::size_t> gpus;
  std::span<const BatchCost> costs;
  std::vector<BatchCost> own_costs;  // where `costs` is not a whole table
  // The least time of batch i * kBlock of `costs` or any later one: never
  // falls. One for each block, since large tables cost what memory they touch.
  static constexpr std::size_t kBlock = 16;
  std::vector<std::int64_t> least_from;

  std::int64_t count() const { return std::ssize(gpus); }
  // Where the largest batch within `time` stands in `costs`, plus one; 0 if
  // every batch takes longer. O(log |costs| + kBlock).
  std::size_t LargestWithin(std::int64_t time) const;
  std::int64_t LargestBatchWithin(std::int64_t time) const {
    const std::size_t end = LargestWithin(time);
    return end == 0 ? 0 : costs[end - 1].batch.count();
  }
};

// With the batches up to `largest`. Errors: those of SolveAssignment for the
// problem itself. Kinds that can use no batch are included.
Result<std::vector<Kind>> MakeKinds(const AssignProblem& problem,
                                    BatchSize largest);

// The least time that is enough, where what is enough stays so for all larger
// times and changes only with some kind's largest batch; absent if none is.
// Expected O(kinds + log |costs|) calls.
std::optional<std::int64_t> LeastEnough(
    std::span<const Kind> kinds,
    const std::function<bool(std::int64_t)>& enough);

}  // namespace ucudnn::assign_internal

#endif  // UCUDNN_SOLVER_ASSIGN_KINDS_H_
