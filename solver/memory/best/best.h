#ifndef UCUDNN_SOLVER_MEMORY_BEST_BEST_H_
#define UCUDNN_SOLVER_MEMORY_BEST_BEST_H_

// The fastest plan that a search finds, from every policy's plan on:
//
//   1. Each policy's plan is an answer; the search begins with the fastest.
//   2. Sub-batches that cut the mini-batch into equal rounds, in the order of
//      the least time that they could take, while that beats the answer.
//   3. For each: which blocks are away when (round_search.h), with every
//      convolution divided into the micro-batches for which there is workspace
//      at its time (schedule.h); optionally what is computed again, and which
//      weights live on the host.
//   4. Addresses, once all lifetimes are known; what cannot be placed is
//      searched again with less memory.
//
// More budget is never slower: budgets lie on a ladder, four rungs an octave,
// and the answer is at least as fast as that of every rung below, of which
// those are looked at whose lower bound says that they could be faster.
//
// Deterministic unless it is stopped; then the fastest plan found so far counts
// (base: the policies').

#include "base/result.h"
#include "base/training/graph.h"
#include "base/training/memory_plan.h"
#include "solver/memory/request.h"

namespace ucudnn {

// kFailedPrecondition if neither a policy nor the search finds a plan within
// the budget.
Result<MemoryPlan> PlanBest(const TrainingGraph& graph,
                            const MemoryRequest& request);

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_MEMORY_BEST_BEST_H_
