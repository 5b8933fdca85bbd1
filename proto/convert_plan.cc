#include "proto/convert_plan.h"

#include <utility>
#include <vector>

#include "base/text.h"
#include "proto/json.h"

namespace ucudnn {
namespace {

Result<MicroBatch> FromProto(const v1::MicroBatch& message) {
  MicroBatch micro;
  micro.batch = BatchSize(message.batch());
  micro.count = message.count();
  micro.algorithm = {message.algorithm(), message.math(), Precision::kFp32};
  UCUDNN_ASSIGN_OR_RETURN(micro.algorithm.precision,
                          ParsePrecision(message.precision()));
  micro.time = Nanoseconds(message.time_ns());
  micro.workspace = Bytes(message.workspace_bytes());
  return micro;
}

Result<KernelPlan> FromProto(const v1::KernelPlan& message) {
  KernelPlan kernel;
  kernel.layer = message.layer();
  UCUDNN_ASSIGN_OR_RETURN(kernel.op, ParseConvOp(message.op()));
  UCUDNN_ASSIGN_OR_RETURN(kernel.precision,
                          ParsePrecision(message.precision()));
  UCUDNN_ASSIGN_OR_RETURN(kernel.layout, ParseLayout(message.layout()));
  if (!message.problem().empty()) {
    UCUDNN_ASSIGN_OR_RETURN(kernel.problem,
                            ParseConvProblem(message.problem()));
  }
  kernel.time = Nanoseconds(message.time_ns());
  if (message.has_undivided_time_ns()) {
    kernel.undivided_time = Nanoseconds(message.undivided_time_ns());
  }
  kernel.workspace = Bytes(message.workspace_bytes());
  if (message.has_offset_bytes()) {
    kernel.offset = Bytes(message.offset_bytes());
  }
  for (const v1::MicroBatch& m : message.micro_batches()) {
    UCUDNN_ASSIGN_OR_RETURN(MicroBatch micro, FromProto(m));
    kernel.micro_batches.push_back(std::move(micro));
  }
  return kernel;
}

// Not validated: the caller validates the whole plan.
Result<WorkspacePlan> ReadWorkspacePlan(const v1::WorkspacePlan& message) {
  WorkspacePlan plan;
  plan.batch = BatchSize(message.batch());
  plan.workspace_limit = Bytes(message.workspace_limit_bytes());
  plan.total_time = Nanoseconds(message.total_time_ns());
  plan.lower_bound = Nanoseconds(message.lower_bound_ns());
  plan.optimal = message.optimal();
  if (message.has_undivided_time_ns()) {
    plan.undivided_time = Nanoseconds(message.undivided_time_ns());
  }
  plan.other_time = Nanoseconds(message.other_time_ns());
  plan.total_workspace = Bytes(message.total_workspace_bytes());
  plan.concurrency = message.concurrency();
  for (const v1::KernelPlan& k : message.kernels()) {
    Result<KernelPlan> kernel = FromProto(k);
    if (!kernel) {
      return Within(fmt::format("kernel {} {}", k.layer(), k.op()),
                    kernel.error());
    }
    plan.kernels.push_back(*std::move(kernel));
  }
  return plan;
}

// Parses the field; keeps its value if the text is empty.
template <class T>
Status Default(std::string_view field, const std::string& text,
               Result<T> (*parse)(std::string_view), T* value) {
  if (text.empty()) return {};
  Result<T> parsed = parse(text);
  if (!parsed) return Within(field, std::move(parsed).error());
  *value = *std::move(parsed);
  return {};
}

Result<JobRequest> ReadRequest(const v1::PlanRequest& message) {
  JobRequest request;
  request.network = message.network();
  request.batch = BatchSize(message.batch());
  request.device_kinds.assign(message.device_kinds().begin(),
                              message.device_kinds().end());
  request.workspace_limit = Bytes(message.workspace_limit_bytes());
  request.total_workspace = Bytes(message.total_workspace_bytes());
  UCUDNN_RETURN_IF_ERROR(Default("batch_policy", message.batch_policy(),
                                 ParseBatchPolicy, &request.policy));
  UCUDNN_RETURN_IF_ERROR(Default("precision", message.precision(),
                                 ParsePrecision, &request.precision));
  UCUDNN_RETURN_IF_ERROR(
      Default("layout", message.layout(), ParseLayout, &request.layout));
  request.max_error = message.max_error();
  if (message.has_memory()) {
    const v1::MemoryPlanRequest& m = message.memory();
    JobMemory& memory = request.memory.emplace();
    std::vector<Bytes> each;
    for (const std::int64_t bytes : m.rank_budget_bytes()) {
      each.emplace_back(bytes);
    }
    UCUDNN_RETURN_IF_ERROR(
        SetBudgets(Bytes(m.budget_bytes()), std::move(each), &memory));
    if (!m.policy().empty()) memory.policy = m.policy();
    memory.recompute = m.recompute();
    memory.offload_weights = m.offload_weights();
    memory.momentum = m.momentum();
  }
  request.exclude_ranks.assign(message.exclude_ranks().begin(),
                               message.exclude_ranks().end());
  request.concurrent = message.concurrent();
  request.step = message.step();
  request.all_ranks = message.all_ranks();
  return request;
}

Result<RankPlan> FromProto(const v1::RankPlan& message) {
  RankPlan rank;
  rank.device_kind = message.device_kind();
  rank.batch = BatchSize(message.batch());
  rank.weight = message.weight();
  UCUDNN_ASSIGN_OR_RETURN(WorkspacePlan workspace,
                          ReadWorkspacePlan(message.workspace()));
  rank.workspace = std::move(workspace);
  rank.reason = message.reason();
  if (message.has_memory()) {
    rank.memory = RankMemory{.budget = Bytes(message.memory().budget_bytes()),
                             .peak = Bytes(message.memory().peak_bytes())};
  }
  return rank;
}

}  // namespace

v1::MicroBatch ToProto(const MicroBatch& micro) {
  v1::MicroBatch m;
  m.set_batch(micro.batch.count());
  m.set_count(micro.count);
  m.set_algorithm(micro.algorithm.name);
  m.set_math(micro.algorithm.math);
  m.set_precision(std::string(Name(micro.algorithm.precision)));
  m.set_time_ns(micro.time.count());
  m.set_workspace_bytes(micro.workspace.count());
  return m;
}

v1::WorkspacePlan ToProto(const WorkspacePlan& plan) {
  v1::WorkspacePlan message;
  message.set_batch(plan.batch.count());
  message.set_workspace_limit_bytes(plan.workspace_limit.count());
  message.set_total_time_ns(plan.total_time.count());
  message.set_lower_bound_ns(plan.lower_bound.count());
  message.set_optimal(plan.optimal);
  if (plan.undivided_time) {
    message.set_undivided_time_ns(plan.undivided_time->count());
  }
  message.set_other_time_ns(plan.other_time.count());
  message.set_total_workspace_bytes(plan.total_workspace.count());
  message.set_concurrency(plan.concurrency);
  for (const KernelPlan& kernel : plan.kernels) {
    v1::KernelPlan& k = *message.add_kernels();
    k.set_layer(kernel.layer);
    k.set_op(std::string(Name(kernel.op)));
    k.set_precision(std::string(Name(kernel.precision)));
    k.set_layout(std::string(Name(kernel.layout)));
    if (kernel.problem) k.set_problem(ToString(*kernel.problem));
    k.set_time_ns(kernel.time.count());
    if (kernel.undivided_time) {
      k.set_undivided_time_ns(kernel.undivided_time->count());
    }
    k.set_workspace_bytes(kernel.workspace.count());
    if (kernel.offset) k.set_offset_bytes(kernel.offset->count());
    for (const MicroBatch& micro : kernel.micro_batches) {
      *k.add_micro_batches() = ToProto(micro);
    }
  }
  return message;
}

Result<WorkspacePlan> FromProto(const v1::WorkspacePlan& message) {
  UCUDNN_ASSIGN_OR_RETURN(WorkspacePlan plan, ReadWorkspacePlan(message));
  UCUDNN_RETURN_IF_ERROR(Validate(plan));
  return plan;
}

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
  message.set_max_error(request.max_error);
  if (request.memory) {
    v1::MemoryPlanRequest& memory = *message.mutable_memory();
    if (request.memory->budgets.size() == 1) {
      memory.set_budget_bytes(request.memory->budgets[0].count());
    } else {
      for (const Bytes budget : request.memory->budgets) {
        memory.add_rank_budget_bytes(budget.count());
      }
    }
    memory.set_policy(request.memory->policy);
    memory.set_recompute(request.memory->recompute);
    memory.set_offload_weights(request.memory->offload_weights);
    memory.set_momentum(request.memory->momentum);
  }
  for (const std::int32_t rank : request.exclude_ranks) {
    message.add_exclude_ranks(rank);
  }
  message.set_concurrent(request.concurrent);
  message.set_step(request.step);
  message.set_all_ranks(request.all_ranks);
  return message;
}

