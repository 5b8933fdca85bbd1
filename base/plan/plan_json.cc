#include "base/plan/plan_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "base/files/file.h"
#include "base/files/json_object.h"

namespace ucudnn {
namespace {

using Json = nlohmann::ordered_json;

// Of a rank: the earlier one whose workspace it has too.
constexpr char kWorkspaceOf[] = "workspace_of_rank";

Json OptionalTime(const std::optional<Nanoseconds>& time) {
  return time ? Json(Microseconds(*time)) : Json(nullptr);
}

void ReadMicroBatch(JsonObject& object, Precision precision,
                    MicroBatch* micro) {
  object.Read("batch", &micro->batch);
  object.Read("count", &micro->count);
  object.Read("algorithm", &micro->algorithm.name);
  object.Read("math", &micro->algorithm.math);
  micro->algorithm.precision = precision;
  object.ReadOptional("precision", ParsePrecision, &micro->algorithm.precision);
  object.Read("time_us", &micro->time);
  object.Read("workspace_bytes", &micro->workspace);
}

void ReadKernel(JsonObject& object, KernelPlan* kernel) {
  object.Read("layer", &kernel->layer);
  object.Read("op", ParseConvOp, &kernel->op);
  object.Read("precision", ParsePrecision, &kernel->precision);
  object.ReadOptional("layout", ParseLayout, &kernel->layout);
  object.ReadOptional("problem", ParseConvProblem, &kernel->problem);
  object.Read("time_us", &kernel->time);
  object.ReadOptional("undivided_time_us", &kernel->undivided_time);
  object.Read("workspace_bytes", &kernel->workspace);
  object.ReadOptional("offset_bytes", &kernel->offset);
  object.ReadEach(
      "micro_batches",
      [&](JsonObject& inner, MicroBatch* micro) {
        ReadMicroBatch(inner, kernel->precision, micro);
      },
      &kernel->micro_batches);
}

void ReadWorkspacePlan(JsonObject& object, WorkspacePlan* plan) {
  object.Read("batch", &plan->batch);
  object.Read("workspace_limit_bytes", &plan->workspace_limit);
  object.Read("total_time_us", &plan->total_time);
  object.ReadOptional("other_time_us", &plan->other_time);
  object.Read("lower_bound_us", &plan->lower_bound);
  object.Read("optimal", &plan->optimal);
  object.ReadOptional("undivided_time_us", &plan->undivided_time);
  object.Read("total_workspace_bytes", &plan->total_workspace);
  object.ReadOptional("concurrency", &plan->concurrency);
  object.ReadEach("kernels", ReadKernel, &plan->kernels);
}

Status ReadBudget(const Json& json, std::string path, Bytes* budget) {
  if (!json.is_number_integer()) {
    return JsonObject::Refusal(path, &json, "a whole number of bytes");
  }
  *budget = Bytes(json.get<std::int64_t>());
  return {};
}

// From one for all ranks, or a list.
Status SetBudgets(Bytes all, std::vector<Bytes> each, JobMemory* memory) {
  if (each.empty()) {
    each = {all};
  } else if (all != Bytes(0)) {
    return Fail(Code::kInvalidArgument,
                "budget_bytes is {} beside rank_budget_bytes; one of them is "
                "accepted",
                all.count());
  }
  memory->budgets = std::move(each);
  return {};
}

void ReadMemory(JsonObject& object, JobMemory* memory) {
  Bytes all;
  object.ReadOptional("budget_bytes", &all);
  std::vector<Bytes> each;
  if (object.Has("rank_budget_bytes")) {
    object.ReadEach("rank_budget_bytes", [&](const Json& one, std::string at) {
      return ReadBudget(one, std::move(at), &each.emplace_back());
    });
  }
  std::string policy;
  object.ReadOptional("policy", &policy);
  if (!policy.empty()) memory->policy = std::move(policy);
  object.ReadOptional("recompute", &memory->recompute);
  object.ReadOptional("offload_weights", &memory->offload_weights);
  object.ReadOptional("momentum", &memory->momentum);
  if (object.status()) object.Require(SetBudgets(all, std::move(each), memory));
}

void ReadRankMemory(JsonObject& object, RankMemory* memory) {
  object.Read("budget_bytes", &memory->budget);
  object.Read("peak_bytes", &memory->peak);
}

void ReadMemoryPlan(JsonObject& object, DeviceMemoryPlan* plan) {
  object.Read("device_kind", &plan->device_kind);
  object.Read("batch", &plan->batch);
  object.ReadOptional("budget_bytes", &plan->budget);
  object.ReadInside("plan", [&](const Json& body, const std::string&) {
    plan->plan = body.dump();
    return Status();
  });
}

void ReadRequest(JsonObject& object, JobRequest* request) {
  object.ReadOptional("step", &request->step);
  if (request->step.empty() || object.Has("network")) {
    object.Read("network", &request->network);
  }
  object.ReadOptional("all_ranks", &request->all_ranks);
  object.Read("batch", &request->batch);
  object.Read("device_kinds", &request->device_kinds);
  object.ReadOptional("workspace_limit_bytes", &request->workspace_limit);
  object.ReadOptional("total_workspace_bytes", &request->total_workspace);
  object.ReadOptional("batch_policy", ParseBatchPolicy, &request->policy);
  object.ReadOptional("precision", ParsePrecision, &request->precision);
  object.ReadOptional("layout", ParseLayout, &request->layout);
  object.ReadOptional("concurrent", &request->concurrent);
  object.ReadOptional("max_error", &request->max_error);
  std::vector<std::size_t> excluded;
  object.ReadOptional("exclude_ranks", &excluded);
  for (const std::size_t rank : excluded) {
    // Validate refuses what no job has.
    request->exclude_ranks.push_back(
        static_cast<std::int32_t>(std::min(rank, std::size_t{kMaxRanks})));
  }
  if (object.Has("memory")) {
    object.ReadInside("memory", ReadMemory, &request->memory.emplace());
  }
}

// `rank` is the last of `ranks`.
void ReadRank(JsonObject& object, const std::vector<RankPlan>& ranks,
              RankPlan* rank) {
  const std::int64_t expected = std::ssize(ranks) - 1;
  std::int64_t number = expected;
  object.ReadOptional("rank", &number);
  if (number != expected) {
    object.Refuse("rank",
                  fmt::format("{}, as ranks are listed from 0 on,", expected));
  }
  object.Read("device_kind", &rank->device_kind);
  object.Read("batch", &rank->batch);
  object.Read("weight", &rank->weight);
  if (object.Has(kWorkspaceOf)) {
    std::int64_t of = 0;
    object.Read(kWorkspaceOf, 0, expected - 1, &of);
    if (object.status()) {
      rank->workspace = ranks[static_cast<std::size_t>(of)].workspace;
    }
  } else if (rank->batch != BatchSize(0) || object.Has("workspace")) {
    WorkspacePlan workspace;
    object.ReadInside("workspace", ReadWorkspacePlan, &workspace);
    rank->workspace = std::move(workspace);
  }
  object.ReadOptional("reason", &rank->reason);
  if (object.Has("memory")) {
    object.ReadInside("memory", ReadRankMemory, &rank->memory.emplace());
  }
}

Json ToJson(const KernelPlan& kernel) {
  Json json;
  json["layer"] = kernel.layer;
  json["op"] = Name(kernel.op);
  json["precision"] = Name(kernel.precision);
  json["layout"] = Name(kernel.layout);
  if (kernel.problem) json["problem"] = ToString(*kernel.problem);
  json["time_us"] = Microseconds(kernel.time);
  json["undivided_time_us"] = OptionalTime(kernel.undivided_time);
  json["workspace_bytes"] = kernel.workspace.count();
  if (kernel.offset) json["offset_bytes"] = kernel.offset->count();
  json["micro_batches"] = ucudnn::ToJson(kernel.micro_batches);
  return json;
}

template <class Plan>
Result<Plan> Parse(std::string_view text, std::string_view source,
                   Result<Plan> (*read)(const Json&)) {
  Result<Plan> plan = ParseJson(text).and_then(read);
  if (!plan) return Within(source, std::move(plan).error());
  return plan;
}

}  // namespace

Json ToJson(const std::vector<MicroBatch>& micro_batches) {
  Json list = Json::array();
  for (const MicroBatch& micro : micro_batches) {
    Json json;
    json["batch"] = micro.batch.count();
    json["count"] = micro.count;
    json["algorithm"] = micro.algorithm.name;
    json["math"] = micro.algorithm.math;
    json["precision"] = Name(micro.algorithm.precision);
    json["time_us"] = Microseconds(micro.time);
    json["workspace_bytes"] = micro.workspace.count();
    list.push_back(std::move(json));
  }
  return list;
}

Json ToJson(const WorkspacePlan& plan) {
  Json json;
  json["batch"] = plan.batch.count();
  json["workspace_limit_bytes"] = plan.workspace_limit.count();
  json["total_time_us"] = Microseconds(plan.total_time);
  json["lower_bound_us"] = Microseconds(plan.lower_bound);
  json["optimal"] = plan.optimal;
  json["undivided_time_us"] = OptionalTime(plan.undivided_time);
  if (plan.other_time > Nanoseconds(0)) {
    json["other_time_us"] = Microseconds(plan.other_time);
  }
  json["total_workspace_bytes"] = plan.total_workspace.count();
  if (!plan.concurrency.empty()) json["concurrency"] = plan.concurrency;
  Json kernels = Json::array();
  for (const KernelPlan& kernel : plan.kernels) {
    kernels.push_back(ToJson(kernel));
  }
  json["kernels"] = std::move(kernels);
  return json;
}

Result<WorkspacePlan> WorkspacePlanFromJson(const Json& json) {
  WorkspacePlan plan;
  JsonObject object(json, "");
  ReadWorkspacePlan(object, &plan);
  UCUDNN_RETURN_IF_ERROR(object.status());
  UCUDNN_RETURN_IF_ERROR(Validate(plan));
  return plan;
}

Result<JobRequest> JobRequestFromJson(const Json& json) {
  JobRequest request;
  JsonObject object(json, "");
  ReadRequest(object, &request);
  UCUDNN_RETURN_IF_ERROR(object.status());
  UCUDNN_RETURN_IF_ERROR(Validate(request));
  return request;
}

Result<JobPlan> JobPlanFromJson(const Json& json) {
  JobPlan plan;
  JsonObject object(json, "");
  object.ReadOptional("id", &plan.id);
  object.ReadOptional("revision", &plan.revision);
  object.ReadInside("request", ReadRequest, &plan.request);
  object.ReadOptional("network_revision", &plan.network_revision);
  object.ReadOptional("predicted_us", &plan.predicted);
  object.ReadOptional("lower_bound_us", &plan.lower_bound);
  object.ReadOptional("optimal", &plan.optimal);
  object.ReadOptional("cut_off", &plan.cut_off);
  object.ReadOptional("undivided_us", &plan.undivided);
  object.ReadOptional("under_load_us", &plan.under_load);
  object.ReadEach(
      "ranks",
      [&](JsonObject& inner, RankPlan* rank) {
        ReadRank(inner, plan.ranks, rank);
      },
      &plan.ranks);
  object.ReadOptional("reasons", &plan.reasons);
  object.ReadOptional("created_ms", &plan.created_ms);
  if (object.Has("memory_plans")) {
    object.ReadEach("memory_plans", ReadMemoryPlan, &plan.memory_plans);
  }
  UCUDNN_RETURN_IF_ERROR(object.status());
  UCUDNN_RETURN_IF_ERROR(Validate(plan));
  return plan;
}

Result<WorkspacePlan> ParseWorkspacePlan(std::string_view text,
                                         std::string_view source) {
  return Parse(text, source, WorkspacePlanFromJson);
}

Result<JobPlan> ParseJobPlan(std::string_view text, std::string_view source) {
  return Parse(text, source, JobPlanFromJson);
}

Result<JobPlan> ReadPlanFile(const std::string& path) {
  UCUDNN_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxPlanFile));
  return ParseJobPlan(text, path);
}

}  // namespace ucudnn
