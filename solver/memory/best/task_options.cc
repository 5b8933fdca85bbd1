#include "solver/memory/best/task_options.h"

#include <algorithm>
#include <utility>

#include "solver/memory/request.h"

namespace ucudnn {
namespace {

TaskOption OptionOf(Bytes workspace, Nanoseconds time) {
  return {Aligned(workspace).count(), time.count()};
}

}  // namespace

TaskOptions::TaskOptions(const RoundModel& round)
    : round_(round),
      options_(round.costs.size()),
      reruns_(round.costs.size()),
      fronts_(round.costs.size()) {
  const TrainingGraph& graph = *round.graph;
  for (std::size_t task = 0; task < round.costs.size(); ++task) {
    if (const auto& recipe = graph.tasks[task].recipe) {
      reruns_[task] = {OptionOf(Bytes(0), recipe->time)};
    }
    // What the undivided batch cannot choose, its parts cannot either, unless
    // they were measured.
    const bool divides = graph.tasks[task].work.HasAlgorithms() &&
                         (round.costs[task].size() > 1 ||
                          !graph.tasks[task].work.measured.empty() ||
                          !graph.device.algorithms.empty());
    if (divides) {
      points_.push_back(PointsOf(graph, graph.tasks[task], round.batch));
      WrRequest request;
      request.batch = round.batch;
      request.workspace_limit = Bytes(std::int64_t{1} << 60);
      Result<ParetoFront> front = SolvePareto(points_.back(), request);
      if (front) {
        for (const FrontPoint& point : front->points()) {
          options_[task].push_back(OptionOf(point.workspace, point.time));
        }
        fronts_[task] = *std::move(front);
        continue;
      }
    }
    for (const TaskCost& cost : round.costs[task]) {
      options_[task].push_back(OptionOf(cost.workspace, cost.time));
    }
  }
}

TaskRun TaskOptions::RunOf(std::size_t task, std::size_t option) const {
  if (!fronts_[task]) {
    return Undivided(round_.costs[task][option], round_.batch);
  }
  TaskRun run;
  for (const MicroBatch& part : fronts_[task]->PlanAt(option)) {
    run.parts.push_back({part.batch, part.count, part.algorithm.name});
    run.workspace = std::max(run.workspace, part.workspace);
    run.time += part.time * part.count;
  }
  return run;
}

}  // namespace ucudnn
