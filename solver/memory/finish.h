#ifndef UCUDNN_SOLVER_MEMORY_FINISH_H_
#define UCUDNN_SOLVER_MEMORY_FINISH_H_

// The beginning and the end of every policy.

#include <functional>

#include "base/result.h"
#include "base/training/memory_plan.h"
#include "solver/memory/request.h"
#include "solver/memory/round_model.h"

namespace ucudnn {

// A plan for these rounds with all persistent blocks and inputs resident, at
// multiples of `unit`; no rounds yet, no policy's name.
MemoryPlan NewPlan(const Rounds& rounds, const MemoryRequest& request,
                   Bytes unit);

// Plans one round, whose count is added by PlanEachRound.
using RoundFunction = std::function<Result<MemoryRound>(const RoundModel&)>;

// Adds each round as `plan_round` plans it, places those that have no addresses
// (request.allocator), computes the totals and, in debug builds, validates the
// plan. PlanMemory (policies.h) adds bounds once a policy has decided.
// kFailedPrecondition if the plan does not fit; other errors are plan_round's.
Result<MemoryPlan> PlanEachRound(const Rounds& rounds,
                                 const MemoryRequest& request, MemoryPlan plan,
                                 const RoundFunction& plan_round);

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_MEMORY_FINISH_H_
