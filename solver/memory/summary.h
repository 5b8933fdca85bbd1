#ifndef UCUDNN_SOLVER_MEMORY_SUMMARY_H_
#define UCUDNN_SOLVER_MEMORY_SUMMARY_H_

// What a plan's events add up to.

#include <cstddef>
#include <vector>

#include "base/training/memory_plan.h"
#include "solver/memory/round_model.h"

namespace ucudnn {

// Fills in the plan's sums from its rounds, which have their events and times;
// the residents are set. O(events log events + blocks + tasks). Ideals and
// bounds are SetBounds' (bounds.h).
void Summarise(const TrainingGraph& graph, MemoryPlan* plan);

// A moment at which kCompute has nothing to run.
struct Stall {
  std::size_t round = 0;
  Nanoseconds start{0};  // in the round
  Nanoseconds duration{0};
  std::size_t cause = 0;  // the event whose end let the next task start
};
// All of them, in order; those of a round that runs n times are listed once.
std::vector<Stall> StallsOf(const MemoryPlan& plan);

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_MEMORY_SUMMARY_H_
