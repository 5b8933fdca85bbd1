#include "solver/knapsack/wd.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <utility>

#include "solver/check/validate.h"
#include "solver/check/validate_choice.h"
#include "solver/knapsack/mckp.h"

namespace ucudnn {
namespace {

// Groups the kernels of a profile that have the same points.
struct Groups {
  std::vector<std::size_t> group_of;  // of each kernel
  std::vector<std::size_t> first;     // each group's first kernel
};

std::uint64_t Fingerprint(const std::vector<MeasuredPoint>& points) {
  std::uint64_t hash = points.size();
  const auto mix = [&hash](std::int64_t value) {
    hash = (hash ^ static_cast<std::uint64_t>(value)) * 0x9E3779B97F4A7C15U;
    hash ^= hash >> 29;
  };
  for (const MeasuredPoint& point : points) {
    mix(point.batch.count());
    mix(point.workspace.count());
    mix(point.time.count());
  }
  return hash;
}

Groups GroupAlike(const Profile& profile) {
  Groups groups;
  std::unordered_multimap<std::uint64_t, std::size_t> known;
  for (std::size_t k = 0; k < profile.kernels.size(); ++k) {
    const auto& points = profile.kernels[k].points;
    const std::uint64_t fingerprint = Fingerprint(points);
    std::size_t group = groups.first.size();
    const auto [begin, end] = known.equal_range(fingerprint);
    for (auto it = begin; it != end; ++it) {
      if (profile.kernels[groups.first[it->second]].points == points) {
        group = it->second;
      }
    }
    if (group == groups.first.size()) {
      known.emplace(fingerprint, group);
      groups.first.push_back(k);
    }
    groups.group_of.push_back(group);
  }
  return groups;
}

// The fronts of all groups under one policy; absent if nothing fits.
Result<std::vector<std::optional<ParetoFront>>> Fronts(
    const Profile& profile, const Groups& groups, const WrRequest& request) {
  std::vector<std::optional<ParetoFront>> fronts;
  fronts.reserve(groups.first.size());
  for (const std::size_t k : groups.first) {
    const KernelProfile& kernel = profile.kernels[k];
    auto front = SolvePareto(kernel.points, request);
    if (front) {
      fronts.emplace_back(*std::move(front));
    } else if (front.error().code == Code::kFailedPrecondition) {
      fronts.emplace_back();
    } else {
      return Within(LabelOf(kernel.id), std::move(front).error());
    }
  }
  return fronts;
}

// Why there is no plan: one kernel has none at all, or all together need more
// than the limit.
Error WhyNoWdPlan(const Profile& profile, const WrRequest& request) {
  std::int64_t total = 0;
  for (const KernelProfile& kernel : profile.kernels) {
    const std::optional<Bytes> least =
        SmallestLimit(kernel.points, request.batch, request.policy);
    if (!least.has_value()) {
      return Within(LabelOf(kernel.id), WhyNoWrPlan(kernel.points, request))
          .value();
    }
    if (__builtin_add_overflow(total, least->count(), &total)) {
      return {Code::kOutOfRange,
              "the smallest workspaces of all kernels add up to more than "
              "8 EiB"};
    }
  }
  return {
      Code::kFailedPrecondition,
      fmt::format("the kernels' segments for batch {} do not fit into {} "
                  "together; the smallest total limit that would do is {}",
                  request.batch.count(), FormatBytes(request.workspace_limit),
                  FormatBytes(Bytes(total))),
      total};
}

// The offset of each segment: the most aligned sizes come first.
void PlaceSegments(std::vector<KernelPlan>* kernels) {
  const auto alignment = [](Bytes size) {
    return size.count() == 0
               ? 64
               : std::countr_zero(static_cast<std::uint64_t>(size.count()));
  };
  std::vector<std::size_t> order(kernels->size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(), [&](std::size_t k) {
    return alignment((*kernels)[k].workspace);
  });
  Bytes offset;
  for (const std::size_t k : order) {
    (*kernels)[k].offset = offset;
    offset += (*kernels)[k].workspace;
  }
}

// The kernels' times in the best workspace division without divided batches;
// absent if they do not fit.
Status AddUndivided(const Profile& profile, const Groups& groups,
                    const WrRequest& request, const Limits& limits,
                    WorkspacePlan* plan) {
  WrRequest undivided = request;
  undivided.policy = BatchPolicy::kUndivided;
  UCUDNN_ASSIGN_OR_RETURN(const auto fronts,
                          Fronts(profile, groups, undivided));
  std::vector<std::span<const FrontPoint>> given;
  std::vector<std::size_t> kernels;
  for (std::size_t k = 0; k < profile.kernels.size(); ++k) {
    const auto& front = fronts[groups.group_of[k]];
    if (!front.has_value()) continue;
    given.emplace_back(front->points());
    kernels.push_back(k);
  }
  const auto division = DivideWorkspace(given, request.workspace_limit, limits);
  if (!division) {
    if (division.error().code == Code::kFailedPrecondition) return {};
    return tl::unexpected<Error>(division.error());
  }
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    plan->kernels[kernels[i]].undivided_time =
        given[i][division->point[i]].time;
  }
  if (kernels.size() == profile.kernels.size()) {
    plan->undivided_time = division->time;
  }
  return {};
}

}  // namespace

