#ifndef UCUDNN_SOLVER_MEMORY_MODNN_SUB_BATCH_H_
#define UCUDNN_SOLVER_MEMORY_MODNN_SUB_BATCH_H_

// How much memory moDNN needs, and into which sub-batches it divides a
// mini-batch so that a budget holds them.
//
// Source: X. Chen et al., "moDNN: Memory Optimal Deep Neural Network Training
// on Graphics Processing Units", TPDS 2019, section 5.1.
//
// All functions are pure.

#include "base/result.h"
#include "base/training/graph.h"
#include "base/units.h"

namespace ucudnn {

// Equation (7): the weights, and the largest task's inputs and outputs at one
// image. A gradient of weights is an output of its task. A figure to report:
// plans in several rounds keep all gradients besides.
Bytes ModnnLeastBytes(const TrainingGraph& graph);

// Equation (8): the weights and their gradients, and the most that 15 % of the
// tasks, one after the other, have as blocks, each counted once, with the
// largest workspace of their fastest algorithms (which the formula as printed
// lacks and its text names); at least what any one task needs, equation (6).
// Updates are no tasks here, and neither is a normalisation within its
// convolution's layer (Fusion::kPaper), whose error is the layer's. Every task
// has a cost at `batch`. Blocks are rounded up to the plan's alignment.
// O(tasks^2).
Bytes ModnnNeededBytes(const TrainingGraph& graph, BatchSize batch);

struct ModnnSubBatch {
  BatchSize largest;  // that fits by (8); 0 if none does
  BatchSize chosen;
};

// Section 5.1.2: the largest sub-batch that needs no more than the budget, by
// binary search, and unless that is the mini-batch tuned down to a multiple of
// 64, or to a power of two below. If none fits, the smallest: plans may exist
// down to (7). Of sub-batches that were measured, the last round's included; if
// no tuned one was, the untuned. kFailedPrecondition if none was measured at
// all.
Result<ModnnSubBatch> ChooseModnnSubBatch(const TrainingGraph& graph,
                                          Bytes budget);

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_MEMORY_MODNN_SUB_BATCH_H_
