#ifndef UCUDNN_SOLVER_MEMORY_STEPS_H_
#define UCUDNN_SOLVER_MEMORY_STEPS_H_

// A round's tasks by layers, as the papers' policies go through them: a forward
// step is a layer with its activation in place, a backward step all that the
// layer computes in the backward pass, with its update.

#include <cstddef>
#include <vector>

#include "solver/memory/round_model.h"

namespace ucudnn {

struct Step {
  std::size_t layer = 0;
  bool backward = false;
  std::size_t begin = 0;  // places in RoundModel::tasks: [begin, end)
  std::size_t end = 0;
  // Blocks that are read before they are written, but weights and their
  // gradients: of a forward step X, by place in the graph.
  std::vector<std::size_t> inputs;
};

// The steps in program order. Forward steps come first; the loss is one of
// them. A layer whose tasks are not next to each other has several.
std::vector<Step> StepsOf(const RoundModel& round);

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_MEMORY_STEPS_H_
