#include "solver/check/validate.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/plan/concurrency.h"

namespace ucudnn {
namespace {

std::string LabelOf(const KernelPlan& kernel) {
  return fmt::format("{} {} {}", kernel.layer, Name(kernel.op),
                     Name(kernel.precision));
}

bool Admitted(BatchPolicy policy, BatchSize part, BatchSize whole) {
  if (part == whole || policy == BatchPolicy::kAll ||
      policy == BatchPolicy::kAdaptive) {
    return true;
  }
  if (policy == BatchPolicy::kUndivided) return false;
  std::int64_t power = 1;
  while (power < part.count()) power *= 2;
  return power == part.count();
}

Status CheckUndivided(const KernelPlan& kernel, const KernelProfile& measured,
                      BatchSize batch, Bytes limit, WorkspaceMode mode) {
  std::optional<Nanoseconds> fastest;
  bool found = false;
  for (const MeasuredPoint& point : measured.points) {
    if (point.batch != batch || point.workspace > limit) continue;
    if (!fastest.has_value() || point.time < *fastest) fastest = point.time;
    if (kernel.undivided_time == point.time) found = true;
  }
  if (mode == WorkspaceMode::kReuse && kernel.undivided_time != fastest) {
    return Wrong("the undivided time is {} ns, not {} ns",
                 fastest.value_or(Nanoseconds(-1)).count(),
                 kernel.undivided_time.value_or(Nanoseconds(-1)).count());
  }
  if (kernel.undivided_time.has_value() && !found) {
    return Wrong("no undivided execution takes {} ns",
                 kernel.undivided_time->count());
  }
  return {};
}

Status CheckKernel(const KernelPlan& kernel, const KernelProfile& measured,
                   BatchSize batch, Bytes limit, WorkspaceMode mode,
                   BatchPolicy policy) {
  const KernelId& id = measured.id;
  if (kernel.layer != id.layer || kernel.op != id.op ||
      kernel.precision != id.precision || kernel.layout != id.layout) {
    return Wrong("the profile has {} {} in this place", id.layer, Name(id.op));
  }
  UCUDNN_RETURN_IF_ERROR(ValidateMicroBatches(kernel.micro_batches, kernel.time,
                                              kernel.workspace, measured.points,
                                              batch, policy));
  if (kernel.workspace > limit) {
    return Wrong("{} bytes exceed the limit of {}", kernel.workspace.count(),
                 limit.count());
  }
  return CheckUndivided(kernel, measured, batch, limit, mode);
}

// The sum of sizes that are not negative; the largest value on overflow.
Bytes Sum(Bytes a, Bytes b) {
  return a > Bytes::Max() - b ? Bytes::Max() : a + b;
}

// Whether the segments of `i` and `j` overlap; empty ones never do.
bool Overlap(const KernelPlan& i, const KernelPlan& j) {
  if (i.workspace == Bytes(0) || j.workspace == Bytes(0)) return false;
  return *i.offset < Sum(*j.offset, j.workspace) &&
         *j.offset < Sum(*i.offset, i.workspace);
}

// Whether the plan tells the pairs of kernels that may run at once.
Status CheckTold(const WorkspacePlan& plan,
                 const std::vector<ConcurrentPair>& pairs) {
  std::vector<ConcurrentPair> told;
  if (!plan.concurrency.empty()) {
    UCUDNN_ASSIGN_OR_RETURN(
        const Concurrency concurrency,
        ParseConcurrency(plan.concurrency, plan.kernels.size()));
    told = ConcurrentPairs(concurrency);
  }
  if (told == pairs) return {};
  return Wrong(
      "the plan tells of {} pairs of kernels that may run at once, not "
      "of those {}",
      told.size(), pairs.size());
}

Status CheckSegments(const WorkspacePlan& plan, const ValidationRules& rules) {
  Bytes sum;
  Bytes extent;
  std::size_t placed = 0;
  for (const KernelPlan& kernel : plan.kernels) {
    sum = Sum(sum, kernel.workspace);
    if (!kernel.offset.has_value()) continue;
    ++placed;
    if (*kernel.offset < Bytes(0)) {
      return Wrong("{}: the offset is negative", LabelOf(kernel));
    }
    extent = std::max(extent, Sum(*kernel.offset, kernel.workspace));
  }
  const bool all_placed = placed == plan.kernels.size();
  if (rules.mode == WorkspaceMode::kShared ? !all_placed
                                           : placed != 0 && !all_placed) {
    return Wrong("{} of {} kernels have an offset", placed,
                 plan.kernels.size());
  }
  const Bytes total = rules.mode == WorkspaceMode::kShared ? extent : sum;
  if (plan.total_workspace != total) {
    return Wrong("the total workspace is {} bytes, not {}", total.count(),
                 plan.total_workspace.count());
  }
  if (rules.mode == WorkspaceMode::kReuse) return {};
  if (total > plan.workspace_limit || extent > plan.workspace_limit) {
    return Wrong("{} bytes in all exceed the limit of {}",
                 std::max(total, extent).count(), plan.workspace_limit.count());
  }
  if (!all_placed) return {};
  std::vector<ConcurrentPair> pairs(rules.concurrent.begin(),
                                    rules.concurrent.end());
  if (rules.mode == WorkspaceMode::kDivision) {
    for (std::size_t i = 0; i < plan.kernels.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) pairs.emplace_back(i, j);
    }
  }
  for (const auto& [i, j] : pairs) {
    if (i >= plan.kernels.size() || j >= plan.kernels.size() || i == j) {
      return Wrong("kernels {} and {} are no pair", i, j);
    }
    if (Overlap(plan.kernels[i], plan.kernels[j])) {
      return Wrong("the segments of {} and {} overlap",
                   LabelOf(plan.kernels[i]), LabelOf(plan.kernels[j]));
    }
  }
  return rules.mode == WorkspaceMode::kShared ? CheckTold(plan, pairs)
                                              : Status();
}

Status CheckTotals(const WorkspacePlan& plan) {
  Nanoseconds time{0};
  Nanoseconds undivided_sum{0};
  bool has_undivided = true;
  for (const KernelPlan& kernel : plan.kernels) {
    time += kernel.time;
    has_undivided = has_undivided && kernel.undivided_time.has_value();
    undivided_sum += kernel.undivided_time.value_or(Nanoseconds(0));
  }
  if (plan.total_time != time) {
    return Wrong("kernels take {} ns in all, not {} ns", time.count(),
                 plan.total_time.count());
  }
  if (plan.undivided_time.has_value() != has_undivided) {
    return Wrong("an undivided time in all is {}, but {}",
                 has_undivided ? "known" : "not known",
                 has_undivided ? "not given" : "given");
  }
  if (has_undivided && *plan.undivided_time != undivided_sum) {
    return Wrong("undivided times sum to {} ns, not {} ns",
                 undivided_sum.count(), plan.undivided_time->count());
  }
  if (has_undivided && time > undivided_sum) {
    return Wrong("{} ns are more than {} ns undivided", time.count(),
                 undivided_sum.count());
  }
  if (plan.lower_bound > time) {
    return Wrong("the bound, {} ns, exceeds the time, {} ns",
                 plan.lower_bound.count(), time.count());
  }
  if (plan.optimal != (plan.lower_bound == time)) {
    return Wrong("'optimal' is {}, bound {} ns, time {} ns", plan.optimal,
                 plan.lower_bound.count(), time.count());
  }
  return {};
}

}  // namespace

