#include "coordinator/planner.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "base/plan/even_shares.h"
#include "proto/convert.h"
#include "proto/json.h"
#include "solver/assign/assign.h"
#include "solver/joint.h"
#include "solver/knapsack/wd.h"
#include "solver/micro_batch/wr.h"

namespace ucudnn {
namespace {

// A field that names a value of `Parse`, or its default where it is empty.
template <class T>
Result<T> ParseField(std::string_view name, const std::string& text,
                     Result<T> (*parse)(std::string_view), T otherwise) {
  if (text.empty()) return otherwise;
  Result<T> value = parse(text);
  if (!value) return Within(name, value.error());
  return value;
}

// The micro-batch sizes that a mini-batch of `batch` may use.
void AddSizes(BatchSize batch, BatchPolicy policy, std::set<BatchSize>* sizes) {
  if (batch.count() == 0) return;
  sizes->insert(batch);
  if (policy == BatchPolicy::kUndivided) return;
  const std::int64_t all = policy == BatchPolicy::kAll ? 1 : 0;
  for (std::int64_t b = 1; b < batch.count(); b = all != 0 ? b + 1 : b * 2) {
    sizes->insert(BatchSize(b));
  }
}

// The points of one problem; none where nothing was measured.
const std::vector<MeasuredPoint>& PointsOf(const ProblemProfiles& profiles,
                                           const std::string& problem) {
  static const std::vector<MeasuredPoint> kNone;
  const auto found = profiles.find(problem);
  return found == profiles.end() ? kNone : found->second;
}

const ProblemProfiles& ProfilesOf(const KindProfiles& profiles,
                                  const std::string& kind) {
  static const ProblemProfiles kNone;
  const auto found = profiles.find(kind);
  return found == profiles.end() ? kNone : found->second;
}

// What was measured for an iteration's kernels.
Profile ProfileOf(const std::vector<Kernel>& kernels, const Network& network,
                  const PlanSpec& spec, const ProblemProfiles& profiles) {
  Profile profile;
  for (const Kernel& kernel : kernels) {
    KernelProfile& k = profile.kernels.emplace_back();
    k.id.network = network.name;
    k.id.layer = kernel.layer;
    k.id.op = kernel.op;
    k.id.precision = spec.precision;
    k.id.layout = spec.layout;
    k.points = PointsOf(profiles, ToString(kernel.problem));
  }
  return profile;
}

Result<WorkspacePlan> PlanRank(const Network& network, const PlanSpec& spec,
                               const ProblemProfiles& profiles,
                               BatchSize batch) {
  const std::vector<Kernel> kernels =
      KernelsOf(network, spec.precision, spec.layout);
  const Profile profile = ProfileOf(kernels, network, spec, profiles);
  const WrRequest request{batch, spec.workspace_limit, spec.policy};
  UCUDNN_ASSIGN_OR_RETURN(WorkspacePlan plan, spec.divide_workspace
                                                  ? SolveWd(profile, request)
                                                  : SolveWr(profile, request));
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    plan.kernels[i].problem = kernels[i].problem;
  }
  return plan;
}

// How long the host takes to enqueue all micro-batches, as far as that was
// noted.
Nanoseconds HostTime(const WorkspacePlan& plan,
                     const ProblemProfiles& profiles) {
  Nanoseconds time{0};
  for (const KernelPlan& kernel : plan.kernels) {
    const auto& points = PointsOf(profiles, ToString(*kernel.problem));
    for (const MicroBatch& micro : kernel.micro_batches) {
      const auto point =
          std::ranges::find_if(points, [&](const MeasuredPoint& p) {
            return p.batch == micro.batch && p.algorithm == micro.algorithm &&
                   p.workspace == micro.workspace;
          });
      if (point != points.end()) time += point->enqueue * micro.count;
    }
  }
  return time;
}

// How often each problem occurs in an iteration.
std::map<std::string, std::int64_t> CountProblems(const Network& network,
                                                  const PlanSpec& spec) {
  std::map<std::string, std::int64_t> counts;
  for (const Kernel& kernel : KernelsOf(network, spec.precision, spec.layout)) {
    ++counts[ToString(kernel.problem)];
  }
  return counts;
}

// The shares of the batch for which a division is solved.
std::vector<BatchSize> SharesToDivide(const PlanSpec& spec) {
  constexpr std::int64_t kSteps = 64;
  const std::int64_t batch = spec.batch.count();
  std::vector<BatchSize> shares = EvenShares(spec.batch, spec.kinds.size());
  const std::int64_t step = (batch + kSteps - 1) / kSteps;
  for (std::int64_t b = step; b < batch; b += step) shares.emplace_back(b);
  for (std::int64_t b = 1; b < batch; b *= 2) shares.emplace_back(b);
  shares.push_back(spec.batch);
  return shares;
}

// The time of an iteration's convolutions on one kind for every batch up to
// the whole; batches that some kernel has no plan for are left out.
Result<std::vector<BatchCost>> TimesOfKind(const Network& network,
                                           const PlanSpec& spec,
                                           const ProblemProfiles& profiles) {
  if (spec.divide_workspace) {
    JointKind kind;
    kind.kernels = ProfileOf(KernelsOf(network, spec.precision, spec.layout),
                             network, spec, profiles);
    kind.workspace_limit = spec.workspace_limit;
    kind.divide_workspace = true;
    kind.policy = spec.policy;
    return IterationTimes(kind, spec.batch, SharesToDivide(spec));
  }
  const auto batches = static_cast<std::size_t>(spec.batch.count());
  std::vector<std::optional<Nanoseconds>> total(batches + 1, Nanoseconds(0));
  for (const auto& [problem, count] : CountProblems(network, spec)) {
    UCUDNN_ASSIGN_OR_RETURN(
        const WrCurve curve,
        SolveWrCurve(PointsOf(profiles, problem), spec.batch,
                     spec.workspace_limit, spec.policy));
    for (std::size_t b = 1; b <= batches; ++b) {
      const auto time = curve.TimeAt(BatchSize(std::int64_t(b)));
      if (!total[b]) continue;
      if (time) {
        *total[b] += *time * count;
      } else {
        total[b].reset();
      }
    }
  }
  std::vector<BatchCost> times;
  for (std::size_t b = 1; b <= batches; ++b) {
    if (total[b]) times.push_back({BatchSize(std::int64_t(b)), *total[b], {}});
  }
  return times;
}

}  // namespace

