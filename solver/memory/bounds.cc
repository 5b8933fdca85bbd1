#include "solver/memory/bounds.h"

#include <algorithm>
#include <vector>

#include "solver/memory/round_model.h"
#include "solver/micro_batch/wr.h"

namespace ucudnn {
namespace {

// The largest task's blocks: all of them, or those that do not stay anyway.
Bytes LargestTask(const TrainingGraph& graph, BatchSize batch, bool accumulates,
                  bool with_weights) {
  Bytes largest;
  for (const Task& task : graph.tasks) {
    if (task.kind == TaskKind::kHostUpdate) continue;
    std::vector<std::size_t> blocks = task.reads;
    blocks.insert(blocks.end(), task.writes.begin(), task.writes.end());
    std::sort(blocks.begin(), blocks.end());
    blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
    Bytes sum;
    for (const std::size_t i : blocks) {
      const MemoryBlock& block = graph.blocks[i];
      const bool stays =
          block.persistent ||
          (accumulates && block.kind == BlockKind::kWeightGradient);
      if (with_weights || !stays) sum += block.SizeAt(batch);
    }
    largest = std::max(largest, sum);
  }
  return largest;
}

Bytes Staying(const TrainingGraph& graph, bool accumulates) {
  Bytes sum;
  for (const MemoryBlock& block : graph.blocks) {
    if (block.persistent ||
        (accumulates && block.kind == BlockKind::kWeightGradient)) {
      sum += block.bytes;
    }
  }
  return sum;
}

}  // namespace

Bytes LowerBoundBytes(const TrainingGraph& graph, bool weights_may_leave) {
  const BatchSize one(1);
  if (weights_may_leave) return LargestTask(graph, one, true, true);
  const Bytes whole =
      Staying(graph, false) + LargestTask(graph, graph.batch, false, false);
  if (graph.batch == one) return whole;
  return std::min(whole,
                  Staying(graph, true) + LargestTask(graph, one, true, false));
}

Nanoseconds LowerBoundTime(const TrainingGraph& graph, Bytes budget) {
  const Bytes room = budget - Staying(graph, false);
  Nanoseconds sum{0};
  for (const Task& task : graph.tasks) {
    if (task.kind == TaskKind::kHostUpdate) continue;
    if (task.work.conv && !task.work.measured.empty()) {
      const Result<WrCurve> curve =
          SolveWrCurve(task.work.measured, graph.batch,
                       std::max(room, Bytes(0)), BatchPolicy::kAll);
      if (!curve) continue;
      sum += curve->LowerBoundAt(graph.batch).value_or(Nanoseconds(0));
      continue;
    }
    // Modelled times are linear in the batch, and dividing it adds launches;
    // each part is rounded, by half a nanosecond at most.
    const std::vector<TaskCost> costs = CostsAt(graph, task, graph.batch);
    if (costs.empty()) continue;
    const Nanoseconds parts(graph.batch.count() / 2 + 1);
    const bool whole = graph.batch == BatchSize(1) ||
                       task.kind == TaskKind::kUpdate || task.work.fixed;
    sum += whole ? costs.back().time
                 : std::max(Nanoseconds(0), costs.back().time - parts);
  }
  return sum;
}

std::optional<Bytes> IdealBytes(const TrainingGraph& graph) {
  Bytes sum;
  Bytes workspace;
  for (const MemoryBlock& block : graph.blocks)
    sum += block.SizeAt(graph.batch);
  for (const Task& task : graph.tasks) {
    if (task.kind == TaskKind::kHostUpdate) continue;
    const std::vector<TaskCost> costs = CostsAt(graph, task, graph.batch);
    if (costs.empty()) return std::nullopt;
    workspace = std::max(workspace, costs.back().workspace);
  }
  return sum + workspace;
}

std::optional<Nanoseconds> IdealTime(const TrainingGraph& graph) {
  Nanoseconds sum{0};
  for (const Task& task : graph.tasks) {
    if (task.kind == TaskKind::kHostUpdate) continue;
    const std::vector<TaskCost> costs = CostsAt(graph, task, graph.batch);
    if (costs.empty()) return std::nullopt;
    sum += costs.back().time;
  }
  return sum;
}

}  // namespace ucudnn
