#ifndef UCUDNN_SOLVER_MEMORY_HMMS_H_
#define UCUDNN_SOLVER_MEMORY_HMMS_H_

// HMMS, the memory manager of Split-CNN: transfers are planned by how much the
// link can move while tasks run, so that none makes a task wait.
//
//   offload:  queue = (); for op in forward order:
//               the link moves t(op) * rate bytes of the queue, in order; an
//               object whose last byte goes during op is freed after op;
//               append the objects whose last forward use is op and that
//               backward reads
//             what is still queued at the loss is not offloaded
//   prefetch: the same from the end of the iteration backwards: an object is
//             queued at its first backward reader, and fetched from the start
//             of the op in which its first byte moves
//
//   compute  | a     | b     | c     | loss |  c'     | b'        | a'       |
//   d2h              | X(b) -----|          |         |           |
//   h2d                      |              |     |-- X(b) ---|   |
//                            X(b) is freed  |         starts with c'
//
// Source: the notes on Split-CNN and HMMS (Jin and Hong, ASPLOS 2019), section
// 4.2 (storage objects are the training graph's blocks), 4.3 (transfers as
// large as tasks' times allow, no other synchronisation), 4.4 (first fit over
// lifetimes that are then known). The notes lack the paper's figures, so this
// is a reconstruction.
//
// Where the source leaves it open: an object that no forward task reads, as a
// normalisation's statistics, is queued after the task that writes it; what
// cannot return before its first backward reader is not offloaded either, and
// the queue is planned again without it; the image is not copied, the host has
// it; every task uses its fastest algorithm, or, if that does not fit, all use
// the least workspace. First fit in the order of time is a memory manager that
// gives out the lowest free range (MemoryPool::Fit::kFirst).
//
// Pure and deterministic. O(tasks * blocks + transfers^2).

#include "base/result.h"
#include "base/training/graph.h"
#include "base/training/memory_plan.h"
#include "solver/memory/request.h"

namespace ucudnn {

// MemoryPlan::choice says which algorithms run: "p", the fastest, or "m".
// `request.sub_batch` images a round, else all of them. kFailedPrecondition if
// neither fits into the budget.
Result<MemoryPlan> PlanHmms(const TrainingGraph& graph,
                            const MemoryRequest& request);

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_MEMORY_HMMS_H_
