#include "solver/memory/steps.h"

#include <algorithm>
#include <set>

namespace ucudnn {

std::vector<Step> StepsOf(const RoundModel& round) {
  const TrainingGraph& graph = *round.graph;
  std::vector<Step> steps;
  std::set<std::size_t> written;
  for (std::size_t i = 0; i < round.tasks.size(); ++i) {
    const Task& task = graph.tasks[round.tasks[i]];
    const bool backward =
        task.kind != TaskKind::kForward && task.kind != TaskKind::kLoss;
    if (steps.empty() || steps.back().layer != task.layer ||
        steps.back().backward != backward) {
      steps.push_back({task.layer, backward, i, i, {}});
      written.clear();
    }
    Step& step = steps.back();
    step.end = i + 1;
    for (const std::size_t block : task.reads) {
      const BlockKind kind = graph.blocks[block].kind;
      if (kind == BlockKind::kWeight || kind == BlockKind::kWeightGradient ||
          kind == BlockKind::kMomentum || written.count(block) > 0 ||
          std::count(step.inputs.begin(), step.inputs.end(), block) > 0) {
        continue;
      }
      step.inputs.push_back(block);
    }
    written.insert(task.writes.begin(), task.writes.end());
  }
  return steps;
}

}  // namespace ucudnn
