#ifndef UCUDNN_SOLVER_MEMORY_PLACEMENT_H_
#define UCUDNN_SOLVER_MEMORY_PLACEMENT_H_

// Addresses for a plan whose lifetimes are all known: static allocation
// (solver/arena/allocation.h) in place of a memory manager at run time.

#include "base/result.h"
#include "base/training/memory_plan.h"
#include "solver/limits.h"
#include "solver/memory/round_model.h"

namespace ucudnn {

// Gives every allocation and workspace of `plan`, whose rounds were made by
// timelines without addresses, an offset, and each the waits that its address
// needs. No event moves: whatever lay at an address before has been released
// earlier in time. Persistent blocks keep their offsets; so do inputs, unless
// there is one round only.
//
// kFailedPrecondition if no placement within the budget was found, naming the
// smallest pool that was.
Status PlaceStatically(const Rounds& rounds, const Limits& limits,
                       MemoryPlan* plan);

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_MEMORY_PLACEMENT_H_