Result<Division> DivideWorkspace(
    std::span<const std::span<const FrontPoint>> fronts, Bytes limit,
    const Limits& limits) {
  // One class for each front that is not the same memory as an earlier one.
  std::unordered_map<const FrontPoint*, std::size_t> known;
  std::vector<std::vector<MckpItem>> items;
  std::vector<std::span<const FrontPoint>> distinct;
  std::vector<std::size_t> class_of;
  class_of.reserve(fronts.size());
  std::vector<std::int64_t> counts;
  for (const auto& front : fronts) {
    if (front.empty()) {
      return Fail(Code::kInvalidArgument, "the front of kernel {} is empty",
                  class_of.size());
    }
    auto [at, fresh] = known.try_emplace(front.data(), distinct.size());
    if (!fresh && distinct[at->second].size() != front.size()) {
      at->second = distinct.size();
      fresh = true;
    }
    if (fresh) {
      distinct.push_back(front);
      counts.push_back(0);
      std::vector<MckpItem>& added = items.emplace_back();
      added.reserve(front.size());
      for (const FrontPoint& point : front) {
        added.push_back({point.time.count(), point.workspace.count()});
      }
    }
    class_of.push_back(at->second);
    ++counts[at->second];
  }
  std::vector<MckpClass> classes;
  classes.reserve(items.size());
  for (std::size_t c = 0; c < items.size(); ++c) {
    classes.push_back({items[c], counts[c]});
  }
  auto solution = SolveMckp(classes, limit.count(), limits);
  if (!solution) {
    if (solution.error().code != Code::kFailedPrecondition) {
      return tl::unexpected<Error>(std::move(solution).error());
    }
    Bytes least;
    for (const auto& front : fronts) {
      least += std::ranges::min(front, {}, &FrontPoint::workspace).workspace;
    }
    return FailBelow(least.count(),
                     "the segments do not fit into {} together; the smallest "
                     "total limit that would do is {}",
                     FormatBytes(limit), FormatBytes(least));
  }
  Division division;
  division.time = Nanoseconds(solution->cost);
  division.lower_bound = Nanoseconds(solution->lower_bound);
  division.optimal = solution->optimal;
  division.workspace = Bytes(solution->weight);
  // A class's copies are its kernels, in order.
  std::vector<std::size_t> next(classes.size(), 0);
  for (std::size_t c = 1; c < classes.size(); ++c) {
    next[c] = next[c - 1] + static_cast<std::size_t>(counts[c - 1]);
  }
  division.point.reserve(fronts.size());
  for (const std::size_t c : class_of) {
    division.point.push_back(solution->choice[next[c]++]);
  }
  if (kSolversCheckThemselves)
    RequireValid(ValidateDivision(division, fronts, limit));
  return division;
}

Result<WorkspacePlan> SolveWd(const Profile& profile, const WrRequest& request,
                              const Limits& limits) {
  const Divide divide = [&limits](const auto& fronts, Bytes limit) {
    return DivideWorkspace(fronts, limit, limits);
  };
  return SolveWd(profile, request, divide, limits);
}

Result<WorkspacePlan> SolveWd(const Profile& profile, const WrRequest& request,
                              const Divide& divide, const Limits& limits) {
  if (profile.kernels.empty()) {
    return Fail(Code::kInvalidArgument, "there is no kernel to plan for");
  }
  const Groups groups = GroupAlike(profile);
  UCUDNN_ASSIGN_OR_RETURN(const auto fronts, Fronts(profile, groups, request));
  std::vector<std::span<const FrontPoint>> given;
  for (const std::size_t group : groups.group_of) {
    if (!fronts[group].has_value()) {
      return tl::unexpected<Error>(WhyNoWdPlan(profile, request));
    }
    given.emplace_back(fronts[group]->points());
  }
  auto division = divide(given, request.workspace_limit);
  if (!division) {
    if (division.error().code == Code::kFailedPrecondition) {
      return tl::unexpected<Error>(WhyNoWdPlan(profile, request));
    }
    return tl::unexpected<Error>(std::move(division).error());
  }
  WorkspacePlan plan;
  plan.batch = request.batch;
  plan.workspace_limit = request.workspace_limit;
  plan.total_time = division->time;
  plan.lower_bound = division->lower_bound;
  plan.optimal = division->optimal;
  plan.total_workspace = division->workspace;
  for (std::size_t k = 0; k < profile.kernels.size(); ++k) {
    const KernelId& id = profile.kernels[k].id;
    const ParetoFront& front = *fronts[groups.group_of[k]];
    const std::uint32_t point = division->point[k];
    KernelPlan kernel;
    kernel.layer = id.layer;
    kernel.op = id.op;
    kernel.precision = id.precision;
    kernel.layout = id.layout;
    kernel.time = front.points()[point].time;
    kernel.workspace = front.points()[point].workspace;
    kernel.micro_batches = front.PlanAt(point);
    plan.kernels.push_back(std::move(kernel));
  }
  PlaceSegments(&plan.kernels);
  UCUDNN_RETURN_IF_ERROR(AddUndivided(profile, groups, request, limits, &plan));
  if (kSolversCheckThemselves)
    RequireValid(ValidatePlan(plan, profile,
                              {WorkspaceMode::kDivision, request.policy, {}}));
  return plan;
}

}  // namespace ucudnn
