#include "solver/joint.h"

#include <algorithm>
#include <map>
#include <utility>

#include "solver/arena/ws.h"
#include "solver/check/validate.h"
#include "solver/check/validate_assignment.h"
#include "solver/micro_batch/wr.h"

namespace ucudnn {
namespace {

constexpr std::int64_t kMostStepTime = std::int64_t{1} << 61;

Result<WorkspacePlan> PlanOf(const JointKind& kind, BatchSize batch) {
  const WrRequest request{batch, kind.workspace_limit, kind.policy};
  if (!kind.concurrency) return SolveWr(kind.kernels, request);
  return SolveWs(kind.kernels, *kind.concurrency, request,
                 {.search = {}, .alignment = kSegmentAlignment});
}

// How often each kernel occurs, counted at the first of several equal ones.
std::vector<std::int64_t> CountAlike(
    const std::vector<KernelProfile>& kernels) {
  std::vector<std::int64_t> counts(kernels.size(), 0);
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    std::size_t first = 0;
    while (kernels[first].points != kernels[k].points) ++first;
    ++counts[first];
  }
  return counts;
}

// By batch.
struct KernelTotals {
  // Negative if there is no plan or the sum exceeds kMostStepTime.
  std::vector<std::int64_t> times;
  std::vector<Bytes> workspaces;  // the largest
};

Result<KernelTotals> TotalsOf(const JointKind& kind, BatchSize largest) {
  KernelTotals totals;
  std::vector<std::int64_t>& times = totals.times;
  times.resize(static_cast<std::size_t>(largest.count()) + 1);
  totals.workspaces.resize(times.size());
  const std::vector<std::int64_t> counts = CountAlike(kind.kernels.kernels);
  for (std::size_t k = 0; k < counts.size(); ++k) {
    if (counts[k] == 0) continue;
    const KernelProfile& kernel = kind.kernels.kernels[k];
    auto curve =
        SolveWrCurve(kernel.points, largest, kind.workspace_limit, kind.policy);
    if (!curve) return Within(kernel.id.layer, std::move(curve).error());
    for (std::size_t b = 1; b < times.size(); ++b) {
      const BatchSize batch(static_cast<std::int64_t>(b));
      const auto time = curve->TimeAt(batch);
      if (!time.has_value() || times[b] < 0 ||
          time->count() > (kMostStepTime - times[b]) / counts[k]) {
        times[b] = -1;
      } else {
        times[b] += time->count() * counts[k];
        totals.workspaces[b] =
            std::max(totals.workspaces[b], *curve->WorkspaceAt(batch));
      }
    }
  }
  return totals;
}

// The same of kernels among which the limit is divided, at `batches` only.
Result<KernelTotals> DividedTotalsOf(const JointKind& kind,
                                     std::span<const BatchSize> batches) {
  KernelTotals totals;
  totals.times.resize(static_cast<std::size_t>(batches.back().count()) + 1);
  totals.workspaces.resize(totals.times.size());
  for (const BatchSize batch : batches) {
    const auto place = static_cast<std::size_t>(batch.count());
    const auto plan = PlanOf(kind, batch);
    if (plan) {
      totals.times[place] = plan->total_time.count();
      totals.workspaces[place] = plan->total_workspace;
    } else if (plan.error().code == Code::kFailedPrecondition) {
      totals.times[place] = -1;
    } else {
      return tl::unexpected<Error>(plan.error());
    }
  }
  return totals;
}

// Why the batch cannot be shared: `why`, or the more specific error of a kind
// that cannot plan its own kernels.
Error WhyNoPlan(const JointProblem& problem, const AssignProblem& assign,
                Error why) {
  if (why.code != Code::kFailedPrecondition) return why;
  for (std::size_t k = 0; k < problem.kinds.size(); ++k) {
    if (problem.gpus.size() > 1 && !assign.tables[k].empty()) continue;
    const auto plan = PlanOf(problem.kinds[k], problem.batch);
    if (!plan) return plan.error();
  }
  return why;
}

// The time of everything that is not a convolution, for `batch` images.
Nanoseconds RestOf(const JointKind& kind, BatchSize batch) {
  const Nanoseconds other =
      kind.others.empty()
          ? Nanoseconds(0)
          : kind.others.at(static_cast<std::size_t>(batch.count()));
  return kind.fixed + kind.per_image * batch.count() + other;
}

}  // namespace

