#ifndef UCUDNN_SOLVER_MEMORY_BOUNDS_H_
#define UCUDNN_SOLVER_MEMORY_BOUNDS_H_

// What no memory plan of a graph can do better than.

#include <optional>

#include "base/training/graph.h"
#include "base/units.h"

namespace ucudnn {

// No plan has a smaller pool. One round: the weights, and the largest task with
// the gradients it makes. Several: weights and their gradients, and the largest
// task at one image. The smaller of the two; where weights may leave, the
// largest task at one image with its weights.
Bytes LowerBoundBytes(const TrainingGraph& graph, bool weights_may_leave);

// No iteration is shorter, whatever the rounds: every task takes at least its
// least time over all divisions into measured micro-batches whose workspace
// fits into the budget beside the weights.
Nanoseconds LowerBoundTime(const TrainingGraph& graph, Bytes budget);

// Every block at once, with the largest workspace of the fastest algorithms;
// and the sum of the fastest times. Absent where a task was not measured
// undivided at the mini-batch.
std::optional<Bytes> IdealBytes(const TrainingGraph& graph);
std::optional<Nanoseconds> IdealTime(const TrainingGraph& graph);

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_MEMORY_BOUNDS_H_