Result<JobRequest> FromProto(const v1::PlanRequest& message) {
  UCUDNN_ASSIGN_OR_RETURN(JobRequest request, ReadRequest(message));
  UCUDNN_RETURN_IF_ERROR(Validate(request));
  return request;
}

const v1::WorkspacePlan& WorkspaceOf(const v1::Plan& plan, int rank) {
  while (plan.ranks(rank).has_workspace_of_rank()) {
    const int of = plan.ranks(rank).workspace_of_rank();
    if (of < 0 || of >= rank) break;
    rank = of;
  }
  return plan.ranks(rank).workspace();
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
  message.set_cut_off(plan.cut_off);
  message.set_whole_steps(CountsWholeSteps(plan));
  if (plan.undivided) message.set_undivided_ns(plan.undivided->count());
  if (plan.under_load) message.set_under_load_ns(plan.under_load->count());
  const std::vector<std::size_t> owners = WorkspaceOwners(plan.ranks);
  for (std::size_t i = 0; i < plan.ranks.size(); ++i) {
    const RankPlan& rank = plan.ranks[i];
    v1::RankPlan& m = *message.add_ranks();
    m.set_rank(static_cast<std::int32_t>(i));
    m.set_device_kind(rank.device_kind);
    m.set_batch(rank.batch.count());
    m.set_weight(rank.weight);
    if (owners[i] == i) {
      *m.mutable_workspace() = ToProto(*rank.workspace);
    } else {
      m.set_workspace_of_rank(static_cast<std::int32_t>(owners[i]));
    }
    m.set_reason(rank.reason);
    if (rank.memory) {
      m.mutable_memory()->set_budget_bytes(rank.memory->budget.count());
      m.mutable_memory()->set_peak_bytes(rank.memory->peak.count());
    }
  }
  for (const std::string& reason : plan.reasons) message.add_reasons(reason);
  message.set_created_ms(plan.created_ms);
  for (const DeviceMemoryPlan& memory : plan.memory_plans) {
    v1::DeviceMemoryPlan& m = *message.add_memory_plans();
    m.set_device_kind(memory.device_kind);
    m.set_batch(memory.batch.count());
    m.set_budget_bytes(memory.budget.count());
    m.set_plan_json(memory.plan);
  }
  return message;
}