Result<std::vector<BatchCost>> IterationTimes(
    const JointKind& kind, BatchSize largest,
    std::span<const BatchSize> shares) {
  if (largest < BatchSize(1) || largest > kMaxBatchSize) {
    return Fail(Code::kInvalidArgument,
                "the mini-batch is {}; 1 to {} is "
                "accepted",
                largest.count(), kMaxBatchSize.count());
  }
  if (kind.kernels.kernels.empty()) {
    return Fail(Code::kInvalidArgument, "there is no kernel to plan for");
  }
  const auto negative = [](Nanoseconds time) { return time.count() < 0; };
  if (negative(kind.fixed) || negative(kind.per_image) ||
      std::ranges::any_of(kind.others, negative)) {
    return Fail(Code::kInvalidArgument,
                "the time of what is not convolution is negative");
  }
  // The sum of three stays below 2^63.
  if (kind.fixed.count() > kMostStepTime ||
      kind.per_image.count() > kMostStepTime / largest.count() ||
      std::ranges::any_of(kind.others, [](Nanoseconds time) {
        return time.count() > kMostStepTime;
      })) {
    return Fail(Code::kOutOfRange,
                "the time of what is not convolution exceeds 2^61 ns");
  }
  std::vector<BatchSize> batches(shares.begin(), shares.end());
  if (batches.empty()) {
    for (std::int64_t b = 1; b <= largest.count(); ++b) batches.emplace_back(b);
  }
  std::ranges::sort(batches);
  batches.erase(std::unique(batches.begin(), batches.end()), batches.end());
  std::erase_if(batches, [&](BatchSize batch) {
    return batch < BatchSize(1) || batch > largest;
  });
  std::vector<BatchCost> costs;
  if (batches.empty()) return costs;
  UCUDNN_ASSIGN_OR_RETURN(const KernelTotals totals,
                          kind.concurrency ? DividedTotalsOf(kind, batches)
                                           : TotalsOf(kind, largest));
  for (const BatchSize batch : batches) {
    const auto place = static_cast<std::size_t>(batch.count());
    const std::int64_t time = totals.times[place];
    const std::int64_t rest = RestOf(kind, batch).count();
    if (time < 0 || time > kMostStepTime - rest) continue;
    const Bytes memory = kind.needs.empty()
                             ? Bytes(0)
                             : kind.needs[place] + totals.workspaces[place];
    costs.push_back({batch, Nanoseconds(time + rest), memory});
  }
  return costs;
}

Result<JointPlan> SolveJoint(const JointProblem& problem,
                             const Limits& limits) {
  AssignProblem assign;
  assign.batch = problem.batch;
  assign.communication = problem.communication;
  for (const JointKind& kind : problem.kinds) {
    UCUDNN_ASSIGN_OR_RETURN(
        auto costs, IterationTimes(kind, problem.batch, problem.shares));
    assign.tables.push_back(std::move(costs));
  }
  for (const JointGpu& gpu : problem.gpus) {
    AssignGpu added;
    added.table = gpu.kind;
    added.max_batch = gpu.max_batch;
    // SolveAssignment names a kind that does not exist.
    if (gpu.kind < problem.kinds.size()) {
      added.memory_limit = problem.kinds[gpu.kind].memory;
    }
    assign.gpus.push_back(std::move(added));
  }
  JointPlan joint;
  auto assignment = SolveAssignment(assign, limits);
  if (!assignment) {
    return tl::unexpected<Error>(
        WhyNoPlan(problem, assign, std::move(assignment).error()));
  }
  joint.assignment = *std::move(assignment);
  std::map<std::pair<std::size_t, BatchSize>, SharedValue<WorkspacePlan>> plans;
  for (std::size_t g = 0; g < problem.gpus.size(); ++g) {
    const BatchSize batch = joint.assignment.shares[g].batch;
    if (batch == BatchSize(0)) {
      joint.plans.emplace_back();
      continue;
    }
    const std::size_t kind = problem.gpus[g].kind;
    auto known = plans.find({kind, batch});
    if (known == plans.end()) {
      UCUDNN_ASSIGN_OR_RETURN(WorkspacePlan plan,
                              PlanOf(problem.kinds[kind], batch));
      known = plans.emplace(std::pair(kind, batch), std::move(plan)).first;
    }
    joint.plans.emplace_back(known->second);
  }
  if (kSolversCheckThemselves) RequireValid(ValidateJoint(joint, problem));
  return joint;
}

}  // namespace ucudnn
