#ifndef UCUDNN_SOLVER_ASSIGN_ASSIGN_H_
#define UCUDNN_SOLVER_ASSIGN_ASSIGN_H_

// Distributes a mini-batch over unlike GPUs so that the slowest one finishes as
// early as possible:
//
//   min   max_g sum_b t_gb x_gb
//   where sum_b x_gb <= 1 for every GPU g      (at most one batch each)
//         sum_g sum_b b x_gb = B               (the whole mini-batch)
//         x_gb in {0, 1}
//
// Source: mu-cuDNN (Oyama et al., CLUSTER 2018), section III-E. Times need be
// neither monotone nor complete: a batch that was not measured cannot be used.
//
// Method: the makespan is one of the measured times, and whether a makespan is
// feasible is a subset-sum question over the batches that take no longer.
// Bisection finds the least time at which the GPUs' largest such batches sum to
// at least B. There they exceed B by little, so it remains to decide whether
// the excess can be taken back, with a bit set of its size. If not, bisection
// continues over the larger times. Equal GPUs are handled as one kind.
//
// Ties: fewest GPUs, then least total time, by a dynamic programme over the
// same small excess; then an arbitrary but fixed choice. Pure and thread-safe.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "solver/limits.h"

namespace ucudnn {

// One batch that a GPU can process, with its time and memory.
struct BatchCost {
  BatchSize batch;
  Nanoseconds time{0};
  Bytes memory;           // 0 if it does not matter
  bool at_least = false;  // the time is a lower bound, and texts say so

  friend bool operator==(const BatchCost&, const BatchCost&) = default;
};

struct AssignGpu {
  std::size_t table = 0;  // in AssignProblem::tables
  Bytes memory_limit = Bytes::Max();
  BatchSize max_batch = kMaxBatchSize;
  // If not empty, the only batches that may be used; sorted.
  std::vector<BatchSize> allowed = {};

  friend bool operator==(const AssignGpu&, const AssignGpu&) = default;
};

struct AssignProblem {
  BatchSize batch;
  // Measurements by rising batch, each batch once. Solving is cheaper for GPUs
  // that share a table than for GPUs with equal tables.
  std::vector<std::vector<BatchCost>> tables;
  std::vector<AssignGpu> gpus;
  // At index n - 1, the time that an iteration of n GPUs takes beyond the
  // slowest GPU's: the exchange of gradients that is not hidden. Empty: none.
  // May be longer than `gpus`.
  std::vector<Nanoseconds> communication = {};
};

struct Share {
  BatchSize batch;  // 0: left out
  Nanoseconds time{0};

  friend bool operator==(const Share&, const Share&) = default;
};

struct Assignment {
  Nanoseconds makespan{0};     // with the communication
  Nanoseconds lower_bound{0};  // no assignment is faster: the makespan itself
  Nanoseconds communication{0};
  std::int64_t gpus_used = 0;
  Nanoseconds total_time{0};  // over GPUs, without communication
  // Whether fewest GPUs and least total time are proven too. False only if
  // `limits` ended their search; the makespan is always exact.
  bool ties_resolved = false;
  std::vector<Share> shares;  // of each GPU

  friend bool operator==(const Assignment&, const Assignment&) = default;
};

// The best assignment.
//
// Errors: kInvalidArgument if the batch is not in [1, kMaxBatchSize], there is
// no GPU, a GPU names a table that does not exist, a table is not sorted by
// rising positive batch, a time is negative, or there are communication times
// but not for each number of GPUs; kOutOfRange if the longest time, taken by
// every GPU, sums to more than 2^61 ns; kFailedPrecondition if no batches sum
// to B, naming the nearest possible mini-batches below and above; kCancelled if
// `limits.stop` is requested; kResourceExhausted if there are communication
// times and `limits.max_nodes` does not suffice. Without communication times
// max_nodes bounds only the resolution of ties.
Result<Assignment> SolveAssignment(const AssignProblem& problem,
                                   const Limits& limits = {});

// The time of the even split, B / |G| on every GPU; absent if that is not a
// whole number or not available on every GPU.
std::optional<Nanoseconds> EvenSplit(const AssignProblem& problem);

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_ASSIGN_ASSIGN_H_
