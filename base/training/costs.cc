#include "base/training/costs.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "base/text.h"

namespace ucudnn {
namespace {

std::optional<ConvOp> OpOf(TaskKind kind) {
  switch (kind) {
    case TaskKind::kForward:
      return ConvOp::kForward;
    case TaskKind::kBackwardData:
      return ConvOp::kBackwardData;
    case TaskKind::kBackwardFilter:
      return ConvOp::kBackwardFilter;
    default:
      return std::nullopt;
  }
}

void SetMeasured(const KernelProfile& kernel, BatchSize batch, Task* task) {
  task->work.measured = kernel.points;
  for (MeasuredPoint& point : task->work.measured) {
    if (point.batch < batch) point.time = AddingTime(point);
    point.adding = Nanoseconds(0);
  }
}

// By the problem of each convolution; a layer that the profile has under the
// node's name is preferred if it is of that problem.
Status SetByProblem(const Profile& kernels, TrainingGraph* graph) {
  using Key = std::tuple<ConvGeometry, ConvOp, std::string>;
  std::map<Key, const KernelProfile*> by_problem;  // "": whatever its name
  for (const KernelProfile& kernel : kernels.kernels) {
    if (!kernel.problem) continue;
    const ConvGeometry& geometry = kernel.problem->geometry;
    by_problem.emplace(Key{geometry, kernel.id.op, kernel.id.layer}, &kernel);
    by_problem.emplace(Key{geometry, kernel.id.op, ""}, &kernel);
  }
  std::set<ConvProblem> problems;
  std::set<ConvProblem> missing;
  std::string first;
  for (Task& task : graph->tasks) {
    const std::optional<ConvOp> op = OpOf(task.kind);
    if (!task.work.conv || !op) continue;
    ConvProblem problem = *task.work.conv;
    problem.op = *op;
    problems.insert(problem);
    auto found =
        by_problem.find({problem.geometry, *op, std::string(NodeOf(task))});
    if (found == by_problem.end()) {
      found = by_problem.find({problem.geometry, *op, ""});
    }
    if (found != by_problem.end()) {
      SetMeasured(*found->second, graph->batch, &task);
    } else if (missing.insert(problem).second && first.empty()) {
      first =
          fmt::format("{} ({})", Excerpt(task.name, 200), ToString(problem));
    }
  }
  if (missing.empty()) return {};
  return Fail(Code::kInvalidArgument,
              "{} of the {} problems of {} are not in the profile, such as "
              "that of {}; rows of all of them, or layers of the model's "
              "names, are accepted",
              missing.size(), problems.size(), Excerpt(graph->network), first);
}

}  // namespace

Status SetDevice(const DeviceModel& device, TrainingGraph* graph) {
  if (Status status = Validate(device); !status) {
    return Within(fmt::format("device model '{}'", Excerpt(device.name)),
                  std::move(status).error());
  }
  graph->device = device;
  return {};
}

Status SetConvolutionCosts(const Profile& kernels, TrainingGraph* graph) {
  std::map<std::string, std::size_t, std::less<>> places;  // of convolutions
  for (const Task& task : graph->tasks) {
    if (task.work.conv && task.kind == TaskKind::kForward) {
      places.emplace(NodeOf(task), places.size());
    }
  }
  std::map<std::string, std::size_t> measured;  // layers, as they come
  std::string unknown;
  for (const KernelProfile& kernel : kernels.kernels) {
    measured.emplace(kernel.id.layer, measured.size());
    if (places.count(kernel.id.layer) == 0) unknown = kernel.id.layer;
  }
  const bool tells_problems = std::ranges::all_of(
      kernels.kernels,
      [](const KernelProfile& kernel) { return kernel.problem.has_value(); });
  if (!unknown.empty() && tells_problems) return SetByProblem(kernels, graph);
  const bool by_place = !unknown.empty();
  if (by_place && measured.size() != places.size()) {
    return Fail(Code::kInvalidArgument,
                "the profile's layer '{}' is not in {}; layers must have the "
                "model's names, be as many as its {} convolutions ({} are "
                "measured) and come in their order, or tell their problems",
                Excerpt(unknown), Excerpt(graph->network), places.size(),
                measured.size());
  }
  std::map<std::pair<std::size_t, ConvOp>, const KernelProfile*> profiles;
  for (const KernelProfile& kernel : kernels.kernels) {
    const std::size_t place =
        by_place ? measured.at(kernel.id.layer) : places.at(kernel.id.layer);
    profiles[{place, kernel.id.op}] = &kernel;
  }
  for (Task& task : graph->tasks) {
    const std::optional<ConvOp> op = OpOf(task.kind);
    if (!task.work.conv || !op) continue;
    const auto profile =
        profiles.find({places.find(NodeOf(task))->second, *op});
    if (profile != profiles.end()) {
      SetMeasured(*profile->second, graph->batch, &task);
    }
  }
  return {};
}

void SetTaskCosts(const std::vector<TaskTime>& times, TrainingGraph* graph) {
  std::map<std::pair<std::string_view, std::string_view>,
           std::vector<const TaskTime*>>
      by_task;
  for (const TaskTime& time : times) {
    by_task[{time.node, time.op}].push_back(&time);
  }
  for (Task& task : graph->tasks) {
    if (task.work.conv) continue;
    const auto found = by_task.find({NodeOf(task), Name(task.kind)});
    if (found == by_task.end()) continue;
    for (const TaskTime* time : found->second) {
      MeasuredPoint point;
      point.batch = time->batch;
      point.time = time->time;
      task.work.measured.push_back(std::move(point));
    }
  }
}

}  // namespace ucudnn
