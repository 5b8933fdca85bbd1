#include "client/cli/explanation.h"

#include <algorithm>
#include <utility>

#include "base/plan/prediction.h"
#include "client/cli/profile_options.h"
#include "solver/joint.h"
#include "solver/micro_batch/pareto.h"

namespace ucudnn::ctl {
namespace {

Alternative AlternativeAt(const ParetoFront& front, std::size_t i) {
  return {front.LimitOf(i), front.points()[i].time,
          DivisionText(front.PlanAt(i))};
}

// The last division that is planned within the limit.
std::optional<std::size_t> PlannedWithin(const ParetoFront& front,
                                         Bytes limit) {
  std::optional<std::size_t> planned;
  for (std::size_t i = 0; i < front.points().size(); ++i) {
    if (front.LimitOf(i) <= limit) planned = i;
  }
  return planned;
}

// One kernel's measurements and question.
class Question {
 public:
  Question(const std::vector<MeasuredPoint>& points, BatchSize batch,
           BatchPolicy policy, Bytes limit, const KernelPlan& kernel)
      : points_(points),
        request_{.batch = batch,
                 .workspace_limit = Bytes(kMaxCount),
                 .policy = policy},
        limit_(limit),
        kernel_(kernel) {}

  Result<ExplainedKernel> Answer() const {
    ExplainedKernel explained{.layer = kernel_.layer,
                              .op = kernel_.op,
                              .division = DivisionText(kernel_.micro_batches),
                              .time = kernel_.time};
    UCUDNN_ASSIGN_OR_RETURN(const ParetoFront front,
                            SolvePareto(points_, request_));
    const auto planned = PlannedWithin(front, limit_);
    const auto doubled = PlannedWithin(front, limit_ + limit_);
    const std::size_t next = planned ? *planned + 1 : 0;
    if (next < front.points().size()) {
      explained.more = AlternativeAt(front, next);
    }
    if (planned && *planned > 0) {
      explained.fewer = AlternativeAt(front, *planned - 1);
    }
    if (doubled && doubled != planned) {
      explained.doubled = AlternativeAt(front, *doubled);
    }
    explained.runner_up = RunnerUp();
    UCUDNN_ASSIGN_OR_RETURN(explained.scattered, Scattered());
    return explained;
  }

 private:
  // The best under the limit without one of the micro-batches.
  std::optional<Alternative> RunnerUp() const {
    std::optional<Alternative> best;
    for (const MicroBatch& micro : kernel_.micro_batches) {
      std::vector<MeasuredPoint> others = points_;
      std::erase_if(others, [&](const MeasuredPoint& point) {
        return point.batch == micro.batch && point.algorithm == micro.algorithm;
      });
      const auto front = SolvePareto(others, request_);
      if (!front) continue;  // nothing else divides the mini-batch
      const auto planned = PlannedWithin(*front, limit_);
      if (!planned) continue;
      const Alternative other = AlternativeAt(*front, *planned);
      if (!best || other.time < best->time) best = other;
    }
    return best;
  }

  Result<std::optional<Alternative>> Scattered() const {
    const bool undivided = kernel_.micro_batches.size() == 1 &&
                           kernel_.micro_batches[0].count == 1;
    if (!undivided) return std::optional<Alternative>();
    std::vector<MeasuredPoint> medians = points_;
    for (MeasuredPoint& point : medians) point.spread = Nanoseconds(0);
    UCUDNN_ASSIGN_OR_RETURN(const ParetoFront front,
                            SolvePareto(medians, request_));
    const auto best = front.FastestWithin(limit_);
    if (best && front.points()[*best].time < kernel_.time &&
        front.PlanAt(*best).front().batch < request_.batch) {
      return std::optional(AlternativeAt(front, *best));
    }
    return std::optional<Alternative>();
  }

