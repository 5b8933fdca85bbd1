#include "client/solve/step_shares.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/files/json_object.h"
#include "client/solve/request.h"

namespace ucudnn {

using OrderedJson = nlohmann::ordered_json;

namespace {

// A number for each GPU, if there are any.
void ReadNumbers(JsonObject& object, const char* key, std::int64_t most,
                 std::size_t gpus, std::vector<std::int64_t>* numbers) {
  if (!object.Has(key)) return;
  object.ReadEach(key, [&](const OrderedJson& value, const std::string& at) {
    const auto number =
        value.is_number_integer() ? value.get<std::int64_t>() : -1;
    if (number < 0 || number > most) {
      return Status(JsonObject::Refusal(
          at, &value, fmt::format("a whole number from 0 to {}", most)));
    }
    numbers->push_back(number);
    return Status();
  });
  if (numbers->size() != gpus) {
    object.Refuse(key,
                  fmt::format("one for each of the {} device_kinds", gpus));
  }
}

}  // namespace

Result<StepSharesRequest> ParseStepSharesRequest(
    const std::vector<StepKind>& step, std::string_view text) {
  const auto json = ParseJson(text);
  if (!json) return Within("request", json.error());
  StepSharesRequest request;
  StepProblem& problem = request.problem;
  JsonObject object(*json, "request");
  object.Read("batch", BatchSize(1), kMaxBatchSize, &problem.batch);
  std::vector<std::string> kinds;
  object.Read("device_kinds", &kinds);
  object.ReadOptional("all_ranks", &problem.all_gpus);
  object.ReadOptional("recompute", &problem.recompute);
  ReadTimeLimit(object, &request.time_limit);
  std::vector<std::int64_t> budgets;
  ReadNumbers(object, "budget_bytes", kMaxCount, kinds.size(), &budgets);
  std::vector<std::int64_t> shares;
  ReadNumbers(object, "shares", problem.batch.count(), kinds.size(), &shares);
  UCUDNN_RETURN_IF_ERROR(object.status());
  for (const std::int64_t share : shares) problem.shares.emplace_back(share);
  for (std::size_t g = 0; g < kinds.size(); ++g) {
    const auto kind = std::ranges::find(step, kinds[g], &StepKind::name);
    if (kind == step.end()) {
      std::vector<std::string> names;
      for (const StepKind& known : step) names.push_back(known.name);
      return JsonObject::Refusal(
          fmt::format("request.device_kinds[{}]", g),
          &(*json)["device_kinds"][g],
          fmt::format("one of the step's, {},", fmt::join(names, ", ")));
    }
    const std::int64_t budget = budgets.empty() ? 0 : budgets[g];
    AddGpu(*kind, budget == 0 ? Bytes::Max() : Bytes(budget), &problem);
  }
  return request;
}

OrderedJson ToJson(const StepProblem& problem, const StepShares& shares) {
  OrderedJson json;
  json["time_us"] = Microseconds(shares.makespan);
  json["lower_bound_us"] = Microseconds(shares.lower_bound);
  if (shares.even) json["even_us"] = Microseconds(*shares.even);
  json["cut_off"] = shares.cut_off;
  json["ranks"] = OrderedJson::array();
  for (std::size_t g = 0; g < shares.gpus.size(); ++g) {
    const GpuStep& gpu = shares.gpus[g];
    json["ranks"].push_back({{"batch", gpu.batch.count()},
                             {"time_us", Microseconds(gpu.time)},
                             {"lower_bound_us", Microseconds(gpu.lower_bound)},
                             {"peak_bytes", gpu.peak.count()},
                             {"passes", gpu.passes},
                             {"most", shares.most[problem.gpus[g]].count()}});
  }
  return json;
}

}  // namespace ucudnn
