#include "solver/memory/least_time.h"

#include <algorithm>
#include <utility>

namespace ucudnn {

double LeastTime(const TrainingGraph& graph, const Task& task, BatchSize batch,
                 Bytes room, bool divides_estimates) {
  if (room < Bytes(0)) return kNever;
  if (task.work.HasAlgorithms() && !task.work.measured.empty()) {
    const Result<WrCurve> curve =
        SolveWrCurve(task.work.measured, batch, room, BatchPolicy::kAll);
    const std::optional<Nanoseconds> time =
        curve ? curve->LowerBoundAt(batch) : std::nullopt;
    return time ? static_cast<double>(time->count()) : kNever;
  }
  if (task.work.conv && !task.work.fixed && divides_estimates) {
    // Linear in the batch; an algorithm can be had if it fits at one image.
    // Each part is rounded, by half a nanosecond at most.
    double speedup = 1;
    for (const ModelledAlgorithm& algorithm : graph.device.algorithms) {
      const std::optional<Bytes> workspace =
          ModelledWorkspace(algorithm.name, *task.work.conv, BatchSize(1));
      if (workspace && *workspace <= room) {
        speedup = std::max(speedup, algorithm.speedup);
      }
    }
    const auto images = static_cast<double>(batch.count());
    const double time =
        (task.work.operations + task.work.operations_per_image * images) /
        graph.device.arithmetic.Of(graph.precision) / speedup * 1e3;
    return std::max(0.0, time - images);
  }
  double least = kNever;
  for (const TaskCost& cost : CostsAt(graph, task, batch)) {
    if (cost.workspace > room) break;
    least = static_cast<double>(cost.time.count());
  }
  return least;
}

LeastTimes::LeastTimes(const TrainingGraph& graph, Bytes room,
                       bool divides_estimates)
    : graph_(graph), room_(room), divides_estimates_(divides_estimates) {
  for (const Task& task : graph.tasks) {
    curves_.emplace_back();
    if (!task.work.HasAlgorithms() || task.work.measured.empty()) continue;
    Result<WrCurve> curve =
        SolveWrCurve(task.work.measured, graph.batch, room, BatchPolicy::kAll);
    if (curve) curves_.back() = *std::move(curve);
  }
}

double LeastTimes::At(std::size_t task, BatchSize batch) const {
  if (curves_[task]) {
    const auto time = curves_[task]->LowerBoundAt(batch);
    return time ? static_cast<double>(time->count()) : kNever;
  }
  return LeastTime(graph_, graph_.tasks[task], batch, room_,
                   divides_estimates_);
}

}  // namespace ucudnn
