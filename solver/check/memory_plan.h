#ifndef UCUDNN_SOLVER_CHECK_MEMORY_PLAN_H_
#define UCUDNN_SOLVER_CHECK_MEMORY_PLAN_H_

// Replays a memory plan and proves that every execution of it is safe, without
// any code of the planners. That one event precedes another is taken from
// streams and `after` alone, never from times: a plan that is safe at the
// predicted times only is rejected.
//
//   R1  rounds and graph belong together: images add up to the mini-batch, the
//       last round is listed alone
//   R2  blocks and tasks exist; tasks run on compute (host updates on host),
//       transfers on another stream
//   R3  `after` names earlier events
//   R4  an event starts when its stream and what it waits for allow, exactly
//   R5  events are listed by start
//   R6  parts cover the round's batch and have a cost
//   R7  durations are those of the parts, sizes and transfers those of blocks
//   R8  the workspace suffices
//   R9  one transfer a direction at a time, one in all unless the link is
//       duplex
//   R10 what is resident is persistent or an input, each once
//   R11 sizes suffice, offsets are aligned
//   R12 everything lies within the budget
//   R13 no range overlaps one that is live,
//   R14 nor, without waiting for its release, one that was
//   R15 a block is allocated and released in turn
//   R16 a release waits for every use
//   R17 a block is used where it is allocated, after its allocation
//   R18 no two accesses at once if one writes, on the device or the host
//   R19 every task runs once; one that is recomputable any number of times
//   R20 every read finds the version that program order gives it
//   R21 persistent blocks end as and where the next round expects them
//   R22 nothing else is left on the device
//   R23 totals are right
//   R24 lower bounds do not exceed what they bound

#include "base/result.h"
#include "base/training/memory_plan.h"

namespace ucudnn {

// Ok, or kInternal with the first rule that is broken and where: "R14 event 17
// (alloc conv3.Y on compute): ...". O(events * (live blocks + ranges)).
Status ValidateMemoryPlan(const MemoryPlan& plan, const TrainingGraph& graph);

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_CHECK_MEMORY_PLAN_H_
