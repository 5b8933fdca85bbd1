#ifndef UCUDNN_SOLVER_MEMORY_VDNN_H_
#define UCUDNN_SOLVER_MEMORY_VDNN_H_

// vDNN and vDNNExt: layers' inputs leave for the host during the forward pass
// and return during the backward pass.
//
//   forward l:  alloc Y, workspace; compute l and its activation; if off(l)
//               offload X(l) from the start of l; synchronise both streams;
//               free workspace; if off(l) free X(l)
//   backward l: p = prefetch(l); if there is one alloc X(p) and fetch it from
//               the start of l; alloc dX, dW, workspace; activation, filter,
//               data, update; synchronise; free workspace, dW, Y, dY
//
// Source: S. B. Shriram, "Dynamic GPU Memory Management for Training Deep
// Neural Networks", sections 3.3 (operations), 3.4 (policies), figure 6 (which
// layer is fetched when), 4.2 and 4.3 (vDNNExt); after Rhu et al., MICRO 2016.
//
// Where the source leaves it open: the classifier, from the first Gemm on, is
// left alone; the image is not copied, the host has it; a block is freed once
// no later task uses it, which of a chain is what the source says; of several
// readers of X the last one offloads it; what a join needs and was not fetched
// is fetched when it is needed.
//
// Pure and deterministic.

#include <string_view>

#include "base/result.h"
#include "base/training/graph.h"
#include "base/training/memory_plan.h"
#include "solver/memory/request.h"

namespace ucudnn {

struct VdnnOptions {
  enum class Offload { kNone, kConv, kAll };
  enum class Algorithms {
    kLeastMemory,  // (m)
    kFastest,      // (p), undivided, whatever it needs
    kGreedy,       // kernel by kernel the fastest that fits at that moment
  };
  Offload offload = Offload::kAll;
  Algorithms algorithms = Algorithms::kLeastMemory;
  bool synchronous = true;  // vDNN; else vDNNExt
};

// One static policy. `request.sub_batch` images a round, else all of them.
// kFailedPrecondition if the plan does not fit into the budget.
Result<MemoryPlan> PlanVdnn(const TrainingGraph& graph,
                            const MemoryRequest& request,
                            const VdnnOptions& options);

// vDNN dyn (3.4), or the same choice for vDNNExt: the first that fits of
//   no offloading (p); conv (p); all (p); conv, all with greedy algorithms;
//   conv (m); all (m),
// if all (m) fits at all. MemoryPlan::choice says which.
Result<MemoryPlan> PlanVdnnDynamic(const TrainingGraph& graph,
                                   const MemoryRequest& request,
                                   bool synchronous);

// Nothing leaves: every block from its first use to its last, the fastest
// algorithms.
Result<MemoryPlan> PlanBaseline(const TrainingGraph& graph,
                                const MemoryRequest& request);

// What a program without a memory manager allocates for an iteration (D,
// figure 2): parameters and their gradients, every activation, and the largest
// gradient twice.
Bytes NetworkWideBytes(const TrainingGraph& graph);

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_MEMORY_VDNN_H_