Result<PlanSpec> ParsePlanRequest(const v1::PlanRequest& request) {
  PlanSpec spec;
  if (request.network().empty()) {
    return Fail(Code::kInvalidArgument,
                "network is empty; the name of a registered network is "
                "accepted");
  }
  spec.network = request.network();
  if (request.batch() < 1 || request.batch() > kMaxBatchSize.count()) {
    return Fail(Code::kInvalidArgument, "batch is {}; 1 to {} is accepted",
                request.batch(), kMaxBatchSize.count());
  }
  spec.batch = BatchSize(request.batch());
  if (request.device_kinds_size() > kMaxRanks) {
    return Fail(Code::kInvalidArgument,
                "device_kinds has {} entries; up to {} are accepted",
                request.device_kinds_size(), kMaxRanks);
  }
  spec.kinds.assign(request.device_kinds().begin(),
                    request.device_kinds().end());
  if (request.workspace_limit_bytes() < 0) {
    return Fail(Code::kInvalidArgument,
                "workspace_limit_bytes is {}; at least 0 is accepted",
                request.workspace_limit_bytes());
  }
  if (request.total_workspace_bytes() < 0) {
    return Fail(Code::kInvalidArgument,
                "total_workspace_bytes is {}; at least 0 is accepted",
                request.total_workspace_bytes());
  }
  spec.divide_workspace = request.total_workspace_bytes() > 0;
  spec.workspace_limit =
      Bytes(spec.divide_workspace ? request.total_workspace_bytes()
                                  : request.workspace_limit_bytes());
  UCUDNN_ASSIGN_OR_RETURN(spec.policy,
                          ParseField("batch_policy", request.batch_policy(),
                                     &ParseBatchPolicy, spec.policy));
  UCUDNN_ASSIGN_OR_RETURN(spec.precision,
                          ParseField("precision", request.precision(),
                                     &ParsePrecision, spec.precision));
  UCUDNN_ASSIGN_OR_RETURN(spec.layout, ParseField("layout", request.layout(),
                                                  &ParseLayout, spec.layout));
  return spec;
}

