#include "client/dropin/planner/planner.h"

#include <algorithm>
#include <map>
#include <utility>

#include "client/dropin/planner/plan_file_kernels.h"
#include "device/accuracy.h"
#include "solver/knapsack/wd.h"
#include "solver/micro_batch/host_time.h"
#include "solver/micro_batch/wr.h"

namespace ucudnn {
namespace {

constexpr Bytes kAlignment = 256_B;

KernelPlan MakePlan(const ConvProblem& problem,
                    std::vector<MicroBatch> micro_batches) {
  KernelPlan plan;
  plan.op = problem.op;
  plan.precision = problem.precision;
  plan.layout = problem.layout;
  plan.problem = problem;
  for (const MicroBatch& micro : micro_batches) {
    plan.time += micro.time * micro.count;
    plan.workspace = std::max(plan.workspace, micro.workspace);
  }
  plan.micro_batches = std::move(micro_batches);
  return plan;
}

}  // namespace

LocalSolver::LocalSolver(Options options) : points_(std::move(options)) {
  if (!settings().plan_file.empty()) ReadPlanFile();
}

void LocalSolver::ReadPlanFile() {
  auto plans = ReadKernelPlans(settings().plan_file, points_.kind());
  if (!plans) {
    plan_file_problem_ = plans.error().message;
    return;
  }
  for (FileKernel& kernel : *plans) {
    const FileKey key(*kernel.plan.problem, kernel.batch);
    plan_file_[key].push_back(std::move(kernel.plan));
  }
}

std::optional<KernelPlan> LocalSolver::FromPlanFile(const ConvProblem& problem,
                                                    BatchSize batch,
                                                    Bytes limit,
                                                    const Bench& bench) {
  const auto found = plan_file_.find(FileKey(problem, batch));
  if (found == plan_file_.end()) return std::nullopt;
  const KernelPlan* best = nullptr;
  for (const KernelPlan& plan : found->second) {
    if (plan.workspace > limit) continue;
    if (best == nullptr || plan.time < best->time) best = &plan;
  }
  if (best == nullptr) return std::nullopt;
  for (const MicroBatch& micro : best->micro_batches) {
    if (!points_.Admits(problem, micro.batch, micro.algorithm, bench)) {
      return std::nullopt;
    }
  }
  return *best;
}

Result<KernelPlan> LocalSolver::Plan(const ConvProblem& problem,
                                     BatchSize batch, Bytes limit,
                                     const Bench& bench,
                                     Enqueueing enqueueing) {
  const std::lock_guard lock(mutex_);
  if (auto planned = FromPlanFile(problem, batch, limit, bench)) {
    return *std::move(planned);
  }
  KernelProfile profile;
  profile.id.op = problem.op;
  profile.id.precision = problem.precision;
  profile.id.layout = problem.layout;
  // A total is divided again whenever a kernel becomes known, so a kernel may
  // get any part of it.
  const bool is_divided = settings().total_workspace > Bytes();
  UCUDNN_ASSIGN_OR_RETURN(
      profile.points,
      points_.Below(problem, {batch, limit, is_divided}, bench));
  // What else the program enqueues is unknown here.
  if (enqueueing == Enqueueing::kDirect) {
    profile.points = CountHostTime(profile.points, batch, limit);
  }
  UCUDNN_ASSIGN_OR_RETURN(KernelPlan plan,
                          SolveWr(profile, {batch, limit, settings().policy}));
  plan.problem = problem;
  return plan;
}

Result<bool> LocalSolver::Beats(const KernelPlan& plan, BatchSize batch,
                                const Algorithm& algorithm, const Bench& bench,
                                Enqueueing enqueueing) {
  const std::lock_guard lock(mutex_);
  const ConvProblem& problem = *plan.problem;
  if (settings().deterministic && !IsDeterministic(problem.op, algorithm)) {
    return true;
  }
  Nanoseconds most{0};
  for (const MicroBatch& micro : plan.micro_batches) {
    const MeasuredPoint* point =
        points_.Find(problem, micro.batch, micro.algorithm);
    if (point == nullptr) return true;  // from the plan file
    const Nanoseconds paced = enqueueing == Enqueueing::kDirect
                                  ? std::max(micro.time, point->enqueue)
                                  : micro.time;
    most += micro.count * (paced + point->spread);
  }
  UCUDNN_ASSIGN_OR_RETURN(const MeasuredPoint whole,
                          points_.Point(problem, batch, algorithm, bench));
  return most < whole.time - whole.spread;
}

Result<std::vector<KernelPlan>> LocalSolver::Divide(
    std::span<const Kernel> kernels, Bytes total, const Bench& bench,
    Enqueueing enqueueing) {
  const std::lock_guard lock(mutex_);
  // Kernels of equal shape share their points and front.
  std::map<FileKey, std::size_t> index;
  std::vector<std::vector<MeasuredPoint>> points;
  std::vector<ParetoFront> fronts;
  std::vector<std::vector<FrontPoint>> sizes;  // whole segments
  std::vector<std::size_t> front_of;
  points.reserve(kernels.size());
  for (const Kernel& kernel : kernels) {
    const auto [at, is_new] =
        index.try_emplace({kernel.problem, kernel.batch}, fronts.size());
    front_of.push_back(at->second);
    if (!is_new) continue;
    UCUDNN_ASSIGN_OR_RETURN(auto found, points_.Below(kernel.problem,
                                                      {.batch = kernel.batch,
                                                       .limit = total,
                                                       .each_below = true},
                                                      bench));
    points.push_back(enqueueing == Enqueueing::kDirect
                         ? CountHostTime(found, kernel.batch, Bytes())
                         : std::move(found));
    UCUDNN_ASSIGN_OR_RETURN(
        auto front,
        SolvePareto(points.back(), {kernel.batch, total, settings().policy}));
    sizes.push_back(front.points());
    for (FrontPoint& point : sizes.back()) {
      point.workspace = RoundUp(point.workspace, kAlignment);
    }
    fronts.push_back(std::move(front));
  }
  std::vector<std::span<const FrontPoint>> choices;
  for (const std::size_t f : front_of) choices.emplace_back(sizes[f]);
  UCUDNN_ASSIGN_OR_RETURN(const Division division,
                          DivideWorkspace(choices, total));
  std::vector<KernelPlan> plans;
  Bytes offset;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    const ParetoFront& front = fronts[front_of[i]];
    plans.push_back(
        MakePlan(kernels[i].problem, front.PlanAt(division.point[i])));
    plans.back().offset = offset;
    offset += sizes[front_of[i]][division.point[i]].workspace;
  }
  return plans;
}

}  // namespace ucudnn
