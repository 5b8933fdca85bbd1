#ifndef UCUDNN_SOLVER_MEMORY_ROUND_BOUND_H_
#define UCUDNN_SOLVER_MEMORY_ROUND_BOUND_H_

// The least time of one round at any batch; bounds.h says what it is. Pure.

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "base/training/graph.h"
#include "base/units.h"
#include "solver/memory/bounds.h"

namespace ucudnn {

// Whether the block stays on the device from one round to the next unless a
// plan moves it, and the bytes of all that do.
bool Stays(const MemoryBlock& block, bool accumulates);
Bytes Staying(const TrainingGraph& graph, bool accumulates);

// All blocks that the task touches, each once.
std::vector<std::size_t> BlocksOf(const Task& task);

// Refers to the graph, which must outlive it.
class RoundBound {
 public:
  enum class Updates { kNone, kInOrder, kAnywhere };

  RoundBound(const TrainingGraph& graph, bool accumulates, Updates updates,
             const PlanFreedom& freedom);

  // The tasks in order.
  const std::vector<std::size_t>& tasks() const { return tasks_; }
  // Bytes that stay.
  double fixed() const { return fixed_; }
  // Bytes of the task at `place` besides these.
  double Need(std::size_t place, BatchSize batch) const;

  // The bound in nanoseconds, given each task's least time; kNever
  // (least_time.h) if a task does not fit.
  double Bound(BatchSize batch, Bytes budget,
               const std::vector<double>& times) const;

 private:
  double Size(std::size_t block, BatchSize batch) const {
    return static_cast<double>(graph_.blocks[block].SizeAt(batch).count());
  }
  // Notes the blocks that only recomputable tasks of the forward pass write.
  void FindRecomputable();
  double LeastDelay(BatchSize batch, const std::vector<double>& times,
                    const std::vector<double>& excess,
                    const std::vector<double>& must_leave,
                    const std::vector<double>& out,
                    const std::vector<double>& back) const;

  const TrainingGraph& graph_;
  const bool recomputes_;
  const double fixed_;
  std::vector<bool> stays_;         // by block: never leaves
  std::vector<bool> host_has_;      // by block: can be dropped without a copy
  std::vector<std::size_t> tasks_;  // of the graph, in order
  std::vector<std::size_t> anywhere_;          // updates in no order
  std::vector<std::vector<std::size_t>> own_;  // blocks that do not stay
  // First and last use of each such block, by place of the task.
  std::map<std::size_t, std::pair<std::size_t, std::size_t>> uses_;
  // Blocks with the places of the tasks that compute them.
  std::vector<std::pair<std::size_t, std::vector<std::size_t>>> recomputable_;
};

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_MEMORY_ROUND_BOUND_H_