  const std::vector<MeasuredPoint>& points_;
  const WrRequest request_;  // without a limit
  const Bytes limit_;
  const KernelPlan& kernel_;
};

}  // namespace

Result<ExplainedKernel> ExplainKernel(std::vector<MeasuredPoint> points,
                                      BatchSize batch,
                                      const JobRequest& request, Bytes limit,
                                      const KernelPlan& kernel) {
  const std::vector<MeasuredPoint> all = points;
  const auto left_out =
      LeaveOutInexact(request.precision, request.max_error, &points);
  if (points.empty()) {
    // Errors were measured since the plan was made.
    points = all;
    UCUDNN_RETURN_IF_ERROR(KeepAccurate(request.precision, request.max_error,
                                        &points, KernelName(kernel)));
  }
  UCUDNN_ASSIGN_OR_RETURN(
      ExplainedKernel explained,
      Question(points, batch, request.policy, limit, kernel).Answer());
  if (left_out.empty()) return explained;
  LeftOut& inexact = explained.inexact.emplace();
  for (const MeasuredPoint& point : left_out) {
    double& error = inexact.errors[point.algorithm];
    error = std::max(error, FromPpt(point.error_ppt));
  }
  UCUDNN_ASSIGN_OR_RETURN(const ParetoFront front,
                          SolvePareto(all, {.batch = batch,
                                            .workspace_limit = Bytes(kMaxCount),
                                            .policy = request.policy}));
  const auto planned = PlannedWithin(front, limit);
  if (planned && front.points()[*planned].time < kernel.time) {
    inexact.with = AlternativeAt(front, *planned);
  }
  return explained;
}

std::vector<std::optional<KernelSegment>> SegmentsOf(
    const WorkspacePlan& plan) {
  std::vector<std::optional<KernelSegment>> segments(plan.kernels.size());
  const auto concurrency =
      ParseConcurrency(plan.concurrency, plan.kernels.size());
  if (!concurrency) return segments;  // one after the other
  for (const auto& [a, b] : ConcurrentPairs(*concurrency)) {
    for (const auto& [of, other] : {std::pair(a, b), std::pair(b, a)}) {
      const KernelPlan& kernel = plan.kernels[of];
      if (!segments[of]) {
        segments[of] = KernelSegment{
            kernel.offset.value_or(Bytes(0)), kernel.workspace, {}};
      }
      segments[of]->beside.push_back(KernelName(plan.kernels[other]));
    }
  }
  return segments;
}

std::vector<OneMore> WithOneMoreGpu(
    const JobRequest& request, const std::map<std::string, Profile>& kernels,
    const std::optional<Concurrency>& concurrency) {
  JointProblem problem;
  problem.batch = request.batch;
  std::map<std::string, std::size_t> numbers;
  std::vector<std::string> kinds;
  for (std::size_t rank = 0; rank < request.device_kinds.size(); ++rank) {
    if (std::ranges::count(request.exclude_ranks, rank) > 0) continue;
    const std::string& name = request.device_kinds[rank];
    const auto [known, added] = numbers.try_emplace(name, numbers.size());
    if (added) {
      const auto measured = kernels.find(name);
      if (measured == kernels.end()) return {};
      kinds.push_back(name);
      problem.kinds.push_back({.kernels = measured->second,
                               .workspace_limit = request.KernelLimit(),
                               .concurrency = concurrency,
                               .policy = request.policy});
    }
    problem.gpus.push_back({.kind = known->second});
  }
  std::vector<OneMore> answers;
  for (const std::string& kind : kinds) {
    problem.gpus.push_back({.kind = numbers[kind]});
    if (const auto plan = SolveJoint(problem)) {
      OneMore& answer = answers.emplace_back();
      answer.kind = kind;
      answer.time = plan->assignment.makespan;
      for (const Share& share : plan->assignment.shares) {
        answer.shares.push_back(share.batch);
      }
    }
    problem.gpus.pop_back();
  }
  return answers;
}

}  // namespace ucudnn::ctl