v1::PlanRequest ToProto(const PlanSpec& spec) {
  v1::PlanRequest request;
  request.set_network(spec.network);
  request.set_batch(spec.batch.count());
  for (const std::string& kind : spec.kinds) request.add_device_kinds(kind);
  if (spec.divide_workspace) {
    request.set_total_workspace_bytes(spec.workspace_limit.count());
  } else {
    request.set_workspace_limit_bytes(spec.workspace_limit.count());
  }
  request.set_batch_policy(std::string(Name(spec.policy)));
  request.set_precision(std::string(Name(spec.precision)));
  request.set_layout(std::string(Name(spec.layout)));
  return request;
}

Result<std::vector<BatchSize>> AssignBatches(const Network& network,
                                             const PlanSpec& spec,
                                             const KindProfiles& profiles) {
  UCUDNN_CHECK(!spec.kinds.empty());
  if (spec.kinds.size() == 1) return std::vector<BatchSize>{spec.batch};
  AssignProblem problem;
  problem.batch = spec.batch;
  std::map<std::string, std::size_t> tables;
  for (const std::string& kind : spec.kinds) {
    const auto [table, added] = tables.try_emplace(kind, tables.size());
    if (added) {
      UCUDNN_ASSIGN_OR_RETURN(
          std::vector<BatchCost> times,
          TimesOfKind(network, spec, ProfilesOf(profiles, kind)));
      problem.tables.push_back(std::move(times));
    }
    problem.gpus.push_back({.table = table->second});
  }
  UCUDNN_ASSIGN_OR_RETURN(const Assignment assignment,
                          SolveAssignment(problem));
  std::vector<BatchSize> batches;
  for (const Share& share : assignment.shares) batches.push_back(share.batch);
  return batches;
}

std::vector<Need> NeedsOf(const Network& network, const PlanSpec& spec,
                          const std::set<KindBatch>& chosen) {
  std::map<std::string, std::set<BatchSize>> sizes_of_kind;
  const std::set<std::string> kinds(spec.kinds.begin(), spec.kinds.end());
  // Ranks of one kind will share about evenly; of unlike ones, any may get
  // any part of the batch.
  const std::vector<BatchSize> even = EvenShares(
      spec.batch, kinds.size() == 1 ? spec.kinds.size() : std::size_t{1});
  // Adaptive measuring finds what divides a batch; the parts that unlike ranks
  // may get are batches of their own.
  const BatchPolicy policy = spec.policy != BatchPolicy::kAdaptive ? spec.policy
                             : kinds.size() == 1 ? BatchPolicy::kUndivided
                                                 : BatchPolicy::kPowerOfTwo;
  for (const std::string& kind : kinds) {
    for (const BatchSize batch : even) {
      AddSizes(batch, policy, &sizes_of_kind[kind]);
    }
  }
  for (const auto& [kind, batch] : chosen) {
    if (batch.count() > 0) sizes_of_kind[kind].insert(batch);
  }
  const auto problems = CountProblems(network, spec);
  TaskGoal goal;
  goal.adaptive = spec.policy == BatchPolicy::kAdaptive;
  // Of a workspace to be divided each kernel may get any part.
  if (goal.adaptive && !spec.divide_workspace)
    goal.limit = spec.workspace_limit;
  std::vector<Need> needs;
  for (const auto& [kind, sizes] : sizes_of_kind) {
    for (const BatchSize batch : sizes) {
      for (const auto& [problem, count] : problems) {
        needs.push_back({kind, problem, batch, goal});
      }
    }
  }
  std::stable_sort(
      needs.begin(), needs.end(),
      [](const Need& a, const Need& b) { return a.batch > b.batch; });
  return needs;
}

