#include "client/solve/recorded_step.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/files/json_object.h"
#include "client/solve/request.h"
#include "solver/memory/recorded_step_json.h"

namespace ucudnn {

using OrderedJson = nlohmann::ordered_json;

Result<RecordedStep> ParseRecordedStep(std::string_view text) {
  auto json = ParseJson(text);
  if (!json) return Within("step", std::move(json).error());
  return RecordedStepFromJson(*json, "step");
}

Result<RecordedStepRequest> ParseRecordedStepRequest(std::string_view text) {
  auto json = ParseJson(text);
  if (!json) return Within("request", std::move(json).error());
  RecordedStepRequest request;
  JsonObject object(*json, "request");
  // Sums of sizes must not overflow.
  object.Read("budget_bytes", Bytes(0), Bytes(std::int64_t{1} << 46),
              &request.request.budget);
  object.ReadOptional("offload", &request.request.offload);
  object.ReadOptional("recompute", &request.request.recompute);
  ReadTimeLimit(object, &request.time_limit);
  UCUDNN_RETURN_IF_ERROR(object.status());
  return request;
}

OrderedJson ToJson(const RecordedPlan& plan) {
  OrderedJson json;
  json["time_us"] = Microseconds(plan.time);
  json["ideal_time_us"] = Microseconds(plan.ideal_time);
  json["lower_bound_us"] = Microseconds(plan.lower_bound);
  json["cut_off"] = plan.cut_off;
  json["peak_bytes"] = plan.peak.count();
  json["plain_peak_bytes"] = plan.plain_peak.count();
  json["moved_bytes"] = plan.moved.count();
  json["actions"] = OrderedJson::array();
  for (const HookAction& action : plan.actions) {
    json["actions"].push_back({{"hook", action.hook},
                               {"action", Name(action.action)},
                               {"tensor", action.tensor}});
  }
  return json;
}

}  // namespace ucudnn