Status ValidateMicroBatches(std::span<const MicroBatch> micro_batches,
                            Nanoseconds time, Bytes workspace,
                            std::span<const MeasuredPoint> points,
                            BatchSize batch, BatchPolicy policy) {
  // Where adding takes another time, the first may be of any size.
  const std::size_t ordered =
      std::ranges::any_of(points,
                          [](const MeasuredPoint& point) {
                            return point.adding > Nanoseconds(0);
                          })
          ? 2
          : 1;
  std::int64_t images = 0;
  Nanoseconds sum{0};
  Bytes largest;
  for (std::size_t i = 0; i < micro_batches.size(); ++i) {
    const MicroBatch& micro = micro_batches[i];
    if (micro.count < 1) {
      return Wrong("micro-batch {} runs {} times", i, micro.count);
    }
    if (i >= ordered && micro_batches[i - 1].batch < micro.batch) {
      return Wrong(
          "micro-batch {} is larger than the one "
          "before it",
          i);
    }
    if (!Admitted(policy, micro.batch, batch)) {
      return Wrong("policy {} does not admit batch {}", Name(policy),
                   micro.batch.count());
    }
    const bool writes = i == 0;
    const bool adds = i > 0 || micro.count > 1;
    const bool known =
        std::ranges::any_of(points, [&](const MeasuredPoint& point) {
          return point.batch == micro.batch &&
                 point.algorithm == micro.algorithm &&
                 point.workspace == micro.workspace &&
                 (!writes || point.time == micro.time) &&
                 (!adds || AddingTime(point) == micro.time);
        });
    if (!known) {
      return Wrong(
          "{} at batch {} in {} ns with {} bytes was "
          "not measured",
          micro.algorithm.name, micro.batch.count(), micro.time.count(),
          micro.workspace.count());
    }
    images += micro.batch.count() * micro.count;
    sum += micro.time * micro.count;
    largest = std::max(largest, micro.workspace);
  }
  if (images != batch.count()) {
    return Wrong("micro-batches sum to {}, not to {}", images, batch.count());
  }
  if (sum != time) {
    return Wrong("micro-batches take {} ns, not {} ns", sum.count(),
                 time.count());
  }
  if (largest != workspace) {
    return Wrong("micro-batches need {} bytes, not {}", largest.count(),
                 workspace.count());
  }
  return {};
}

Status ValidateKernel(const KernelPlan& plan, const KernelProfile& measured,
                      const WrRequest& request) {
  Status status =
      CheckKernel(plan, measured, request.batch, request.workspace_limit,
                  WorkspaceMode::kReuse, request.policy);
  if (!status) return Within(LabelOf(plan), std::move(status).error());
  return {};
}

Status ValidatePlan(const WorkspacePlan& plan, const Profile& profile,
                    const ValidationRules& rules) {
  if (plan.kernels.size() != profile.kernels.size()) {
    return Wrong("{} kernels are planned, {} measured", plan.kernels.size(),
                 profile.kernels.size());
  }
  for (std::size_t i = 0; i < plan.kernels.size(); ++i) {
    Status status = CheckKernel(plan.kernels[i], profile.kernels[i], plan.batch,
                                plan.workspace_limit, rules.mode, rules.policy);
    if (!status) {
      return Within(LabelOf(plan.kernels[i]), std::move(status).error());
    }
  }
  UCUDNN_RETURN_IF_ERROR(CheckSegments(plan, rules));
  return CheckTotals(plan);
}

void RequireValid(const Status& valid, const char* file, int line) {
  if (valid) return;
  CheckFailed(("the answer is wrong: " + valid.error().message).c_str(), file,
              line);
}

}  // namespace ucudnn