Result<v1::Plan> MakePlan(const Network& network, const PlanSpec& spec,
                          const KindProfiles& profiles) {
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<BatchSize> batches,
                          AssignBatches(network, spec, profiles));
  v1::Plan plan;
  *plan.mutable_request() = ToProto(spec);
  // Ranks of one kind and batch share one solution.
  std::map<std::pair<std::string, BatchSize>, WorkspacePlan> solved;
  Nanoseconds predicted{0};
  Nanoseconds lower_bound{0};
  std::optional<Nanoseconds> undivided = Nanoseconds(0);
  bool optimal = true;
  for (std::size_t r = 0; r < spec.kinds.size(); ++r) {
    v1::RankPlan& rank = *plan.add_ranks();
    rank.set_rank(static_cast<std::int32_t>(r));
    rank.set_device_kind(spec.kinds[r]);
    rank.set_batch(batches[r].count());
    rank.set_weight(static_cast<double>(batches[r].count()) /
                    static_cast<double>(spec.batch.count()));
    if (batches[r].count() == 0) {
      rank.set_reason("left out: with it the slowest rank is no faster");
      continue;
    }
    const std::pair key(spec.kinds[r], batches[r]);
    auto found = solved.find(key);
    if (found == solved.end()) {
      Result<WorkspacePlan> rank_plan = PlanRank(
          network, spec, ProfilesOf(profiles, spec.kinds[r]), batches[r]);
      if (!rank_plan) {
        return Within(fmt::format("rank {} on {}", r, spec.kinds[r]),
                      rank_plan.error());
      }
      found = solved.emplace(key, *std::move(rank_plan)).first;
    }
    const WorkspacePlan& workspace = found->second;
    *rank.mutable_workspace() = ToProto(workspace);
    predicted = std::max(predicted, workspace.total_time);
    lower_bound = std::max(lower_bound, workspace.lower_bound);
    optimal = optimal && workspace.optimal;
    undivided = undivided && workspace.undivided_time
                    ? std::max(undivided, workspace.undivided_time)
                    : std::nullopt;
  }
  for (const auto& [key, workspace] : solved) {
    const auto& [kind, batch] = key;
    const Nanoseconds host = HostTime(workspace, ProfilesOf(profiles, kind));
    if (host <= workspace.total_time) continue;
    plan.add_reasons(fmt::format(
        "{} images on {}: the host takes {} to enqueue what takes the device "
        "{}, so that a rank may wait for its host and take longer than "
        "predicted",
        batch.count(), kind, HumanTime(host), HumanTime(workspace.total_time)));
  }
  for (v1::RankPlan& rank : *plan.mutable_ranks()) {
    if (rank.batch() == 0) continue;
    const Nanoseconds slack =
        predicted - Nanoseconds(rank.workspace().total_time_ns());
    rank.set_reason(
        slack.count() == 0
            ? "no assignment lets the slowest rank end earlier"
            : fmt::format("ends {} before the slowest rank", HumanTime(slack)));
  }
  plan.set_predicted_ns(predicted.count());
  plan.set_lower_bound_ns(lower_bound.count());
  plan.set_optimal(optimal);
  if (undivided) plan.set_undivided_ns(undivided->count());
  return plan;
}

std::string InputsText(const Network& network, const PlanSpec& spec,
                       const KindProfiles& profiles) {
  std::string text = ToJson(ToProto(spec)).dump();
  const auto out = std::back_inserter(text);
  for (const Kernel& kernel : KernelsOf(network, spec.precision, spec.layout)) {
    fmt::format_to(out, "\n{},{},{}", kernel.layer, Name(kernel.op),
                   ToString(kernel.problem));
  }
  for (const auto& [kind, problems] : profiles) {
    for (const auto& [problem, points] : problems) {
      fmt::format_to(out, "\n{},{}", kind, problem);
      for (const MeasuredPoint& p : points) {
        fmt::format_to(out, "\n{},{},{},{},{},{},{},{}", p.batch.count(),
                       p.algorithm.name, p.algorithm.math,
                       Name(p.algorithm.precision), p.workspace.count(),
                       p.time.count(), p.spread.count(), p.enqueue.count());
      }
    }
  }
  return text;
}

}  // namespace ucudnn
