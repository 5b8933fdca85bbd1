#ifndef UCUDNN_SOLVER_MEMORY_PLACEMENT_H_
#define UCUDNN_SOLVER_MEMORY_PLACEMENT_H_

// Addresses for a plan whose lifetimes are all known: static allocation
// (solver/arena/allocation.h) in place of a memory manager at run time.

#include <cstdint>

#include "base/result.h"
#include "base/training/graph.h"
#include "base/training/memory_plan.h"
#include "solver/limits.h"

namespace ucudnn {

// Three times what the hardest feasible budgets of the papers' networks need
// (tests/solver/memory/placement_test.cc). An undecided one takes a second or
// two: ten million nodes on ResNet-152 took over a minute.
inline constexpr std::int64_t kMostPlacementNodes = 300'000;

// Gives every allocation and workspace of `plan`, whose rounds were made by
// timelines without addresses, an offset, and each the waits that its address
// needs. No event moves: whatever lay at an address before has been released
// earlier in time. Persistent blocks keep their offsets; so do inputs, unless
// there is one round only.
//
// kFailedPrecondition if no placement within the budget was found, naming the
// smallest pool that was.
Status PlaceStatically(const TrainingGraph& graph, const Limits& limits,
                       MemoryPlan* plan);

// Places a plan anew so that up to `streams` of its tasks can run at once
// (lanes.h): a block or a workspace keeps its addresses as long as a task may
// run that runs at once with those that use it. Tasks that are far apart in the
// round are not counted among these, 64 places or, as far as the budget needs
// it, fewer down to 4. Only offsets change.
//
// The plan stays as it is if that does not fit into its budget, or if it
// copies: then its waits are for its addresses.
void PlaceForStreams(const TrainingGraph& graph, int streams,
                     const Limits& limits, MemoryPlan* plan);

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_MEMORY_PLACEMENT_H_
