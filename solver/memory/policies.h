#ifndef UCUDNN_SOLVER_MEMORY_POLICIES_H_
#define UCUDNN_SOLVER_MEMORY_POLICIES_H_

// Policies of memory planning by name.
//
// A policy is a pure function of a graph and a request, in files of its own,
// and a line in policies.cc. What it is built from:
//
//   ModelRounds   (round_model.h)    sizes, costs and uses at a round's batch
//   NewPlan, PlanEachRound (finish.h)  the plan's beginning and end: residents,
//                                    static placement, totals, checks
//   RoundDraft  (round_draft.h)  a round with a memory manager: allocate,
//                                    compute, free
//   Timeline      (timeline.h)       what happens when, and every wait that
//                                    safety needs
//   MemoryPool    (memory_pool.h)    a memory manager that knows what becomes
//                                    free when
//   bounds.h, summary.h              what no plan beats; a plan's totals
//
// vdnn.cc shows all of them in use. A plan that does not fit is
// kFailedPrecondition, everything else kInvalidArgument.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/training/graph.h"
#include "base/training/memory_plan.h"
#include "solver/memory/request.h"

namespace ucudnn {

struct MemoryPolicy {
  std::string_view name;
  std::string_view what;  // in a line, for help texts
  Result<MemoryPlan> (*plan)(const TrainingGraph& graph,
                             const MemoryRequest& request);
  bool compared = true;       // among those that `all` compares
  bool several_gpus = false;  // plans graphs of PartOfOneGpu
};

// A new policy is a line in policies.cc.
const std::vector<MemoryPolicy>& MemoryPolicies();

// kNotFound, naming those there are.
Result<const MemoryPolicy*> FindMemoryPolicy(std::string_view name);

// The policy's plan, named after it; in debug builds checked. Errors of the
// policy; where it does not fit into the budget (kFailedPrecondition), the
// message also names the smallest budget that would do.
Result<MemoryPlan> PlanMemory(const TrainingGraph& graph,
                              const MemoryRequest& request,
                              const MemoryPolicy& policy);

// The same, without looking for a budget that would do, nor checking the
// request.
Result<MemoryPlan> PlanWithin(const TrainingGraph& graph,
                              const MemoryRequest& request,
                              const MemoryPolicy& policy);

// A budget under which the policy has a plan, above the request's, under which
// it has none: the smallest, to within 0.1 % or 1 MiB, as far as more budget
// is never worse for it. Absent if there is none at all.
std::optional<Bytes> SmallestBudget(const TrainingGraph& graph,
                                    const MemoryRequest& request,
                                    const MemoryPolicy& policy);

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_MEMORY_POLICIES_H_
