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

class DocumentCheck {
 public:
  // Null if the plans have graphs of their own.
  explicit DocumentCheck(SharedGraph graph) : graph_(std::move(graph)) {}

  Result<std::vector<CheckedMemory>> Run(const OrderedJson& json) {
    JsonObject object(json, "");
    if (object.Has("kernels") || object.Has("ranks")) {
      return Fail(Code::kInvalidArgument,
                  "it is a plan of workspaces; memory plans are accepted");
    }
    if (!object.Has("plans")) {
      UCUDNN_RETURN_IF_ERROR(CheckPlan(json, ""));
      return std::move(checked_);
    }
    if (graph_ == nullptr && object.Has("graph")) {
      UCUDNN_ASSIGN_OR_RETURN(graph_,
                              Shared(TrainingGraphOf(json["graph"], "graph")));
    }
    object.ReadEach("plans", [&](const OrderedJson& plan, std::string at) {
      return CheckPlan(plan, at);
    });
    UCUDNN_RETURN_IF_ERROR(object.status());
    return std::move(checked_);
  }

 private:
  Status CheckPlan(const OrderedJson& json, const std::string& path) {
    JsonObject object(json, path);
    bool feasible = true;
    if (!path.empty()) object.ReadOptional("feasible", &feasible);
    UCUDNN_RETURN_IF_ERROR(object.status());
    if (!feasible) return {};
    const std::string place = path.empty() ? "graph" : path + ".graph";
    SharedGraph graph = graph_;
    if (graph == nullptr && object.Has("graph")) {
      UCUDNN_ASSIGN_OR_RETURN(graph,
                              Shared(TrainingGraphOf(json["graph"], place)));
    }
    if (graph == nullptr) {
      return JsonObject::Refusal(place, nullptr,
                                 "the plan's training graph, in this field or "
                                 "in an input of its own,");
    }
    UCUDNN_ASSIGN_OR_RETURN(MemoryPlan plan, MemoryPlanOf(json, *graph, path));
    if (Status valid = ValidateMemoryPlan(plan, *graph); !valid) {
      // Whoever wrote the plan is to blame.
      Error error = std::move(valid).error();
      error.code = Code::kInvalidArgument;
      if (path.empty()) return tl::unexpected<Error>(std::move(error));
      return Within(path, std::move(error));
    }
    checked_.push_back({std::move(graph), std::move(plan)});
    return {};
  }

  SharedGraph graph_;
  std::vector<CheckedMemory> checked_;
};

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
    return DocumentCheck(std::move(shared_graph)).Run(j);
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
