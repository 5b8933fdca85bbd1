#include "base/training/costs.h"

#include <map>
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
  const bool by_place = !unknown.empty();
  if (by_place && measured.size() != places.size()) {
    return Fail(Code::kInvalidArgument,
                "the profile's layer '{}' is not in {}; layers must have the "
                "model's names, or be as many as its {} convolutions ({} are "
                "measured) and come in their order",
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
      task.work.measured = profile->second->points;
      for (MeasuredPoint& point : task.work.measured) {
        if (point.batch < graph->batch) point.time = AddingTime(point);
        point.adding = Nanoseconds(0);
      }
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
