#include "client/train/adopted_plan.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/files/json_object.h"
#include "base/text.h"
#include "base/training/json.h"
#include "device/accuracy.h"

namespace ucudnn::train {
namespace {

// Whether plans of one graph are plans of the other.
bool AreAlike(const TrainingGraph& a, const TrainingGraph& b) {
  const auto same_block = [](const MemoryBlock& x, const MemoryBlock& y) {
    return x == y;
  };
  const auto same_task = [](const Task& x, const Task& y) {
    return x.name == y.name && x.kind == y.kind && x.reads == y.reads &&
           x.writes == y.writes;
  };
  return std::ranges::equal(a.blocks, b.blocks, same_block) &&
         std::ranges::equal(a.tasks, b.tasks, same_task);
}

Status SetAlgorithm(const ConvProblem& problem, Device& device,
                    MeasuredPoint* point) {
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<Candidate> candidates,
                          device.ListAlgorithms(problem, point->batch));
  for (const Candidate& candidate : candidates) {
    const Algorithm& algorithm = candidate.algorithm;
    const std::string& name = point->algorithm.name;
    if (candidate.workspace <= point->workspace &&
        (name == algorithm.name ||
         name == algorithm.name + '/' + algorithm.math)) {
      point->algorithm = algorithm;
      return {};
    }
  }
  AlgorithmErrors errors;
  UCUDNN_ASSIGN_OR_RETURN(
      const Candidate suggested,
      SuggestWithin(device, problem, point->batch, point->workspace,
                    kDefaultMaxError, &errors));
  point->algorithm = suggested.algorithm;
  return {};
}

}  // namespace

Result<MemoryPlan> AdoptPlan(const std::string& plan, Device& device,
                             const PreparedTraining& prepared,
                             TrainingGraph* adopted) {
  UCUDNN_ASSIGN_OR_RETURN(const auto json, ParseJson(plan));
  JsonObject object(json, "memory plan");
  TrainingGraph graph;
  object.ReadInside("graph", [&](const auto& body, std::string path) -> Status {
    UCUDNN_ASSIGN_OR_RETURN(graph, TrainingGraphOf(body, std::move(path)));
    return {};
  });
  UCUDNN_RETURN_IF_ERROR(object.status());
  UCUDNN_ASSIGN_OR_RETURN(MemoryPlan events,
                          MemoryPlanOf(json, graph, "memory plan"));
  if (!AreAlike(graph, prepared.training)) {
    return Fail(Code::kFailedPrecondition,
                "the plan is of other tasks than those of {} here",
                Excerpt(prepared.training.network));
  }
  *adopted = prepared.training;
  adopted->batch = graph.batch;
  adopted->device = graph.device;
  for (std::size_t i = 0; i < adopted->tasks.size(); ++i) {
    TaskWork& work = adopted->tasks[i].work;
    work.measured = graph.tasks[i].work.measured;
    work.fixed = graph.tasks[i].work.fixed;
    const TaskOperation& operation = prepared.operations[i];
    if (operation.what != TaskOperator::kConvolution) continue;
    for (MeasuredPoint& point : work.measured) {
      UCUDNN_RETURN_IF_ERROR(SetAlgorithm(*operation.conv, device, &point));
    }
  }
  return events;
}

}  // namespace ucudnn::train
