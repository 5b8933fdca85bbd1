#ifndef UCUDNN_SOLVER_MEMORY_BEST_TASK_OPTIONS_H_
#define UCUDNN_SOLVER_MEMORY_BEST_TASK_OPTIONS_H_

// How fast each task of a round can run with how much workspace. Convolutions
// may be divided into measured micro-batches (solver/micro_batch/pareto.h).

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "solver/memory/round_model.h"
#include "solver/memory/timeline.h"
#include "solver/micro_batch/pareto.h"

namespace ucudnn {

struct TaskOption {
  std::int64_t workspace = 0;  // bytes, aligned
  std::int64_t time = 0;       // ns
};

class TaskOptions {
 public:
  // Of all tasks of the round, which must outlive this.
  explicit TaskOptions(const RoundModel& round);

  // By rising workspace and falling time. Empty if the task was measured, but
  // neither at the round's batch nor at batches that add up to it.
  const std::vector<TaskOption>& Of(std::size_t task) const {
    return options_[task];
  }
  // The same where the task runs again.
  const std::vector<TaskOption>& OfRerun(std::size_t task) const {
    return reruns_[task].empty() ? options_[task] : reruns_[task];
  }
  // How the task runs with option `option`.
  TaskRun RunOf(std::size_t task, std::size_t option) const;

 private:
  const RoundModel& round_;
  std::vector<std::vector<TaskOption>> options_;  // by task of the graph
  // Of those that run again otherwise than first; empty for the others.
  std::vector<std::vector<TaskOption>> reruns_;
  // What the fronts of divided tasks refer to; both by task.
  std::deque<std::vector<MeasuredPoint>> points_;
  std::vector<std::optional<ParetoFront>> fronts_;
};

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_MEMORY_BEST_TASK_OPTIONS_H_
