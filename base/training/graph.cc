#include "base/training/graph.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <set>
#include <tuple>
#include <utility>

namespace ucudnn {
namespace {

// Keeps the Pareto front of time and workspace, and makes names unique: two
// measured points of a batch may differ in math alone.
void KeepFront(std::vector<TaskCost>* costs) {
  std::sort(costs->begin(), costs->end(),
            [](const TaskCost& a, const TaskCost& b) {
              return std::tie(a.workspace, a.time, a.algorithm) <
                     std::tie(b.workspace, b.time, b.algorithm);
            });
  std::vector<TaskCost> front;
  std::set<std::string> names;
  for (TaskCost& cost : *costs) {
    if (!front.empty() && cost.time >= front.back().time) continue;
    std::string& name = cost.algorithm.name;
    if (!name.empty() && names.count(name) > 0) {
      name += '/' + cost.algorithm.math;
      while (names.count(name) > 0) name += '\'';
    }
    names.insert(name);
    front.push_back(std::move(cost));
  }
  *costs = std::move(front);
}

Bytes TrafficOf(const TrainingGraph& graph, const Task& task, BatchSize batch) {
  Bytes sum;
  for (const auto* blocks : {&task.reads, &task.writes}) {
    for (const std::size_t block : *blocks) {
      sum += graph.blocks[block].SizeAt(batch);
    }
  }
  return sum;
}

}  // namespace

std::string_view Name(BlockKind kind) {
  switch (kind) {
    case BlockKind::kInput:
      return "input";
    case BlockKind::kActivation:
      return "activation";
    case BlockKind::kStatistics:
      return "statistics";
    case BlockKind::kMask:
      return "mask";
    case BlockKind::kGradient:
      return "gradient";
    case BlockKind::kWeight:
      return "weight";
    case BlockKind::kWeightGradient:
      return "weight_gradient";
    case BlockKind::kMomentum:
      return "momentum";
  }
  return "?";
}

std::string_view Name(TaskKind kind) {
  switch (kind) {
    case TaskKind::kForward:
      return "forward";
    case TaskKind::kLoss:
      return "loss";
    case TaskKind::kBackward:
      return "backward";
    case TaskKind::kBackwardFilter:
      return "backward_filter";
    case TaskKind::kBackwardData:
      return "backward_data";
    case TaskKind::kUpdate:
      return "update";
    case TaskKind::kHostUpdate:
      return "host_update";
  }
  return "?";
}

std::string_view NodeOf(const Task& task) {
  return std::string_view(task.name).substr(0, task.name.rfind('.'));
}

Nanoseconds TimeOnLine(const std::vector<TaskTimeAt>& line, BatchSize batch) {
  const auto after = std::lower_bound(
      line.begin(), line.end(), batch,
      [](const TaskTimeAt& at, BatchSize b) { return at.batch < b; });
  const auto between = [&](const TaskTimeAt& from, const TaskTimeAt& to) {
    const std::int64_t span = to.batch.count() - from.batch.count();
    const std::int64_t part = batch.count() - from.batch.count();
    const Nanoseconds more = to.time - from.time;
    return from.time + more / span * part + more % span * part / span;
  };
  if (after == line.end()) return between({BatchSize(0), {}}, line.back());
  if (after == line.begin() || after->batch == batch) return after->time;
  return between(*std::prev(after), *after);
}

std::vector<TaskCost> CostsAt(const TrainingGraph& graph, const Task& task,
                              BatchSize batch) {
  const TaskWork& work = task.work;
  const DeviceModel& device = graph.device;
  if (work.fixed) return {{{}, Bytes(0), *work.fixed}};
  if (!work.line.empty()) {
    return {{{}, Bytes(0), TimeOnLine(work.line, batch)}};
  }
  std::vector<TaskCost> costs;
  if (!work.measured.empty()) {
    // An update costs the same at any batch.
    const bool any_batch = task.kind == TaskKind::kUpdate;
    for (const MeasuredPoint& point : work.measured) {
      if (!any_batch && point.batch != batch) continue;
      costs.push_back({point.algorithm, point.workspace, point.time});
    }
    KeepFront(&costs);
    return costs;
  }
  const double operations =
      work.operations +
      work.operations_per_image * static_cast<double>(batch.count());
  if (operations == 0) {
    return {{{},
             Bytes(0),
             device.launch +
                 TimeAtRate(
                     static_cast<double>(TrafficOf(graph, task, batch).count()),
                     device.memory_rate)}};
  }
  const double rate = device.arithmetic.Of(graph.precision);
  if (!work.conv) return {{{}, Bytes(0), TimeAtRate(operations, rate)}};
  costs.push_back({{"IMPLICIT_GEMM", "", graph.precision},
                   Bytes(0),
                   TimeAtRate(operations, rate)});
  for (const ModelledAlgorithm& algorithm : device.algorithms) {
    const std::optional<Bytes> workspace =
        ModelledWorkspace(algorithm.name, *work.conv, batch);
    if (!workspace) continue;
    costs.push_back({{algorithm.name, "", graph.precision},
                     *workspace,
                     TimeAtRate(operations, rate * algorithm.speedup)});
  }
  KeepFront(&costs);
  return costs;
}

std::vector<MeasuredPoint> PointsOf(const TrainingGraph& graph,
                                    const Task& task, BatchSize batch) {
  std::vector<MeasuredPoint> points;
  if (!task.work.HasAlgorithms()) return points;
  const auto add = [&](BatchSize size) {
    for (TaskCost& cost : CostsAt(graph, task, size)) {
      MeasuredPoint point;
      point.batch = size;
      point.algorithm = std::move(cost.algorithm);
      point.workspace = cost.workspace;
      point.time = cost.time;
      points.push_back(std::move(point));
    }
  };
  std::set<BatchSize> sizes;
  if (!task.work.measured.empty()) {
    for (const MeasuredPoint& point : task.work.measured) {
      if (point.batch <= batch) sizes.insert(point.batch);
    }
  } else {
    for (std::int64_t size = 1; size < batch.count(); size *= 2) {
      sizes.insert(BatchSize(size));
    }
    sizes.insert(batch);
  }
  for (const BatchSize size : sizes) add(size);
  return points;
}

}  // namespace ucudnn
