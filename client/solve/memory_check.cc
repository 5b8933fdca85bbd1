#include "client/solve/memory_check.h"

#include <string>
#include <utility>

#include "base/files/json_object.h"
#include "base/training/json.h"
#include "solver/check/memory_plan.h"

namespace ucudnn {
namespace {

using OrderedJson = nlohmann::ordered_json;

Result<TrainingGraph> GraphBeside(const OrderedJson& plans) {
  if (!plans.is_object() || !plans.contains("graph")) {
    return Fail(Code::kInvalidArgument,
                "graph is missing; the plan's training graph is accepted, in "
                "this field or in an input of its own");
  }
  return TrainingGraphOf(plans["graph"], "graph");
}

Status CheckPlan(const OrderedJson& json, const std::string& path,
                 CheckedMemoryPlans* checked) {
  UCUDNN_ASSIGN_OR_RETURN(MemoryPlan plan,
                          MemoryPlanOf(json, checked->graph, path));
  if (Status valid = ValidateMemoryPlan(plan, checked->graph); !valid) {
    // Whoever wrote the plan is to blame.
    Error error = std::move(valid).error();
    error.code = Code::kInvalidArgument;
    if (path.empty()) return tl::unexpected<Error>(std::move(error));
    return Within(path, std::move(error));
  }
  checked->plans.push_back(std::move(plan));
  return {};
}

bool IsInfeasible(const OrderedJson& plan) {
  return plan.is_object() && plan.contains("feasible") &&
         plan["feasible"] == false;
}

Status CheckEach(const OrderedJson& json, CheckedMemoryPlans* checked) {
  if (!json.is_object() || !json.contains("plans")) {
    return CheckPlan(json, "", checked);
  }
  JsonObject object(json, "");
  object.ReadEach("plans",
                  [&](const OrderedJson& plan, std::string at) -> Status {
                    if (IsInfeasible(plan)) return {};
                    return CheckPlan(plan, at, checked);
                  });
  return object.status();
}

std::size_t EventsOf(const MemoryPlan& plan) {
  std::size_t events = 0;
  for (const MemoryRound& round : plan.rounds) events += round.events.size();
  return events;
}

}  // namespace

Result<CheckedMemoryPlans> CheckMemoryPlans(
    const MemoryProblem::Input& plans,
    const std::optional<MemoryProblem::Input>& graph) {
  const Result<OrderedJson> json = ParseJson(plans.contents);
  if (!json) return Within(plans.source, json.error());
  CheckedMemoryPlans checked;
  if (graph) {
    UCUDNN_ASSIGN_OR_RETURN(checked.graph,
                            ParseTrainingGraph(graph->contents, graph->source));
  } else {
    Result<TrainingGraph> own = GraphBeside(*json);
    if (!own) return Within(plans.source, std::move(own).error());
    checked.graph = *std::move(own);
  }
  if (Status status = CheckEach(*json, &checked); !status) {
    return Within(plans.source, std::move(status).error());
  }
  return checked;
}

OrderedJson ToJson(const CheckedMemoryPlans& checked) {
  OrderedJson plans = OrderedJson::array();
  for (const MemoryPlan& plan : checked.plans) {
    plans.push_back({{"policy", plan.policy},
                     {"events", EventsOf(plan)},
                     {"time_us", Microseconds(plan.time)},
                     {"peak_bytes", plan.peak.count()}});
  }
  return {{"plans", std::move(plans)}};
}

}  // namespace ucudnn