std::string ToJsonText(const JobPlan& plan) {
  return JsonText(ToProto(plan)) + "\n";
}

Result<JobPlan> FromProto(const v1::Plan& message) {
  JobPlan plan;
  plan.id = message.id();
  plan.revision = message.revision();
  Result<JobRequest> request = ReadRequest(message.request());
  if (!request) return Within("request", std::move(request).error());
  plan.request = *std::move(request);
  plan.network_revision = message.network_revision();
  plan.predicted = Nanoseconds(message.predicted_ns());
  plan.lower_bound = Nanoseconds(message.lower_bound_ns());
  plan.optimal = message.optimal();
  plan.cut_off = message.cut_off();
  if (message.has_undivided_ns()) {
    plan.undivided = Nanoseconds(message.undivided_ns());
  }
  if (message.has_under_load_ns()) {
    plan.under_load = Nanoseconds(message.under_load_ns());
  }
  for (int i = 0; i < message.ranks_size(); ++i) {
    const v1::RankPlan& m = message.ranks(i);
    if (m.rank() != i) {
      return Fail(Code::kInvalidArgument,
                  "ranks[{}].rank is {}; {}, as ranks are listed from 0 on, is "
                  "accepted",
                  i, m.rank(), i);
    }
    Result<RankPlan> rank = FromProto(m);
    if (!rank) {
      return Within(fmt::format("ranks[{}]", i), std::move(rank).error());
    }
    if (m.has_workspace_of_rank()) {
      const std::int32_t of = m.workspace_of_rank();
      if (of < 0 || of >= i) {
        return Fail(Code::kInvalidArgument,
                    "ranks[{}].workspace_of_rank is {}; an earlier rank is "
                    "accepted",
                    i, of);
      }
      rank->workspace = plan.ranks[static_cast<std::size_t>(of)].workspace;
    }
    plan.ranks.push_back(*std::move(rank));
  }
  plan.reasons.assign(message.reasons().begin(), message.reasons().end());
  plan.created_ms = message.created_ms();
  for (const v1::DeviceMemoryPlan& m : message.memory_plans()) {
    plan.memory_plans.push_back({.device_kind = m.device_kind(),
                                 .batch = BatchSize(m.batch()),
                                 .budget = Bytes(m.budget_bytes()),
                                 .plan = m.plan_json()});
  }
  UCUDNN_RETURN_IF_ERROR(Validate(plan));
  return plan;
}

}  // namespace ucudnn
