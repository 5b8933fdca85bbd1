#ifndef UCUDNN_SOLVER_MEMORY_BOUNDS_H_
#define UCUDNN_SOLVER_MEMORY_BOUNDS_H_

// What no memory plan of a graph can do better than. All functions are pure.

#include <optional>
#include <vector>

#include "base/training/graph.h"
#include "base/training/memory_plan.h"
#include "base/units.h"
#include "solver/memory/request.h"

namespace ucudnn {

// No plan has a smaller pool. One round: the weights, and the largest task with
// the gradients it makes. Several: weights and their gradients, and the largest
// task at one image. The smaller of the two; where weights may leave, the
// largest task at one image with its weights.
Bytes LowerBoundBytes(const TrainingGraph& graph, bool weights_may_leave);

// What a plan may do besides moving activations.
struct PlanFreedom {
  bool offloads_weights = false;
  bool recomputes = false;
  // Tasks run in program order, or all but updates do, or none need to.
  enum class Order { kProgram, kUpdatesAnywhere, kAny };
  Order order = Order::kProgram;
  // Convolutions without measurements may be divided. (Their estimates are
  // linear in the batch, so that saves workspace, and time by rounding.)
  bool divides_estimates = true;
  // All rounds are of so many images, the last perhaps of fewer.
  std::optional<BatchSize> sub_batch = {};
};

// No iteration within the budget is shorter. The larger of two bounds:
//
// Whatever the rounds, every task takes at least its least time over all
// divisions of the mini-batch into measured micro-batches whose workspace fits
// into what the weights leave.
//
// Where tasks run in program order (updates may be left out of it), the least
// over all sub-batches, or what the given one's rounds take. One takes
//     max over tasks k of  min over ways w to run k of
//         reach(k, w) + t(k, w) + leave(k, w):
// what is live across k and does not fit beside it and the workspace of w has
// left before k starts and returns after it ends. reach(k, w) is when k starts
// if the link carries bytes as a fluid, from when each block was computed, and
// every task before k runs in the way in which it ends first, once enough has
// left for that; leave(k, w) is the same backwards in time. So a task's
// workspace either takes room that blocks have to leave, or the task is slower
// without it. A block that is in use from its first task to its last has no
// time to be away, so it neither leaves nor returns. Weights that may leave are
// on the host from the beginning, like inputs. If tasks may run twice, a part
// of what does not fit, as large as is best, takes the time of computing it
// again instead of transfers (a fractional knapsack). For the tasks that delay
// a round most, only whole blocks move or are computed again (whole_blocks.h).
// O(batch * (tasks * ways + blocks)), with recomputation
// O(batch * tasks * ways * blocks); most are ruled out by the tasks' times.
//
// A memory manager's addresses, and that blocks move as a whole at all tasks,
// are not in the bound. (Plans of several GPUs share their link; they may take
// longer.)
Nanoseconds LowerBoundTime(const TrainingGraph& graph, Bytes budget,
                           const PlanFreedom& freedom);

// The second bound of the rounds of one sub-batch (ModelRounds); absent where a
// task does not fit into the budget, or was not measured.
struct SubBatchBound {
  Nanoseconds earlier{0};  // each round but the last
  Nanoseconds last{0};
  Nanoseconds time{0};  // all rounds
};
// Of each of `sub_batches`, from 1 to the graph's batch. O(measurements *
// batch), then as above for each of them.
std::vector<std::optional<SubBatchBound>> LowerBoundsOfSubBatches(
    const TrainingGraph& graph, Bytes budget, const PlanFreedom& freedom,
    const std::vector<BatchSize>& sub_batches);

// Every block at once, with the largest workspace of the fastest algorithms;
// and the sum of the fastest times. Absent where a task was not measured
// undivided at the mini-batch.
std::optional<Bytes> IdealBytes(const TrainingGraph& graph);
std::optional<Nanoseconds> IdealTime(const TrainingGraph& graph);

// Fills in the plan's ideals and bounds for what it does, and the sub-batch
// that was requested.
void SetBounds(const TrainingGraph& graph, const MemoryRequest& request,
               MemoryPlan* plan);

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_MEMORY_BOUNDS_H_
