#include "proto/convert_plan.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "base/plan/plan_json.h"
#include "proto/json.h"

namespace ucudnn {

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
  return WorkspacePlanFromJson(ToJson(message));
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
  return JobRequestFromJson(ToJson(message));
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
  // Memory plans stay texts, which are long and kept as they are.
  v1::Plan outline = message;
  for (v1::DeviceMemoryPlan& memory : *outline.mutable_memory_plans()) {
    memory.set_plan_json("{}");
  }
  UCUDNN_ASSIGN_OR_RETURN(JobPlan plan, JobPlanFromJson(ToJson(outline)));
  for (int i = 0; i < message.memory_plans_size(); ++i) {
    plan.memory_plans[static_cast<std::size_t>(i)].plan =
        message.memory_plans(i).plan_json();
  }
  return plan;
}

}  // namespace ucudnn
