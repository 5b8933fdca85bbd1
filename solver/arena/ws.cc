#include "solver/arena/ws.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "solver/arena/arena.h"
#include "solver/check/validate.h"
#include "solver/micro_batch/pareto.h"

namespace ucudnn {
namespace {

// What one kernel may choose from: its WR plan if nothing else runs at the same
// time, otherwise its front.
struct Choices {
  std::optional<WrCurve> alone;
  std::optional<ParetoFront> front;
  std::optional<ParetoFront> undivided_front;
  std::vector<FrontPoint> points;
  std::vector<FrontPoint> undivided;  // empty where nothing undivided fits
};

// kFailedPrecondition, naming the smallest sufficient arena, if
// `request.workspace_limit` is too small.
Status CheckFeasible(const Profile& profile, const Concurrency& concurrency,
                     const WrRequest& request, const std::vector<bool>& alone,
                     Bytes alignment) {
  std::vector<Bytes> least;
  for (std::size_t k = 0; k < profile.kernels.size(); ++k) {
    const KernelProfile& kernel = profile.kernels[k];
    const Status status =
        CheckWrArguments(kernel.points, request.batch, request.workspace_limit);
    if (!status) return Within(LabelOf(kernel.id), status.error());
    const std::optional<Bytes> limit =
        SmallestLimit(kernel.points, request.batch, request.policy);
    if (!limit.has_value()) {
      return Within(LabelOf(kernel.id), WhyNoWrPlan(kernel.points, request));
    }
    least.push_back(alone[k] ? *limit : RoundUp(*limit, alignment));
  }
  const Bytes smallest = SmallestArena(concurrency, least);
  if (smallest > request.workspace_limit) {
    return FailBelow(smallest.count(),
                     "no division of batch {} fits into an arena of {}; the "
                     "smallest limit that would do is {}",
                     request.batch.count(),
                     FormatBytes(request.workspace_limit),
                     FormatBytes(smallest));
  }
  return {};
}

// What they take of an arena where segments have this alignment.
std::vector<FrontPoint> Aligned(std::vector<FrontPoint> points,
                                Bytes alignment) {
  for (FrontPoint& point : points) {
    point.workspace = RoundUp(point.workspace, alignment);
  }
  return points;
}

Result<Choices> ChoicesOf(const KernelProfile& kernel, bool alone,
                          const WrRequest& request, Bytes alignment) {
  Choices choices;
  if (alone) {
    UCUDNN_ASSIGN_OR_RETURN(
        choices.alone, SolveWrCurve(kernel.points, request.batch,
                                    request.workspace_limit, request.policy));
    const WrCurve& curve = *choices.alone;
    const auto time = curve.TimeAt(request.batch);
    if (!time.has_value()) {
      return tl::unexpected<Error>(WhyNoWrPlan(kernel.points, request));
    }
    choices.points = {{*time, *curve.WorkspaceAt(request.batch)}};
    if (curve.UndividedTimeAt(request.batch).has_value()) {
      choices.undivided = {{*curve.UndividedTimeAt(request.batch), Bytes(0)}};
    }
    return choices;
  }
  UCUDNN_ASSIGN_OR_RETURN(choices.front, SolvePareto(kernel.points, request));
  choices.points = Aligned(choices.front->points(), alignment);
  WrRequest undivided = request;
  undivided.policy = BatchPolicy::kUndivided;
  auto front = SolvePareto(kernel.points, undivided);
  if (front) {
    choices.undivided = Aligned(front->points(), alignment);
    choices.undivided_front = *std::move(front);
  }
  return choices;
}

// Whether each leaf is in no Parallel.
std::vector<bool> Alone(const Concurrency& concurrency, std::size_t leaves) {
  std::vector<bool> alone(leaves, false);
  std::vector<std::size_t> open = {concurrency.nodes.size() - 1};
  while (!open.empty()) {
    const Concurrency::Node& node = concurrency.nodes[open.back()];
    open.pop_back();
    if (node.kind == Concurrency::Kind::kLeaf) alone[node.leaf] = true;
    if (node.kind == Concurrency::Kind::kSerial) {
      open.insert(open.end(), node.parts.begin(), node.parts.end());
    }
  }
  return alone;
}

}  // namespace

Result<WorkspacePlan> SolveWs(const Profile& profile,
                              const Concurrency& concurrency,
                              const WrRequest& request,
                              const WsLimits& limits) {
  UCUDNN_RETURN_IF_ERROR(Validate(concurrency, profile.kernels.size()));
  const std::vector<bool> alone = Alone(concurrency, profile.kernels.size());
  UCUDNN_RETURN_IF_ERROR(
      CheckFeasible(profile, concurrency, request, alone, limits.alignment));
  std::vector<Choices> choices;
  std::vector<std::span<const FrontPoint>> fronts;
  std::vector<std::span<const FrontPoint>> undivided_fronts;
  choices.reserve(profile.kernels.size());
  for (std::size_t k = 0; k < profile.kernels.size(); ++k) {
    auto found =
        ChoicesOf(profile.kernels[k], alone[k], request, limits.alignment);
    if (!found) {
      return Within(LabelOf(profile.kernels[k].id), std::move(found).error());
    }
    choices.push_back(*std::move(found));
    fronts.emplace_back(choices.back().points);
    undivided_fronts.emplace_back(choices.back().undivided);
  }
  UCUDNN_ASSIGN_OR_RETURN(
      const Arena best,
      SolveArena(concurrency, fronts, request.workspace_limit, limits));
  UCUDNN_ASSIGN_OR_RETURN(const Arena plain,
                          SolveArena(concurrency, undivided_fronts,
                                     request.workspace_limit, limits));
  WorkspacePlan plan;
  plan.batch = request.batch;
  plan.workspace_limit = request.workspace_limit;
  plan.kernels.resize(profile.kernels.size());
  bool all_undivided = true;
  Nanoseconds undivided_time{0};
  for (std::size_t g = 0; g < best.groups.size(); ++g) {
    const ArenaGroup& group = best.groups[g];
    const ArenaGroup& alternative = plain.groups[g];
    // CheckFeasible found room, so the fronts left out plans that take too
    // long.
    if (!group.feasible) {
      return Fail(Code::kOutOfRange,
                  "what fits into an arena of {} takes more than 36 years",
                  FormatBytes(request.workspace_limit));
    }
    const std::size_t first = group.leaves[0];
    // Possible only if a front was thinned out or noise ruled out a point.
    const bool keep =
        !alone[first] && alternative.feasible && alternative.time < group.time;
    for (const std::size_t k : group.leaves) {
      const std::size_t point = keep ? plain.point[k] : best.point[k];
      const FrontPoint& chosen =
          keep ? undivided_fronts[k][point] : fronts[k][point];
      const KernelId& id = profile.kernels[k].id;
      KernelPlan& kernel = plan.kernels[k];
      kernel.layer = id.layer;
      kernel.op = id.op;
      kernel.precision = id.precision;
      kernel.layout = id.layout;
      kernel.time = chosen.time;
      kernel.offset = keep ? plain.offset[k] : best.offset[k];
      kernel.micro_batches = alone[k] ? choices[k].alone->PlanAt(request.batch)
                             : keep ? choices[k].undivided_front->PlanAt(point)
                                    : choices[k].front->PlanAt(point);
      for (const MicroBatch& micro : kernel.micro_batches) {
        kernel.workspace = std::max(kernel.workspace, micro.workspace);
      }
      if (alternative.feasible) {
        kernel.undivided_time = undivided_fronts[k][plain.point[k]].time;
      }
      plan.total_workspace =
          std::max(plan.total_workspace, *kernel.offset + kernel.workspace);
    }
    const Nanoseconds time = keep ? alternative.time : group.time;
    plan.total_time += time;
    plan.lower_bound += alone[first]
                            ? *choices[first].alone->LowerBoundAt(request.batch)
                            : std::min(group.lower_bound, time);
    all_undivided = all_undivided && alternative.feasible;
    undivided_time += alternative.time;
    if (plan.total_time > Nanoseconds(kMostArenaTime) ||
        undivided_time > Nanoseconds(kMostArenaTime)) {
      return Fail(Code::kOutOfRange,
                  "the times of all kernels add up to more than 36 years");
    }
  }
  plan.optimal = plan.total_time == plan.lower_bound;
  if (all_undivided) plan.undivided_time = undivided_time;
  if (!std::ranges::all_of(alone, std::identity())) {
    plan.concurrency = ToString(concurrency);
  }
  if constexpr (kSolversCheckThemselves) {
    const auto pairs = ConcurrentPairs(concurrency);
    RequireValid(ValidatePlan(plan, profile,
                              {WorkspaceMode::kShared, request.policy, pairs}));
  }
  return plan;
}

}  // namespace ucudnn
