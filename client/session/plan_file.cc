#include "client/session/plan_file.h"

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/files/file.h"
#include "proto/convert.h"
#include "proto/json.h"

namespace ucudnn {
namespace {

using Json = nlohmann::ordered_json;

constexpr Bytes kMaxFile = 1_GiB;

template <class T, class Parse>
Status Default(std::string_view field, const std::string& text, Parse parse,
               T* value) {
  if (text.empty()) return {};
  Result<T> parsed = parse(text);
  if (!parsed) return Within(field, std::move(parsed).error());
  *value = *parsed;
  return {};
}

Status InRange(std::string_view field, std::int64_t value, std::int64_t min,
               std::int64_t max) {
  if (value >= min && value <= max) return {};
  return Fail(Code::kInvalidArgument, "{} is {}; {} to {} is accepted", field,
              value, min, max);
}

constexpr std::int64_t kMaxCount = std::int64_t{1} << 62;

Result<RankPlan> RankFromProto(const v1::RankPlan& message) {
  RankPlan rank;
  rank.device_kind = message.device_kind();
  UCUDNN_RETURN_IF_ERROR(
      InRange("batch", message.batch(), 0, kMaxBatchSize.count()));
  rank.batch = BatchSize(message.batch());
  if (!(message.weight() >= 0 && message.weight() <= 1)) {
    return Fail(Code::kInvalidArgument, "weight is {}; 0 to 1 is accepted",
                message.weight());
  }
  rank.weight = message.weight();
  UCUDNN_ASSIGN_OR_RETURN(rank.workspace, FromProto(message.workspace()));
  rank.reason = message.reason();
  return rank;
}

}  // namespace

v1::PlanRequest ToProto(const JobRequest& request) {
  v1::PlanRequest message;
  message.set_network(request.network);
  message.set_batch(request.batch.count());
  for (const std::string& kind : request.device_kinds) {
    message.add_device_kinds(kind);
  }
  message.set_workspace_limit_bytes(request.workspace_limit.count());
  message.set_total_workspace_bytes(request.total_workspace.count());
  message.set_batch_policy(std::string(Name(request.policy)));
  message.set_precision(std::string(Name(request.precision)));
  message.set_layout(std::string(Name(request.layout)));
  return message;
}

Result<JobRequest> FromProto(const v1::PlanRequest& message) {
  JobRequest request;
  request.network = message.network();
  UCUDNN_RETURN_IF_ERROR(
      InRange("batch", message.batch(), 1, kMaxBatchSize.count()));
  request.batch = BatchSize(message.batch());
  request.device_kinds.assign(message.device_kinds().begin(),
                              message.device_kinds().end());
  UCUDNN_RETURN_IF_ERROR(InRange(
      "workspace_limit_bytes", message.workspace_limit_bytes(), 0, kMaxCount));
  request.workspace_limit = Bytes(message.workspace_limit_bytes());
  UCUDNN_RETURN_IF_ERROR(InRange(
      "total_workspace_bytes", message.total_workspace_bytes(), 0, kMaxCount));
  request.total_workspace = Bytes(message.total_workspace_bytes());
  UCUDNN_RETURN_IF_ERROR(Default("batch_policy", message.batch_policy(),
                                 ParseBatchPolicy, &request.policy));
  UCUDNN_RETURN_IF_ERROR(Default("precision", message.precision(),
                                 ParsePrecision, &request.precision));
  UCUDNN_RETURN_IF_ERROR(
      Default("layout", message.layout(), ParseLayout, &request.layout));
  return request;
}

v1::Plan ToProto(const JobPlan& plan) {
  v1::Plan message;
  message.set_id(plan.id);
  message.set_revision(plan.revision);
  *message.mutable_request() = ToProto(plan.request);
  message.set_network_revision(plan.network_revision);
  message.set_predicted_ns(plan.predicted.count());
  message.set_lower_bound_ns(plan.lower_bound.count());
  message.set_optimal(plan.optimal);
  if (plan.undivided) message.set_undivided_ns(plan.undivided->count());
  for (std::size_t i = 0; i < plan.ranks.size(); ++i) {
    const RankPlan& rank = plan.ranks[i];
    v1::RankPlan& m = *message.add_ranks();
    m.set_rank(static_cast<std::int32_t>(i));
    m.set_device_kind(rank.device_kind);
    m.set_batch(rank.batch.count());
    m.set_weight(rank.weight);
    *m.mutable_workspace() = ToProto(rank.workspace);
    m.set_reason(rank.reason);
  }
  for (const std::string& reason : plan.reasons) message.add_reasons(reason);
  message.set_created_ms(plan.created_ms);
  return message;
}

Result<JobPlan> FromProto(const v1::Plan& message) {
  JobPlan plan;
  plan.id = message.id();
  plan.revision = message.revision();
  Result<JobRequest> request = FromProto(message.request());
  if (!request) return Within("request", std::move(request).error());
  plan.request = *std::move(request);
  plan.network_revision = message.network_revision();
  plan.predicted = Nanoseconds(message.predicted_ns());
  plan.lower_bound = Nanoseconds(message.lower_bound_ns());
  plan.optimal = message.optimal();
  if (message.has_undivided_ns()) {
    plan.undivided = Nanoseconds(message.undivided_ns());
  }
  for (int i = 0; i < message.ranks_size(); ++i) {
    const v1::RankPlan& m = message.ranks(i);
    if (m.rank() != i) {
      return Fail(Code::kInvalidArgument,
                  "ranks[{}].rank is {}; ranks are listed from 0 on, each once",
                  i, m.rank());
    }
    Result<RankPlan> rank = RankFromProto(m);
    if (!rank) {
      return Within(fmt::format("ranks[{}]", i), std::move(rank).error());
    }
    plan.ranks.push_back(*std::move(rank));
  }
  plan.reasons.assign(message.reasons().begin(), message.reasons().end());
  plan.created_ms = message.created_ms();
  return plan;
}

std::string ToJsonText(const JobPlan& plan) {
  // Texts of other programs that are not UTF-8 do not make this throw.
  return ToJson(ToProto(plan))
             .dump(2, ' ', false, Json::error_handler_t::replace) +
         "\n";
}

Result<JobPlan> ParsePlan(std::string_view text, std::string_view source) {
  Json json;
  try {
    json = Json::parse(text.begin(), text.end());
  } catch (const std::exception& error) {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: ..."
    std::string_view what = error.what();
    if (const auto end = what.find("] "); end != std::string_view::npos) {
      what.remove_prefix(end + 2);
    }
    return Fail(Code::kInvalidArgument, "{}: not JSON: {}", source, what);
  }
  v1::Plan message;
  if (Status filled = FromJson(json, &message); !filled) {
    return Within(source, std::move(filled).error());
  }
  Result<JobPlan> plan = FromProto(message);
  if (!plan) return Within(source, std::move(plan).error());
  return plan;
}

Result<JobPlan> ReadPlanFile(const std::string& path) {
  UCUDNN_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxFile));
  return ParsePlan(text, path);
}

Status WritePlanFile(const std::string& path, const JobPlan& plan) {
  return ReplaceFile(path, ToJsonText(plan));
}

}  // namespace ucudnn
