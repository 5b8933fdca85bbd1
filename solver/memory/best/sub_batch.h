#ifndef UCUDNN_SOLVER_MEMORY_BEST_SUB_BATCH_H_
#define UCUDNN_SOLVER_MEMORY_BEST_SUB_BATCH_H_

// Plans of one sub-batch: its rounds are searched one by one (round_search.h),
// then given addresses.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "base/training/memory_plan.h"
#include "solver/memory/best/round_search.h"
#include "solver/memory/bounds.h"
#include "solver/memory/request.h"

namespace ucudnn {

// By block: which persistent ones live on the host.
using Hosted = std::vector<bool>;

struct SubBatchLimits {
  SubBatchBound bound;
  std::int64_t effort = 0;    // tasks in schedules of a round
  std::int64_t programs = 0;  // of a round, with recomputation
  // Part of the memory, if nothing runs twice (KeepReserve).
  double reserve = 0;
  std::stop_token stop = {};
};

class SubBatch {
 public:
  // Null if a task was measured, but neither at the batch of a round nor, where
  // it can be divided, at batches that add up to it. The graph must outlive it.
  static std::unique_ptr<SubBatch> Make(const TrainingGraph& graph,
                                        BatchSize size);

  // The largest weights, with their gradients where these stay too: none, and
  // 1, 2, 4, ... of them, up to all.
  std::vector<Hosted> HostedChoices() const;

  // What the rounds take within so much memory, if they fit and it is less than
  // `limit`.
  std::optional<Nanoseconds> Estimate(const Hosted& hosted,
                                      std::int64_t capacity,
                                      const SubBatchLimits& limits,
                                      Nanoseconds limit) const;

  // The fastest plan found, if it takes less than `limit`. A lower limit saves
  // time, but never costs a plan below it.
  std::optional<MemoryPlan> Plan(const Hosted& hosted,
                                 const MemoryRequest& request,
                                 const SubBatchLimits& limits,
                                 Nanoseconds limit) const;

 private:
  struct Capacity {
    std::int64_t bytes = 0;
    double reserve = 0;  // part of it
  };
  struct Found {
    std::vector<FoundRound> rounds;
    Nanoseconds time{0};
  };

  explicit SubBatch(Rounds rounds);

  // Absent if that does not fit or takes `limit` or more. Begins with what
  // `start` computes again, if it is given.
  std::optional<Found> Search(const Hosted& hosted, const Capacity& capacity,
                              const SubBatchLimits& limits, Nanoseconds limit,
                              const Found* start) const;
  std::optional<MemoryPlan> Place(const Found& found,
                                  const MemoryRequest& request,
                                  std::int64_t nodes) const;

  Rounds rounds_;
  std::deque<TaskOptions> options_;  // by round
};

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_MEMORY_BEST_SUB_BATCH_H_
