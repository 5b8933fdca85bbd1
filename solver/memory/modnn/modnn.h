#ifndef UCUDNN_SOLVER_MEMORY_MODNN_MODNN_H_
#define UCUDNN_SOLVER_MEMORY_MODNN_MODNN_H_

// moDNN: sub-batches that the budget holds (sub_batch.h), and a schedule that
// moves blocks only where memory runs out (schedule.h). On several GPUs the
// host updates the weights (host_updates.h).
//
// Source: X. Chen, D. Z. Chen, Y. Han, X. S. Hu, "moDNN: Memory Optimal Deep
// Neural Network Training on Graphics Processing Units", IEEE TPDS 30 (3),
// 2019, section 5 and 6.

#include "base/result.h"
#include "base/training/graph.h"
#include "base/training/memory_plan.h"
#include "solver/memory/request.h"

namespace ucudnn {

// `request.sub_batch` images a round; else all of them if no time is lost that
// way (the source divides mini-batches because it would be, 5.1.2); else what
// equation (8) says. For several GPUs `graph` is the part of one
// (PartOfOneGpu). kFailedPrecondition if the plan does not fit into the budget.
// Pure and deterministic.
Result<MemoryPlan> PlanModnn(const TrainingGraph& graph,
                             const MemoryRequest& request);

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_MEMORY_MODNN_MODNN_H_
