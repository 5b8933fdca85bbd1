#include "solver/memory/round_model.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace ucudnn {

std::vector<std::size_t> RoundModel::BlocksOf(std::size_t task) const {
  std::vector<std::size_t> blocks = reads[task];
  for (const std::size_t block : graph->tasks[task].writes) {
    if (std::ranges::find(blocks, block) == blocks.end()) {
      blocks.push_back(block);
    }
  }
  return blocks;
}

void SetOrder(std::vector<std::size_t> tasks, RoundModel* round) {
  round->tasks = std::move(tasks);
  round->uses.assign(round->graph->blocks.size(), {});
  for (std::size_t i = 0; i < round->tasks.size(); ++i) {
    for (const std::size_t block : round->BlocksOf(round->tasks[i])) {
      round->uses[block].push_back(i);
    }
  }
}

Result<RoundModel> ModelRound(const TrainingGraph& graph, BatchSize batch,
                              bool last, bool accumulates, TaskRuns runs) {
  RoundModel round;
  round.graph = &graph;
  round.batch = batch;
  round.last = last;
  round.accumulates = accumulates;
  for (const MemoryBlock& block : graph.blocks) {
    round.size.push_back(block.SizeAt(batch));
    round.persistent.push_back(
        block.persistent ||
        (accumulates && block.kind == BlockKind::kWeightGradient));
  }
  std::vector<std::size_t> tasks;
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    const Task& task = graph.tasks[i];
    round.reads.push_back(task.reads);
    if (accumulates) {
      for (const std::size_t block : task.writes) {
        if (graph.blocks[block].kind == BlockKind::kWeightGradient &&
            std::ranges::find(task.reads, block) == task.reads.end()) {
          round.reads.back().push_back(block);
        }
      }
    }
    round.costs.push_back(CostsAt(graph, task, batch));
    const bool in_parts =
        runs == TaskRuns::kInParts && task.work.HasAlgorithms();
    if (round.costs.back().empty() && !in_parts) {
      return Fail(Code::kFailedPrecondition,
                  "the profile has '{}', but not at a batch of {} images, "
                  "undivided; measure this batch too",
                  Excerpt(task.name, 200), batch.count());
    }
    if (!IsUpdate(task.kind) || last) tasks.push_back(i);
  }
  SetOrder(std::move(tasks), &round);
  return round;
}

Result<Rounds> ModelRounds(const TrainingGraph& graph, BatchSize sub_batch,
                           TaskRuns runs) {
  if (sub_batch < BatchSize(1) || sub_batch > graph.batch) {
    return Fail(Code::kInvalidArgument,
                "the sub-batch is {}; 1 to the mini-batch of {} is accepted",
                sub_batch.count(), graph.batch.count());
  }
  Rounds rounds;
  const std::int64_t count =
      (graph.batch.count() + sub_batch.count() - 1) / sub_batch.count();
  if (count > 1) {
    UCUDNN_ASSIGN_OR_RETURN(RoundModel round,
                            ModelRound(graph, sub_batch, false, true, runs));
    rounds.models.push_back(std::move(round));
    rounds.counts.push_back(count - 1);
  }
  const BatchSize rest(graph.batch.count() - (count - 1) * sub_batch.count());
  UCUDNN_ASSIGN_OR_RETURN(RoundModel round,
                          ModelRound(graph, rest, true, count > 1, runs));
  rounds.models.push_back(std::move(round));
  rounds.counts.push_back(1);
  return rounds;
}

}  // namespace ucudnn
