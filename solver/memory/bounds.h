#ifndef UCUDNN_SOLVER_MEMORY_BOUNDS_H_
#define UCUDNN_SOLVER_MEMORY_BOUNDS_H_

// What no memory plan of a graph can do better than. All functions are pure.

#include <optional>

#include "base/training/graph.h"
#include "base/training/memory_plan.h"
#include "base/units.h"

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
};

// No iteration within the budget is shorter. The larger of two bounds:
//
// Whatever the rounds, every task takes at least its least time over all
// divisions of the mini-batch into measured micro-batches whose workspace fits
// into what the weights leave.
//
// Where weights stay, tasks run in program order (updates may be left out of
// it) and nothing is computed twice, the least over all sub-batches of what
// their rounds take, of which one takes
//     max over tasks k of  reach(k) + t(k) + leave(k):
// what is live across k and does not fit beside it has left before k starts and
// returns after it ends. reach(k) is when k starts if the link carries bytes as
// a fluid, from when each block was computed, and every task before k starts
// once enough has left for it; leave(k) is the same backwards in time.
// O(batch * (tasks + blocks)).
//
// A memory manager's addresses, and what a transfer must be whole for, are not
// in the bound. (Plans of several GPUs share their link; they may take longer.)
Nanoseconds LowerBoundTime(const TrainingGraph& graph, Bytes budget,
                           const PlanFreedom& freedom);

// The second bound for one round of the whole mini-batch; absent if a task does
// not fit into the budget, or was not measured.
std::optional<Nanoseconds> LowerBoundOneRound(const TrainingGraph& graph,
                                              Bytes budget);

// Every block at once, with the largest workspace of the fastest algorithms;
// and the sum of the fastest times. Absent where a task was not measured
// undivided at the mini-batch.
std::optional<Bytes> IdealBytes(const TrainingGraph& graph);
std::optional<Nanoseconds> IdealTime(const TrainingGraph& graph);

// Fills in the plan's ideals and bounds for what it does.
void SetBounds(const TrainingGraph& graph, MemoryPlan* plan);

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_MEMORY_BOUNDS_H_
