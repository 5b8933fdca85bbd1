#include "solver/memory/least_time.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace ucudnn {
namespace {

bool IsMeasuredInParts(const TaskWork& work) {
  return work.HasAlgorithms() && !work.measured.empty();
}

bool IsEstimatedInParts(const TaskWork& work, bool divides_estimates) {
  return work.conv && !work.fixed && divides_estimates;
}

}  // namespace

double LeastTime(const TrainingGraph& graph, const Task& task, BatchSize batch,
                 Bytes room, bool divides_estimates) {
  if (room < Bytes(0)) return kNever;
  if (IsMeasuredInParts(task.work)) {
    const Result<WrCurve> curve =
        SolveWrCurve(task.work.measured, batch, room, BatchPolicy::kAll);
    const std::optional<Nanoseconds> time =
        curve ? curve->LowerBoundAt(batch) : std::nullopt;
    return time ? static_cast<double>(time->count()) : kNever;
  }
  if (IsEstimatedInParts(task.work, divides_estimates)) {
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

LeastCosts::LeastCosts(const TrainingGraph& graph, Bytes room,
                       bool divides_estimates)
    : graph_(graph),
      room_(room),
      divides_estimates_(divides_estimates),
      levels_(graph.tasks.size()) {
  std::vector<const MeasuredPoint*> points;
  for (std::size_t task = 0; task < graph.tasks.size(); ++task) {
    const TaskWork& work = graph.tasks[task].work;
    if (!IsMeasuredInParts(work)) continue;
    points.clear();
    for (const MeasuredPoint& point : work.measured) {
      if (point.workspace <= room && point.batch >= BatchSize(1) &&
          point.batch <= graph.batch) {
        points.push_back(&point);
      }
    }
    std::ranges::sort(points, {}, [](const MeasuredPoint* point) {
      return std::tie(point->workspace, point->batch);
    });
    std::vector<double> times(Index(graph.batch) + 1, kNever);
    times[0] = 0;
    bool faster = false;
    for (std::size_t i = 0; i < points.size(); ++i) {
      const MeasuredPoint& point = *points[i];
      const auto time =
          static_cast<double>(std::min(point.time, AddingTime(point)).count());
      const std::size_t size = Index(point.batch);
      if (time < times[size]) {
        faster = true;
        for (std::size_t b = size; b < times.size(); ++b) {
          times[b] = std::min(times[b], times[b - size] + time);
        }
      }
      const bool ends =
          i + 1 == points.size() || points[i + 1]->workspace != point.workspace;
      if (ends && std::exchange(faster, false)) {
        levels_[task].push_back(
            {static_cast<double>(point.workspace.count()), times});
      }
    }
  }
}

std::vector<LeastCost> LeastCosts::At(std::size_t task, BatchSize batch) const {
  std::vector<LeastCost> costs;
  const auto add = [&](double workspace, double time) {
    if (time < (costs.empty() ? kNever : costs.back().time)) {
      costs.push_back({workspace, time});
    }
  };
  const Task& work = graph_.tasks[task];
  if (IsMeasuredInParts(work.work)) {
    for (const Level& level : levels_[task]) {
      add(level.workspace, level.times[Index(batch)]);
    }
    return costs;
  }
  if (IsEstimatedInParts(work.work, divides_estimates_)) {
    std::vector<Bytes> rooms = {Bytes(0)};
    for (const ModelledAlgorithm& algorithm : graph_.device.algorithms) {
      const std::optional<Bytes> workspace =
          ModelledWorkspace(algorithm.name, *work.work.conv, BatchSize(1));
      if (workspace && *workspace <= room_) rooms.push_back(*workspace);
    }
    std::ranges::sort(rooms);
    for (const Bytes room : rooms) {
      add(static_cast<double>(room.count()),
          LeastTime(graph_, work, batch, room, true));
    }
    return costs;
  }
  for (const TaskCost& cost : CostsAt(graph_, work, batch)) {
    if (cost.workspace > room_) break;
    add(static_cast<double>(cost.workspace.count()),
        static_cast<double>(cost.time.count()));
  }
  return costs;
}

double LeastCosts::FastestAt(std::size_t task, BatchSize batch) const {
  const Task& work = graph_.tasks[task];
  if (!IsMeasuredInParts(work.work)) {
    return LeastTime(graph_, work, batch, room_, divides_estimates_);
  }
  return levels_[task].empty() ? kNever
                               : levels_[task].back().times[Index(batch)];
}

}  // namespace ucudnn
