#ifndef UCUDNN_BASE_TRAINING_STEP_TASKS_H_
#define UCUDNN_BASE_TRAINING_STEP_TASKS_H_

// The tasks of a training graph as they are measured: convolutions by
// themselves, all others together (base/other_tasks.h).

#include <cstddef>
#include <vector>

#include "base/network.h"
#include "base/other_tasks.h"
#include "base/training/build.h"
#include "base/training/graph.h"

namespace ucudnn {

// How the graph is built whose tasks these are.
TrainingOptions OptionsOf(const OtherTasks& tasks);

// Of each task, whether it is a convolution of `network`, which is what the
// graph was built from. Fully connected layers are none.
std::vector<bool> AreConvolutions(const TrainingGraph& graph,
                                  const Network& network);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_TRAINING_STEP_TASKS_H_
