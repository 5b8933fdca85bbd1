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

// A way to run a task: with so much workspace it takes at least so long.
struct LeastCost {
  double workspace = 0;  // bytes
  double time = 0;       // ns
};

// All ways of all tasks that matter, at any batch. Refers to the graph, which
// must outlive it.
//
// The least time of divisions changes only at workspaces that measurements
// have, so it is composed from one of these to the next, at all batches at
// once: O(measurements + batch * those that make something faster) a task.
class LeastCosts {
 public:
  // With up to so much workspace.
  LeastCosts(const TrainingGraph& graph, Bytes room, bool divides_estimates);

  // By rising workspace and falling time; empty if nothing fits or if it was
  // not measured.
  std::vector<LeastCost> At(std::size_t task, BatchSize batch) const;
  // The last of these times; kNever if there is none.
  double FastestAt(std::size_t task, BatchSize batch) const;

 private:
  // The least times of divisions of which no micro-batch needs more workspace.
  struct Level {
    double workspace;
    std::vector<double> times;  // by batch
  };

  const TrainingGraph& graph_;
  const Bytes room_;
  const bool divides_estimates_;
  std::vector<std::vector<Level>> levels_;  // by task; empty if not measured
};

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_MEMORY_LEAST_TIME_H_
