#include "device/training/other_tasks.h"

#include <algorithm>

#include "base/graph.h"
#include "base/onnx/network_file.h"
#include "base/text.h"
#include "base/training/step_tasks.h"
#include "device/training/measure_tasks.h"
#include "device/training/task_operations.h"

namespace ucudnn {
Result<std::vector<MeasuredPoint>> MeasureOtherTasks(
    Device& device, Operators& operators, const OtherTasksCampaign& campaign,
    const std::stop_token& stop) {
  constexpr std::string_view kSource = "network";
  if (campaign.model.empty()) {
    return Fail(Code::kInvalidArgument,
                "the coordinator no longer has the network of {}",
                ToString(campaign.tasks));
  }
  UCUDNN_ASSIGN_OR_RETURN(
      const Graph graph,
      ParseGraph(campaign.model, kSource, campaign.batch, kSource));
  UCUDNN_ASSIGN_OR_RETURN(const TrainingGraph training,
                          BuildTrainingGraph(graph, OptionsOf(campaign.tasks)));
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<TaskOperation> operations,
                          OperationsOf(graph, training));
  TaskMeasureOptions options;
  options.batches = {campaign.batch};
  options.measured_elsewhere = AreConvolutions(training, NetworkOf(graph));
  bool found = false;
  std::vector<MeasuredPoint> points;
  for (const bool exchanged : {false, true}) {
    const auto name_of = [&](const Task& task) {
      return task.name + std::string(exchanged ? kExchanged : "");
    };
    options.exchanged_statistics = exchanged;
    options.only.clear();
    for (std::size_t task = 0; task < operations.size(); ++task) {
      if ((!exchanged || operations[task].what == TaskOperator::kNormalise) &&
          (campaign.only.empty() ||
           campaign.only == name_of(training.tasks[task]))) {
        options.only.insert(task);
      }
    }
    if (options.only.empty()) continue;
    found = true;
    TrainingGraph measured = training;
    UCUDNN_RETURN_IF_ERROR(
        MeasureTasks(device, operators, operations, options, stop, &measured));
    for (const Task& task : measured.tasks) {
      const auto fastest = std::ranges::min_element(task.work.measured, {},
                                                    &MeasuredPoint::time);
      if (fastest == task.work.measured.end()) continue;
      MeasuredPoint& point = points.emplace_back(*fastest);
      point.algorithm = {.name = name_of(task),
                         .math = {},
                         .precision = campaign.tasks.precision};
      point.workspace = Bytes(0);
    }
  }
  if (!found) {
    return Fail(Code::kInvalidArgument, "{} have no task '{}'",
                ToString(campaign.tasks), Excerpt(campaign.only));
  }
  return points;
}

}  // namespace ucudnn
