#ifndef UCUDNN_SOLVER_MEMORY_BOUNDS_H_
#define UCUDNN_SOLVER_MEMORY_BOUNDS_H_

// What no memory plan of a graph can do better than. Symbols: docs/solver.md.
//
// Five tasks within M = 160 bytes; the link carries a byte a microsecond each
// way. The tasks take 105 us. (bounds_test.cc has the same numbers.)
//
//   task          a     b     c    loss   a'
//   us           30    20    10     5     40
//   X 100 bytes   W     R     .     .     R      W writes, R reads,
//   Y  60               W     R                  . is only kept
//   Z  80                     W     R
//   D  10                           W     RW
//   live        100   160   240   190   110
//   excess      -60     0    80    30   -50
//
//   us      0     30  50          110 125                225     265
//   tasks   |  a  | b |           |c |                   |   a'  |
//   out           |-- 80 of X --->|
//   in                               |- 100: all of X -->|
//
// 80 bytes have to make room for c, and only X can. When b ends 20 of them have
// left, so c waits for 60 us. Nor does X fit beside the loss, so it returns
// after that, as a whole. No plan takes less than 265 us. (The best one takes
// 285: X leaves as a whole, too. The bound has whole blocks in one direction.)
// Where tasks may run again and a takes 30 us, no plan takes less than 135.
//
// All functions are pure.

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
struct MemoryFreedom {
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
// 1. The sum of all tasks, each in its least time over all divisions of the
//    mini-batch into measured micro-batches whose workspace fits beside the
//    weights. It holds whatever the rounds, and in any order of tasks.
// 2. Where tasks run in program order, but for updates perhaps: the rounds of
//    the sub-batch that was requested, or of the one that takes least. A round
//    takes
//
//      max over tasks i of  min over ways w of  reach_iw + t_w + leave_iw
//
//    because lack_iw bytes have left before task i starts, and return after it
//    ends (round_bound.h). So the workspace of a task takes room that blocks
//    leave, or the task is slower without it. With recomputation, blocks may be
//    computed again instead. Of the tasks for which this takes longest, only
//    whole blocks move or are computed again (whole_blocks.h).
//
// Left out, so that the best plan may take longer: addresses, that a block is
// away or present at all tasks alike, and the other GPUs that share the link.
//
// O(batch * (tasks * ways + blocks)), with recomputation
// O(batch * tasks * ways * blocks); most sub-batches are ruled out by the sum
// of their tasks.
Nanoseconds LowerBoundTime(const TrainingGraph& graph, Bytes budget,
                           const MemoryFreedom& freedom);

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
    const TrainingGraph& graph, Bytes budget, const MemoryFreedom& freedom,
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
