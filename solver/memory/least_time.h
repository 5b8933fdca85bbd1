#ifndef UCUDNN_SOLVER_MEMORY_LEAST_TIME_H_
#define UCUDNN_SOLVER_MEMORY_LEAST_TIME_H_

// The least time that a task can take on a batch, over all its divisions into
// micro-batches: what lower bounds of memory plans are made of. Pure.

#include <cstddef>
#include <limits>
#include <optional>
#include <vector>

#include "base/training/graph.h"
#include "base/units.h"
#include "solver/micro_batch/wr.h"

namespace ucudnn {

// Of times in nanoseconds.
inline constexpr double kNever = std::numeric_limits<double>::infinity();

// With so much room for workspace; kNever if there is no division within it.
// Without `divides_estimates` convolutions that nobody has measured stay
// undivided.
double LeastTime(const TrainingGraph& graph, const Task& task, BatchSize batch,
                 Bytes room, bool divides_estimates);

// The same for all tasks and batches. Refers to the graph, which must outlive
// it.
class LeastTimes {
 public:
  // With so much room for workspace.
  LeastTimes(const TrainingGraph& graph, Bytes room, bool divides_estimates);

  double At(std::size_t task, BatchSize batch) const;

 private:
  const TrainingGraph& graph_;
  const Bytes room_;
  const bool divides_estimates_;
  std::vector<std::optional<WrCurve>> curves_;  // by task
};

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_MEMORY_LEAST_TIME_H_
