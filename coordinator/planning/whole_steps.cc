#include "coordinator/planning/whole_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/onnx/network_file.h"
#include "base/other_tasks.h"
#include "base/training/step_tasks.h"

namespace ucudnn {
namespace {

// What all tasks take at a batch; absent unless all were measured.
using TaskTimes = std::map<std::string, Nanoseconds>;
std::optional<Nanoseconds> SumOf(const StepTasks& tasks,
                                 const TaskTimes& times) {
  const bool all = std::ranges::all_of(
      tasks.names,
      [&](const std::string& name) { return times.contains(name); });
  if (!all) return std::nullopt;
  constexpr Nanoseconds kMost{std::int64_t{1} << 60};
  Nanoseconds sum{0};
  for (const auto& [name, time] : times) {
    if (time > kMost - sum) return std::nullopt;
    sum += time;
  }
  return sum;
}

// By task and batch, as the plan's ranks run it. Tasks that normalise take what
// they take alone where agents of older versions measured nothing else.
using Measured = std::map<std::string, std::map<BatchSize, Nanoseconds>>;
Measured MeasuredOf(const StepTasks& tasks,
                    const std::vector<MeasuredPoint>& points) {
  Measured measured;
  for (const MeasuredPoint& point : points) {
    std::string name = point.algorithm.name;
    if (!name.ends_with(kExchanged)) {
      measured[name].emplace(point.batch, point.time);
    } else if (tasks.exchanged) {
      name.resize(name.size() - kExchanged.size());
      measured[name][point.batch] = point.time;
    }
  }
  return measured;
}

}  // namespace

StepTasks StepTasksOf(const NetworkRecord& record, const Network& network,
                      const JobRequest& request) {
  StepTasks tasks;
  if (record.format != NetworkFormat::kOnnx) {
    return tasks;
  }
  if (request.layout != Layout::kNchw ||
      (request.precision != Precision::kFp32 &&
       request.precision != Precision::kTf32)) {
    tasks.unknown = fmt::format(
        "tasks other than convolutions are measured in FP32 and TF32, NCHW, "
        "not in {}, {}",
        Name(request.precision), Name(request.layout));
    return tasks;
  }
  const OtherTasks others{
      .network = record.hash,
      .precision = request.precision,
      .momentum = request.memory && request.memory->momentum};
  const auto graph =
      ParseGraph(record.source, record.name, request.batch, record.name)
          .and_then([&](const Graph& read) {
            return BuildTrainingGraph(read, OptionsOf(others));
          });
  if (!graph) {
    tasks.unknown =
        "the network has no training graph: " + graph.error().message;
    return tasks;
  }
  const std::vector<bool> convolutions = AreConvolutions(*graph, network);
  for (std::size_t task = 0; task < convolutions.size(); ++task) {
    if (!convolutions[task]) tasks.names.insert(graph->tasks[task].name);
  }
  tasks.problem = ToString(others);
  tasks.exchanged =
      request.device_kinds.size() > request.exclude_ranks.size() + 1;
  return tasks;
}

std::vector<std::optional<Nanoseconds>> TimesOf(
    const StepTasks& tasks, const std::vector<MeasuredPoint>& points,
    BatchSize most) {
  std::map<std::int64_t, TaskTimes> measured;
  for (const auto& [name, of_task] : MeasuredOf(tasks, points)) {
    for (const auto& [batch, time] : of_task) {
      measured[batch.count()].emplace(name, time);
    }
  }
  std::vector<std::optional<Nanoseconds>> times(
      static_cast<std::size_t>(most.count()) + 1);
  times[0] = Nanoseconds(0);
  std::optional<std::pair<std::int64_t, Nanoseconds>> before;
  for (const auto& [batch, of_tasks] : measured) {
    const std::optional<Nanoseconds> sum = SumOf(tasks, of_tasks);
    if (!sum) continue;
    if (!before) before.emplace(batch, *sum);
    const auto [from, first] = *before;
    const std::int64_t span = std::max<std::int64_t>(batch - from, 1);
    const Nanoseconds more = *sum - first;
    for (std::int64_t b = from; b <= std::min(batch, most.count()); ++b) {
      times[static_cast<std::size_t>(b)] =
          first + more / span * (b - from) + more % span * (b - from) / span;
    }
    before.emplace(batch, *sum);
  }
  return times;
}

bool SetTimes(const StepTasks& tasks, const std::vector<MeasuredPoint>& points,
              std::span<const BatchSize> needed, TrainingGraph* graph,
              Profile* convolutions) {
  Measured measured = MeasuredOf(tasks, points);
  for (const std::string& name : tasks.names) {
    for (const BatchSize batch : needed) {
      if (!measured[name].contains(batch)) return false;
    }
  }
  const auto line_of = [&](const std::string& name) {
    std::vector<TaskTimeAt> line;
    for (const auto& [batch, time] : measured[name]) {
      line.push_back({batch, time});
    }
    return line;
  };
  for (Task& task : graph->tasks) {
    if (task.work.conv) continue;
    std::vector<TaskTimeAt> line = line_of(task.name);
    if (IsUpdate(task.kind)) {
      // It takes the same time at any batch.
      task.work.fixed =
          std::ranges::min_element(line, {}, &TaskTimeAt::time)->time;
    } else {
      task.work.line = std::move(line);
    }
  }
  for (KernelProfile& kernel : convolutions->kernels) {
    const std::vector<TaskTimeAt> beside =
        line_of(fmt::format("{}.{}", kernel.id.layer, Name(kernel.id.op)));
    if (beside.empty()) continue;
    for (MeasuredPoint& point : kernel.points) {
      const Nanoseconds more = TimeOnLine(beside, point.batch);
      point.time += more;
      if (point.adding > Nanoseconds(0)) point.adding += more;
    }
  }
  return true;
}

}  // namespace ucudnn
