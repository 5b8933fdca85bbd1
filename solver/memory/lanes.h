#ifndef UCUDNN_SOLVER_MEMORY_LANES_H_
#define UCUDNN_SOLVER_MEMORY_LANES_H_

// Which tasks of a round may run at once.
//
// A plan lists its tasks one after the other. Whoever runs up to N of them at
// once gives each a lane. Tasks of one lane keep their order; tasks of
// different lanes keep it where one uses what the other one writes:
//
//   lane 0   x --> a.conv --> a.relu ------------------> concat
//             \                                         /
//   lane 1     `-> b1.conv --> b1.relu --> b2.conv ----'
//
// So at most N run at once, and each sees what it would see in program order.

#include <cstddef>
#include <utility>
#include <vector>

#include "base/training/graph.h"
#include "base/training/memory_plan.h"

namespace ucudnn {

// A partial order of tasks, which are added in an order that fits it.
class TaskOrder {
 public:
  // Adds a task. It follows the earlier ones for which `follows` says so, by
  // their places, and all that these follow. O(earlier tasks * those that it
  // follows directly).
  template <class Follows>
  void Add(const Follows& follows) {
    std::vector<bool> before(after_.size());
    std::vector<std::size_t> direct;
    for (std::size_t other = before.size(); other-- > 0;) {
      if (before[other] || !follows(other)) continue;
      direct.push_back(other);
      before[other] = true;
      for (std::size_t i = 0; i < other; ++i) {
        if (before_[other][i]) before[i] = true;
      }
    }
    before_.push_back(std::move(before));
    after_.push_back(std::move(direct));
  }

  // Whether the task at place `a` has ended when that at place `b` starts.
  bool Before(std::size_t a, std::size_t b) const {
    return a < b && before_[b][a];
  }
  // The tasks that it follows directly, latest first: the fewest from which the
  // others follow.
  const std::vector<std::size_t>& After(std::size_t task) const {
    return after_[task];
  }

 private:
  std::vector<std::vector<bool>> before_;
  std::vector<std::vector<std::size_t>> after_;
};

// Whether one of the tasks writes a block that the other one uses.
bool Conflict(const Task& a, const Task& b);

// The lane of each event of the round that runs a task on kCompute, from 0 to
// `streams` - 1; 0 of other events. By list scheduling in the round's order: a
// task goes to the lane whose last task precedes it anyhow, of several to that
// with the latest one; if there is none, to the lane that is idle first by the
// planned times. It depends on blocks alone, not on where they lie.
std::vector<std::size_t> LanesOf(const TrainingGraph& graph,
                                 const MemoryRound& round, int streams);

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_MEMORY_LANES_H_
