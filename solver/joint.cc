#include "solver/joint.h"

#include <algorithm>
#include <map>
#include <utility>

#include "solver/check/validate.h"
#include "solver/check/validate_assignment.h"
#include "solver/knapsack/wd.h"
#include "solver/micro_batch/wr.h"

namespace ucudnn {
namespace {

constexpr std::int64_t kMostTime = std::int64_t{1} << 61;

std::vector<BatchSize> PowersOfTwoAnd(BatchSize largest) {
  std::vector<BatchSize> batches;
  for (std::int64_t b = 1; b < largest.count(); b *= 2) batches.emplace_back(b);
  batches.push_back(largest);
  return batches;
}

WrRequest RequestOf(const JointKind& kind, BatchSize batch) {
  return {batch, kind.workspace_limit, kind.policy};
}

Result<WorkspacePlan> PlanOf(const JointKind& kind, BatchSize batch,
                             const Limits& limits) {
  return kind.divide_workspace
             ? SolveWd(kind.kernels, RequestOf(kind, batch), limits)
             : SolveWr(kind.kernels, RequestOf(kind, batch));
}

// The kernels' times by batch under WR, one curve for each kernel; negative
// where there is no plan or it takes too long.
Result<std::vector<std::int64_t>> ReuseTimes(const JointKind& kind,
                                             BatchSize largest) {
  std::vector<std::int64_t> times(static_cast<std::size_t>(largest.count()) + 1,
                                  0);
  for (const KernelProfile& kernel : kind.kernels.kernels) {
    auto curve =
        SolveWrCurve(kernel.points, largest, kind.workspace_limit, kind.policy);
    if (!curve) return Within(kernel.id.layer, std::move(curve).error());
    for (std::size_t b = 1; b < times.size(); ++b) {
      const auto time = curve->TimeAt(BatchSize(static_cast<std::int64_t>(b)));
      if (!time.has_value() || times[b] < 0 ||
          time->count() > kMostTime - times[b]) {
        times[b] = -1;
      } else {
        times[b] += time->count();
      }
    }
  }
  return times;
}

}  // namespace

Result<std::vector<BatchCost>> IterationTimes(const JointKind& kind,
                                              BatchSize largest,
                                              std::span<const BatchSize> shares,
                                              const Limits& limits) {
  if (largest < BatchSize(1) || largest > kMaxBatchSize) {
    return Fail(Code::kInvalidArgument,
                "the mini-batch is {}; 1 to {} is "
                "accepted",
                largest.count(), kMaxBatchSize.count());
  }
  if (kind.kernels.kernels.empty()) {
    return Fail(Code::kInvalidArgument, "there is no kernel to plan for");
  }
  if (kind.fixed.count() < 0 || kind.per_image.count() < 0) {
    return Fail(Code::kInvalidArgument,
                "the time of what is not convolution is negative");
  }
  if (kind.fixed.count() > kMostTime ||
      kind.per_image.count() > kMostTime / largest.count()) {
    return Fail(Code::kOutOfRange,
                "the time of what is not convolution exceeds 2^61 ns");
  }
  std::vector<BatchSize> batches(shares.begin(), shares.end());
  std::vector<std::int64_t> reuse;
  if (!kind.divide_workspace) {
    UCUDNN_ASSIGN_OR_RETURN(reuse, ReuseTimes(kind, largest));
    if (batches.empty()) {
      for (std::int64_t b = 1; b <= largest.count(); ++b) {
        batches.emplace_back(b);
      }
    }
  } else if (batches.empty()) {
    batches = PowersOfTwoAnd(largest);
  }
  std::sort(batches.begin(), batches.end());
  batches.erase(std::unique(batches.begin(), batches.end()), batches.end());
  std::vector<BatchCost> costs;
  for (const BatchSize batch : batches) {
    if (batch < BatchSize(1) || batch > largest) continue;
    std::int64_t time = -1;
    if (kind.divide_workspace) {
      const auto plan = PlanOf(kind, batch, limits);
      if (plan) {
        time = plan->total_time.count();
      } else if (plan.error().code != Code::kFailedPrecondition) {
        return tl::unexpected<Error>(plan.error());
      }
    } else {
      time = reuse[static_cast<std::size_t>(batch.count())];
    }
    const std::int64_t rest =
        kind.fixed.count() + kind.per_image.count() * batch.count();
    if (time < 0 || time > kMostTime - rest) continue;
    costs.push_back({batch, Nanoseconds(time + rest), Bytes(0)});
  }
  return costs;
}

Result<JointPlan> SolveJoint(const JointProblem& problem,
                             const Limits& limits) {
  AssignProblem assign;
  assign.batch = problem.batch;
  assign.communication = problem.communication;
  for (const JointKind& kind : problem.kinds) {
    UCUDNN_ASSIGN_OR_RETURN(auto costs, IterationTimes(kind, problem.batch,
                                                       problem.shares, limits));
    assign.tables.push_back(std::move(costs));
  }
  for (const JointGpu& gpu : problem.gpus) {
    AssignGpu added;
    added.table = gpu.kind;
    added.max_batch = gpu.max_batch;
    assign.gpus.push_back(std::move(added));
  }
  JointPlan joint;
  UCUDNN_ASSIGN_OR_RETURN(joint.assignment, SolveAssignment(assign, limits));
  std::map<std::pair<std::size_t, BatchSize>, WorkspacePlan> plans;
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
                              PlanOf(problem.kinds[kind], batch, limits));
      known = plans.emplace(std::pair(kind, batch), std::move(plan)).first;
    }
    joint.plans.emplace_back(known->second);
  }
  if constexpr (kSolversCheckThemselves) {
    RequireValid(ValidateJoint(joint, problem));
  }
  return joint;
}

}  // namespace ucudnn
