#ifndef UCUDNN_SOLVER_MEMORY_ROUND_MODEL_H_
#define UCUDNN_SOLVER_MEMORY_ROUND_MODEL_H_

// A training graph seen at one round: sizes, costs and uses at its batch.

#include <cstddef>
#include <vector>

#include "base/result.h"
#include "base/training/graph.h"
#include "base/units.h"

namespace ucudnn {

struct RoundModel {
  const TrainingGraph* graph = nullptr;
  BatchSize batch;
  bool last = true;  // updates weights
  // The iteration has several rounds: gradients of weights are persistent, and
  // read by the tasks that write them.
  bool accumulates = false;
  // The graph's tasks that run in this round, in program order.
  std::vector<std::size_t> tasks;
  // By block of the graph.
  std::vector<Bytes> size;
  std::vector<bool> persistent;
  std::vector<std::vector<std::size_t>> uses;  // places in `tasks`, rising
  // By task of the graph. `reads` has the gradients that are added to.
  std::vector<std::vector<std::size_t>> reads;
  std::vector<std::vector<TaskCost>> costs;  // CostsAt the round's batch

  bool IsInput(std::size_t block) const {
    return graph->blocks[block].kind == BlockKind::kInput;
  }
  // All blocks that the task touches, each once.
  std::vector<std::size_t> BlocksOf(std::size_t task) const;
  // Whether the task at place `position` of `tasks`, or one after it, uses the
  // block.
  bool UsedFrom(std::size_t block, std::size_t position) const {
    return !uses[block].empty() && uses[block].back() >= position;
  }
};

// Makes the round run these tasks in this order.
void SetOrder(std::vector<std::size_t> tasks, RoundModel* round);

// What a planner runs tasks as: the policies of the papers undivided, `best` in
// parts, so that their costs at the round's batch may be unknown.
enum class TaskRuns { kUndivided, kInParts };

// The model refers to `graph`, which must outlive it. kFailedPrecondition,
// naming the task, if it was measured but not undivided at this batch, unless
// it may run in parts.
Result<RoundModel> ModelRound(const TrainingGraph& graph, BatchSize batch,
                              bool last, bool accumulates, TaskRuns runs);

// The rounds of an iteration in sub-batches: those of `sub_batch` images, if
// any besides the last, then the last with what remains. `counts` has how often
// each runs.
struct Rounds {
  std::vector<RoundModel> models;
  std::vector<std::int64_t> counts;
};
// Errors of ModelRound; kInvalidArgument unless `sub_batch` is from 1 to the
// graph's batch.
Result<Rounds> ModelRounds(const TrainingGraph& graph, BatchSize sub_batch,
                           TaskRuns runs = TaskRuns::kUndivided);

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_MEMORY_ROUND_MODEL_H_
