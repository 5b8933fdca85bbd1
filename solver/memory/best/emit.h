#ifndef UCUDNN_SOLVER_MEMORY_BEST_EMIT_H_
#define UCUDNN_SOLVER_MEMORY_BEST_EMIT_H_

// A schedule as a round of a memory plan, without addresses: they are given by
// PlaceStatically (solver/memory/placement.h).

#include <vector>

#include "base/training/memory_plan.h"
#include "solver/memory/best/program.h"
#include "solver/memory/best/schedule.h"

namespace ucudnn {

// The events of a schedule that fits, made by `scheduler` for `moved`. The
// round takes as long as the schedule says.
MemoryRound EmitRound(const Scheduler& scheduler, const TaskOptions& options,
                      const std::vector<ResidentBlock>& residents,
                      const std::vector<char>& moved,
                      const RoundSchedule& schedule);

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_MEMORY_BEST_EMIT_H_
