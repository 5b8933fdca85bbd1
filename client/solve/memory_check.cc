#include "client/solve/memory_check.h"

#include <string>
#include <utility>

#include "base/files/json_object.h"
#include "base/training/json.h"
#include "solver/check/memory_plan.h"

namespace ucudnn {
namespace {

using OrderedJson = nlohmann::ordered_json;

using SharedGraph = std::shared_ptr<const TrainingGraph>;

Result<SharedGraph> Shared(Result<TrainingGraph> graph) {
  if (!graph) return tl::unexpected<Error>(std::move(graph).error());
  return std::make_shared<const TrainingGraph>(*std::move(graph));
}

// Reads the field "graph" if there is no graph yet.
Status ReadGraph(const OrderedJson& json, const std::string& path,
                 SharedGraph* graph) {
  if (*graph != nullptr || !json.contains("graph")) return {};
  UCUDNN_ASSIGN_OR_RETURN(*graph, Shared(TrainingGraphOf(json["graph"], path)));
  return {};
}

Status CheckPlan(const OrderedJson& json, const std::string& path,
                 SharedGraph graph, std::vector<CheckedMemory>* checked) {
  JsonObject object(json, path);
  bool feasible = true;
  if (!path.empty()) object.ReadOptional("feasible", &feasible);
  UCUDNN_RETURN_IF_ERROR(object.status());
  if (!feasible) return {};
  UCUDNN_RETURN_IF_ERROR(
      ReadGraph(json, path.empty() ? "graph" : path + ".graph", &graph));
  if (graph == nullptr) {
    object.Refuse("graph",
                  "the plan's training graph, in this field or in an input of "
                  "its own,");
    return object.status();
  }
  UCUDNN_ASSIGN_OR_RETURN(MemoryPlan plan, MemoryPlanOf(json, *graph, path));
  // Whoever wrote the plan is to blame if it is not valid.
  object.Require(ValidateMemoryPlan(plan, *graph).map_error([](Error error) {
    error.code = Code::kInvalidArgument;
    return error;
  }));
  checked->push_back({std::move(graph), std::move(plan)});
  return object.status();
}

Result<std::vector<CheckedMemory>> CheckDocument(const OrderedJson& json,
                                                 SharedGraph graph) {
  std::vector<CheckedMemory> checked;
  JsonObject object(json, "");
  if (object.Has("kernels") || object.Has("ranks")) {
    return Fail(Code::kInvalidArgument,
                "it is a plan of workspaces; memory plans are accepted");
  }
  if (!object.Has("plans")) {
    UCUDNN_RETURN_IF_ERROR(CheckPlan(json, "", std::move(graph), &checked));
    return checked;
  }
  UCUDNN_RETURN_IF_ERROR(ReadGraph(json, "graph", &graph));
  object.ReadEach("plans", [&](const OrderedJson& plan, const std::string& at) {
    return CheckPlan(plan, at, graph, &checked);
  });
  UCUDNN_RETURN_IF_ERROR(object.status());
  return checked;
}

std::size_t EventsOf(const MemoryPlan& plan) {
  std::size_t events = 0;
  for (const MemoryRound& round : plan.rounds) events += round.events.size();
  return events;
}

}  // namespace

Result<std::vector<CheckedMemory>> CheckMemoryPlans(
    const MemoryProblem::Input& plans,
    const std::optional<MemoryProblem::Input>& graph) {
  SharedGraph shared_graph;
  if (graph) {
    UCUDNN_ASSIGN_OR_RETURN(shared_graph, Shared(ParseTrainingGraph(
                                              graph->contents, graph->source)));
  }
  auto checked = ParseJson(plans.contents).and_then([&](const OrderedJson& j) {
    return CheckDocument(j, std::move(shared_graph));
  });
  if (!checked) return Within(plans.source, std::move(checked).error());
  return checked;
}

OrderedJson ToJson(const std::vector<CheckedMemory>& checked) {
  OrderedJson plans = OrderedJson::array();
  for (const auto& [graph, plan] : checked) {
    plans.push_back({{"policy", plan.policy},
                     {"events", EventsOf(plan)},
                     {"time_us", Microseconds(plan.time)},
                     {"peak_bytes", plan.peak.count()}});
  }
  return {{"plans", std::move(plans)}};
}

}  // namespace ucudnn
