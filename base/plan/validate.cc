#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "base/plan/concurrency.h"
#include "base/plan/job_plan.h"
#include "base/plan/plan.h"
#include "base/text.h"

namespace ucudnn {
namespace {

// The failure of a list's element, seen from what holds the list.
tl::unexpected<Error> At(std::string_view list, std::size_t index,
                         Error error) {
  error.message = fmt::format("{}[{}].{}", list, index, error.message);
  return tl::unexpected<Error>(std::move(error));
}

Status IsTime(std::string_view field, Nanoseconds time) {
  if (time.count() >= 0 && time.count() <= kMaxCount) return {};
  return Fail(Code::kInvalidArgument,
              "{} is {}; 0 to 146 years in microseconds is accepted", field,
              Microseconds(time));
}

Status IsSize(std::string_view field, Bytes size) {
  return InRange(field, size.count(), 0, Bytes::Max().count());
}

Status IsText(std::string_view field, std::string_view text) {
  if (IsPlainText(text)) return {};
  return Fail(Code::kInvalidArgument,
              "{} is '{}'; text without control characters is accepted", field,
              Excerpt(text));
}

Status ValidateMicroBatch(const MicroBatch& micro, const KernelPlan& kernel,
                          BatchSize batch) {
  UCUDNN_RETURN_IF_ERROR(
      InRange("batch", micro.batch.count(), 1, batch.count()));
  UCUDNN_RETURN_IF_ERROR(InRange("count", micro.count, 1, batch.count()));
  UCUDNN_RETURN_IF_ERROR(IsTime("time_us", micro.time));
  UCUDNN_RETURN_IF_ERROR(InRange("workspace_bytes", micro.workspace.count(), 0,
                                 kernel.workspace.count()));
  UCUDNN_RETURN_IF_ERROR(IsText("algorithm", micro.algorithm.name));
  if (micro.algorithm.name.empty()) {
    return Fail(Code::kInvalidArgument,
                "algorithm is empty; the name of one is accepted");
  }
  return IsText("math", micro.algorithm.math);
}

Status ValidateKernel(const KernelPlan& kernel, BatchSize batch) {
  UCUDNN_RETURN_IF_ERROR(IsText("layer", kernel.layer));
  UCUDNN_RETURN_IF_ERROR(IsTime("time_us", kernel.time));
  if (kernel.undivided_time) {
    UCUDNN_RETURN_IF_ERROR(IsTime("undivided_time_us", *kernel.undivided_time));
  }
  UCUDNN_RETURN_IF_ERROR(
      InRange("workspace_bytes", kernel.workspace.count(), 0, kMaxCount));
  if (kernel.offset) {
    UCUDNN_RETURN_IF_ERROR(InRange("offset_bytes", kernel.offset->count(), 0,
                                   kMaxCount - kernel.workspace.count()));
  }
  std::int64_t left = batch.count();
  for (std::size_t i = 0; i < kernel.micro_batches.size(); ++i) {
    const MicroBatch& micro = kernel.micro_batches[i];
    if (Status valid = ValidateMicroBatch(micro, kernel, batch); !valid) {
      return At("micro_batches", i, std::move(valid).error());
    }
    left -= micro.batch.count() * micro.count;
    if (left < 0) break;
  }
  if (left == 0) return {};
  return Fail(Code::kInvalidArgument,
              "micro_batches have {} images together; {} is accepted",
              left < 0 ? fmt::format("more than {}", batch.count())
                       : std::to_string(batch.count() - left),
              batch.count());
}

Status ValidateSegments(const WorkspacePlan& plan) {
  const auto concurrency =
      ParseConcurrency(plan.concurrency, plan.kernels.size());
  if (!concurrency) return Within("concurrency", concurrency.error());
  for (std::size_t i = 0; i < plan.kernels.size(); ++i) {
    const KernelPlan& kernel = plan.kernels[i];
    const Bytes end = kernel.offset.value_or(Bytes(0)) + kernel.workspace;
    if (end <= plan.total_workspace) continue;
    return Fail(
        Code::kInvalidArgument,
        "kernels[{}].offset_bytes: its workspace ends at {}; the plan's "
        "total_workspace_bytes, {}, are accepted",
        i, end.count(), plan.total_workspace.count());
  }
  return CheckSegments(plan, *concurrency);
}

}  // namespace

Status Validate(const WorkspacePlan& plan) {
  UCUDNN_RETURN_IF_ERROR(InRange("batch", plan.batch.count(),
                                 plan.kernels.empty() ? 0 : 1,
                                 kMaxBatchSize.count()));
  UCUDNN_RETURN_IF_ERROR(IsSize("workspace_limit_bytes", plan.workspace_limit));
  UCUDNN_RETURN_IF_ERROR(IsTime("total_time_us", plan.total_time));
  UCUDNN_RETURN_IF_ERROR(IsTime("lower_bound_us", plan.lower_bound));
  UCUDNN_RETURN_IF_ERROR(IsTime("other_time_us", plan.other_time));
  if (plan.undivided_time) {
    UCUDNN_RETURN_IF_ERROR(IsTime("undivided_time_us", *plan.undivided_time));
  }
  UCUDNN_RETURN_IF_ERROR(IsSize("total_workspace_bytes", plan.total_workspace));
  for (std::size_t i = 0; i < plan.kernels.size(); ++i) {
    Status valid = ValidateKernel(plan.kernels[i], plan.batch);
    if (!valid) {
      return At("kernels", i, std::move(valid).error());
    }
  }
  return plan.concurrency.empty() ? Status() : ValidateSegments(plan);
}

namespace {

Status ValidateExcluded(const JobRequest& request) {
  const std::vector<std::int32_t>& excluded = request.exclude_ranks;
  if (excluded.empty()) return {};
  const auto ranks = std::ssize(request.device_kinds);
  for (std::size_t i = 0; i < excluded.size(); ++i) {
    const std::int32_t least = i == 0 ? 0 : excluded[i - 1] + 1;
    if (excluded[i] >= least && excluded[i] < ranks) continue;
    return Fail(Code::kInvalidArgument,
                "exclude_ranks[{}] is {}; ranks 0 to {}, sorted, are accepted",
                i, excluded[i], ranks - 1);
  }
  if (std::ssize(excluded) == ranks) {
    return Fail(Code::kInvalidArgument,
                "exclude_ranks names all {} ranks; one must be left", ranks);
  }
  return {};
}

}  // namespace

Status Validate(const JobMemory& memory, std::size_t ranks) {
  const std::vector<Bytes>& budgets = memory.budgets;
  if (budgets.size() != 1 && budgets.size() != ranks) {
    return Fail(Code::kInvalidArgument,
                "memory.rank_budget_bytes has {} entries; one, or one for each "
                "of {} ranks, is accepted",
                budgets.size(), ranks);
  }
  for (std::size_t i = 0; i < budgets.size(); ++i) {
    const std::string field =
        budgets.size() == 1 ? "memory.budget_bytes"
                            : fmt::format("memory.rank_budget_bytes[{}]", i);
    UCUDNN_RETURN_IF_ERROR(InRange(field, budgets[i].count(), 0, kMaxCount));
  }
  return IsText("memory.policy", memory.policy);
}

Status Validate(const JobRequest& request) {
  UCUDNN_RETURN_IF_ERROR(
      InRange("batch", request.batch.count(), 1, kMaxBatchSize.count()));
  if (request.device_kinds.size() > std::size_t{kMaxRanks}) {
    return Fail(Code::kInvalidArgument,
                "device_kinds has {} entries; up to {} are accepted",
                request.device_kinds.size(), kMaxRanks);
  }
  UCUDNN_RETURN_IF_ERROR(InRange(
      "workspace_limit_bytes", request.workspace_limit.count(), 0, kMaxCount));
  UCUDNN_RETURN_IF_ERROR(InRange(
      "total_workspace_bytes", request.total_workspace.count(), 0, kMaxCount));
  if (request.concurrent &&
      (request.memory || request.total_workspace == Bytes(0))) {
    return Fail(
        Code::kInvalidArgument,
        "concurrent is true; it is accepted with total_workspace_bytes, "
        "which it divides");
  }
  UCUDNN_RETURN_IF_ERROR(ValidateExcluded(request));
  if (!(request.max_error >= 0 && request.max_error < 1)) {
    return Fail(Code::kInvalidArgument,
                "max_error is {}; a number above 0 and below 1, or 0 for the "
                "precision's, is accepted",
                request.max_error);
  }
  if (!request.memory) return {};
  // A request that names no kind has one rank.
  return Validate(*request.memory,
                  std::max(request.device_kinds.size(), std::size_t{1}));
}

Status Validate(const JobPlan& plan) {
  const auto inside = [](std::string_view field, Status status) -> Status {
    if (status) return {};
    Error error = std::move(status).error();
    error.message = fmt::format("{}.{}", field, error.message);
    return tl::unexpected<Error>(std::move(error));
  };
  UCUDNN_RETURN_IF_ERROR(inside("request", Validate(plan.request)));
  UCUDNN_RETURN_IF_ERROR(IsTime("predicted_us", plan.predicted));
  UCUDNN_RETURN_IF_ERROR(IsTime("lower_bound_us", plan.lower_bound));
  if (plan.undivided) {
    UCUDNN_RETURN_IF_ERROR(IsTime("undivided_us", *plan.undivided));
  }
  if (plan.under_load) {
    UCUDNN_RETURN_IF_ERROR(IsTime("under_load_us", *plan.under_load));
  }
  const std::vector<std::size_t> owners = WorkspaceOwners(plan.ranks);
  const auto rank_is_valid = [&](std::size_t r) -> Status {
    const RankPlan& rank = plan.ranks[r];
    UCUDNN_RETURN_IF_ERROR(
        InRange("batch", rank.batch.count(), 0, kMaxBatchSize.count()));
    if (!(rank.weight >= 0 && rank.weight <= 1)) {
      return Fail(Code::kInvalidArgument, "weight is {}; 0 to 1 is accepted",
                  rank.weight);
    }
    if (rank.memory) {
      UCUDNN_RETURN_IF_ERROR(InRange(
          "memory.budget_bytes", rank.memory->budget.count(), 0, kMaxCount));
      UCUDNN_RETURN_IF_ERROR(InRange("memory.peak_bytes",
                                     rank.memory->peak.count(), 0,
                                     rank.memory->budget.count()));
    }
    if (owners[r] != r) return {};
    return inside("workspace", Validate(*rank.workspace));
  };
  for (std::size_t r = 0; r < plan.ranks.size(); ++r) {
    if (Status valid = rank_is_valid(r); !valid) {
      return At("ranks", r, std::move(valid).error());
    }
  }
  return {};
}

}  // namespace ucudnn
