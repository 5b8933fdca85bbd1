#include "solver/micro_batch/wr.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "solver/check/validate.h"

namespace ucudnn {

std::optional<Bytes> SmallestLimit(std::span<const MeasuredPoint> points,
                                   BatchSize batch, BatchPolicy policy) {
  if (batch < BatchSize(1) || batch > kMaxBatchSize) return std::nullopt;
  constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
  const std::size_t size = Index(batch) + 1;
  std::vector<std::int64_t> least(size, kNone);  // of one point of the size
  for (const MeasuredPoint& point : points) {
    if (PolicyAdmits(policy, point.batch, batch)) {
      std::int64_t& entry = least[Index(point.batch)];
      entry = std::min(entry, point.workspace.count());
    }
  }
  std::vector<std::int64_t> limit(size, kNone);
  limit[0] = 0;
  for (std::size_t p = 1; p < size; ++p) {
    if (least[p] >= limit[p]) continue;
    for (std::size_t b = p; b < size; ++b) {
      limit[b] = std::min(limit[b], std::max(limit[b - p], least[p]));
    }
  }
  if (limit.back() == kNone) return std::nullopt;
  return Bytes(limit.back());
}

Error WhyNoWrPlan(std::span<const MeasuredPoint> points,
                  const WrRequest& request) {
  const std::int64_t batch = request.batch.count();
  const std::optional<Bytes> smallest =
      SmallestLimit(points, request.batch, request.policy);
  if (smallest.has_value() && *smallest > request.workspace_limit) {
    return {Code::kFailedPrecondition,
            fmt::format("no division of batch {} fits into a workspace of {}; "
                        "the smallest limit that would do is {}",
                        batch, FormatBytes(request.workspace_limit),
                        FormatBytes(*smallest)),
            smallest->count()};
  }
  if (smallest.has_value()) {
    return {Code::kOutOfRange,
            fmt::format("every division of batch {} takes longer than 146 "
                        "years",
                        batch)};
  }
  const auto curve =
      SolveWrCurve(points, request.batch, Bytes::Max(), request.policy);
  UCUDNN_CHECK(curve.has_value());
  std::int64_t nearest = batch - 1;
  while (nearest > 0 && !curve->TimeAt(BatchSize(nearest)).has_value()) {
    --nearest;
  }
  return {Code::kFailedPrecondition,
          fmt::format("no measured batch sizes that policy {} admits add up to "
                      "{}{}",
                      Name(request.policy), batch,
                      nearest == 0
                          ? std::string(" or to any smaller batch")
                          : fmt::format("; the nearest batch below that would "
                                        "do is {}",
                                        nearest))};
}

namespace {

// A kernel's plan with the bound that belongs to it.
struct Solved {
  KernelPlan plan;
  Nanoseconds lower_bound{0};
};

// Absent if there is no plan.
Result<std::optional<Solved>> SolveKernel(const KernelProfile& kernel,
                                          const WrRequest& request) {
  auto curve = SolveWrCurve(kernel.points, request.batch,
                            request.workspace_limit, request.policy);
  if (!curve) return Within(LabelOf(kernel.id), std::move(curve).error());
  const std::optional<Nanoseconds> time = curve->TimeAt(request.batch);
  if (!time.has_value()) return std::nullopt;
  Solved solved;
  KernelPlan& plan = solved.plan;
  plan.layer = kernel.id.layer;
  plan.op = kernel.id.op;
  plan.precision = kernel.id.precision;
  plan.layout = kernel.id.layout;
  plan.time = *time;
  plan.undivided_time = curve->UndividedTimeAt(request.batch);
  plan.workspace = *curve->WorkspaceAt(request.batch);
  plan.micro_batches = curve->PlanAt(request.batch);
  solved.lower_bound = *curve->LowerBoundAt(request.batch);
  return solved;
}

// Adds `term` to `sum`, both of [0, 2^62]; false if the sum is larger.
bool AddWithin(std::int64_t term, std::int64_t* sum) {
  if (term > kMaxCount - *sum) return false;
  *sum += term;
  return true;
}

}  // namespace

Result<KernelPlan> SolveWr(const KernelProfile& kernel,
                           const WrRequest& request) {
  UCUDNN_ASSIGN_OR_RETURN(std::optional<Solved> solved,
                          SolveKernel(kernel, request));
  if (solved.has_value()) {
    if constexpr (kSolversCheckThemselves) {
      RequireValid(ValidateKernel(solved->plan, kernel, request));
    }
    return std::move(solved->plan);
  }
  return Within(LabelOf(kernel.id), WhyNoWrPlan(kernel.points, request));
}

Result<WorkspacePlan> SolveWr(const Profile& profile,
                              const WrRequest& request) {
  if (profile.kernels.empty()) {
    return Fail(Code::kInvalidArgument, "there is no kernel to plan for");
  }
  WorkspacePlan plan;
  plan.batch = request.batch;
  plan.workspace_limit = request.workspace_limit;
  std::int64_t time = 0;
  std::int64_t bound = 0;
  std::int64_t undivided = 0;
  std::int64_t workspace = 0;
  bool all_undivided = true;
  const KernelProfile* unsolved = nullptr;
  std::optional<Bytes> smallest = Bytes(0);
  for (const KernelProfile& kernel : profile.kernels) {
    UCUDNN_ASSIGN_OR_RETURN(std::optional<Solved> solved,
                            SolveKernel(kernel, request));
    if (!solved.has_value()) {
      // Report the kernel that needs most, whose limit suffices for all.
      const std::optional<Bytes> limit =
          SmallestLimit(kernel.points, request.batch, request.policy);
      if (!limit.has_value()) {
        return Within(LabelOf(kernel.id), WhyNoWrPlan(kernel.points, request));
      }
      if (unsolved == nullptr || *limit > *smallest) {
        unsolved = &kernel;
        smallest = limit;
      }
      continue;
    }
    bool fits = AddWithin(solved->plan.time.count(), &time) &&
                AddWithin(solved->lower_bound.count(), &bound) &&
                AddWithin(solved->plan.workspace.count(), &workspace);
    if (!solved->plan.undivided_time.has_value()) {
      all_undivided = false;
    } else if (all_undivided) {
      fits =
          AddWithin(solved->plan.undivided_time->count(), &undivided) && fits;
    }
    if (!fits) {
      return Fail(Code::kOutOfRange,
                  "{}: the times of all kernels add up to more than 146 years, "
                  "or their workspaces to more than 4 EiB",
                  LabelOf(kernel.id));
    }
    plan.kernels.push_back(std::move(solved->plan));
  }
  if (unsolved != nullptr) {
    return Within(LabelOf(unsolved->id),
                  WhyNoWrPlan(unsolved->points, request));
  }
  plan.total_time = Nanoseconds(time);
  plan.lower_bound = Nanoseconds(bound);
  plan.optimal = time == bound;
  if (all_undivided) plan.undivided_time = Nanoseconds(undivided);
  plan.total_workspace = Bytes(workspace);
  if (kSolversCheckThemselves)
    RequireValid(ValidatePlan(plan, profile,
                              {WorkspaceMode::kReuse, request.policy, {}}));
  return plan;
}

}  // namespace ucudnn
