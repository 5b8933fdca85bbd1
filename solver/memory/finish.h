#ifndef UCUDNN_SOLVER_MEMORY_FINISH_H_
#define UCUDNN_SOLVER_MEMORY_FINISH_H_

// The beginning and the end of every policy.

#include "base/result.h"
#include "base/training/memory_plan.h"
#include "solver/memory/request.h"
#include "solver/memory/round_model.h"

namespace ucudnn {

// A plan for these rounds with all persistent blocks and inputs resident, at
// multiples of `unit`; no rounds yet, no policy's name.
MemoryPlan NewPlan(const Rounds& rounds, const MemoryRequest& request,
                   Bytes unit);

// kFailedPrecondition if what is resident exceeds the budget.
Status CheckResidents(const MemoryPlan& plan);

// Places a plan whose rounds were made without addresses (request.allocator),
// adds it up and, in debug builds, checks it. Bounds are added by PlanMemory
// (policies.h), once a policy has made up its mind. kFailedPrecondition if it
// does not fit.
Result<MemoryPlan> FinishPlan(const Rounds& rounds,
                              const MemoryRequest& request, MemoryPlan plan);

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_MEMORY_FINISH_H_
