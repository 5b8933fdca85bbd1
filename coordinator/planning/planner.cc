#include "coordinator/planning/planner.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "base/onnx/network_file.h"
#include "base/plan/even_shares.h"
#include "base/plan/prediction.h"
#include "base/text.h"
#include "solver/arena/concurrency.h"
#include "solver/joint.h"

namespace ucudnn {
namespace {

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

// The request of the ranks that get a part of the batch.
JobRequest WithoutExcluded(JobRequest request) {
  std::vector<std::string>& kinds = request.device_kinds;
  const std::vector<std::int32_t>& excluded = request.exclude_ranks;
  for (auto rank = excluded.rbegin(); rank != excluded.rend(); ++rank) {
    kinds.erase(kinds.begin() + *rank);
    if (request.memory && request.memory->budgets.size() > 1) {
      request.memory->budgets.erase(request.memory->budgets.begin() + *rank);
    }
  }
  request.exclude_ranks.clear();
  return request;
}

bool HaveOneBudget(const JobRequest& request) {
  if (!request.memory) return true;
  const std::vector<Bytes>& budgets = request.memory->budgets;
  return std::ranges::count(budgets, budgets[0]) == std::ssize(budgets);
}

// The batches at which a plan needs measurements.
struct SizeRule {
  explicit SizeRule(const JobRequest& request)
      : kinds(request.device_kinds.begin(), request.device_kinds.end()),
        alike(kinds.size() == 1 && HaveOneBudget(request)),
        // Ranks that are alike share about evenly; among unlike ranks, any may
        // get any part of the batch.
        shares(
            EvenShares(request.batch, alike ? request.device_kinds.size() : 1)),
        // An adaptive measurement covers the divisions of its batch, but not
        // the shares that unlike ranks may get.
        policy(request.policy != BatchPolicy::kAdaptive ? request.policy
               : alike ? BatchPolicy::kUndivided
                       : BatchPolicy::kPowerOfTwo) {}

  // Of each kind.
  std::set<BatchSize> Sizes() const {
    std::set<BatchSize> sizes;
    for (const BatchSize batch : shares) AddSizes(batch, policy, &sizes);
    return sizes;
  }

  const std::set<std::string> kinds;
  const bool alike;  // whether all ranks are
  const std::vector<BatchSize> shares;
  const BatchPolicy policy;
};

std::set<std::string> ProblemsOf(const Network& network,
                                 const JobRequest& request) {
  std::set<std::string> problems;
  for (const Kernel& kernel :
       KernelsOf(network, request.precision, request.layout)) {
    problems.insert(ToString(kernel.problem));
  }
  return problems;
}

// Empty if the problem was not measured.
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

Result<JointKind> KindOf(const Network& network, const JobRequest& request,
                         const KindProfiles& profiles,
                         const PlainMemory& memory,
                         const std::optional<Concurrency>& concurrency,
                         const std::string& name) {
  JointKind kind;
  kind.concurrency = concurrency;
  kind.workspace_limit = request.KernelLimit();
  kind.policy = request.policy;
  UCUDNN_ASSIGN_OR_RETURN(kind.kernels,
                          ProfileOf(network, request, profiles, name));
  const auto device = memory.devices.find(name);
  if (device != memory.devices.end()) {
    kind.memory = device->second;
    kind.needs = memory.live;
  }
  return kind;
}

// Whether an iteration of so many images fits into the kind's memory, at least
// without workspace.
bool HasRoom(const JointKind& kind, std::size_t batch) {
  return kind.needs.empty() || kind.needs[batch] <= kind.memory;
}

// Sets the kinds' times of the tasks that are not convolutions, and limits
// shares to those at which they are known. Where a kind lacks them, no kind has
// them, since sums of unlike tasks do not compare: then returns why.
std::string AddOthers(const StepTasks& tasks, const JobRequest& request,
                      const KindProfiles& profiles,
                      const std::vector<std::string>& names,
                      JointProblem* problem) {
  if (!tasks.measured()) return tasks.unknown;
  std::vector<std::vector<std::optional<Nanoseconds>>> times;
  std::set<BatchSize> known;
  for (const Need& need : NeedsOf(tasks, request)) known.insert(need.batch);
  for (const std::string& name : names) {
    times.push_back(TimesOf(tasks,
                            PointsOf(ProfilesOf(profiles, name), tasks.problem),
                            request.batch));
    for (std::size_t b = 1; b < times.back().size(); ++b) {
      if (problem->shares.empty() && times.back()[b]) {
        known.emplace(static_cast<std::int64_t>(b));
      }
    }
  }
  std::vector<std::string> without;
  for (std::size_t k = 0; k < names.size(); ++k) {
    const auto lacking = std::ranges::find_if(known, [&](BatchSize batch) {
      const auto b = static_cast<std::size_t>(batch.count());
      return !times[k][b] && HasRoom(problem->kinds[k], b);
    });
    if (lacking != known.end()) {
      without.push_back(
          fmt::format("{} at {} images", names[k], lacking->count()));
    }
  }
  if (!without.empty()) {
    return fmt::format("tasks other than convolutions are not measured of {}",
                       fmt::join(without, ", "));
  }
  if (problem->shares.empty())
    problem->shares.assign(known.begin(), known.end());
  for (std::size_t k = 0; k < names.size(); ++k) {
    for (const auto& time : times[k]) {
      problem->kinds[k].others.push_back(time.value_or(Nanoseconds(0)));
    }
  }
  return {};
}

// "8 images on KIND with 10 GiB": the most that fit, of each kind that has a
// plan for more.
std::string RoomText(const JointProblem& problem,
                     const std::vector<std::string>& names) {
  std::vector<std::string> rooms;
  for (std::size_t k = 0; k < problem.kinds.size(); ++k) {
    const JointKind& kind = problem.kinds[k];
    if (kind.needs.empty()) continue;
    const auto times = IterationTimes(kind, problem.batch, problem.shares);
    if (!times) continue;
    std::int64_t most = 0;
    bool exceeded = false;
    for (const BatchCost& cost : *times) {
      const bool fits = cost.memory <= kind.memory;
      if (fits) most = cost.batch.count();
      exceeded = exceeded || !fits;
    }
    if (!exceeded) continue;
    rooms.push_back(fmt::format("{} images on {} with {}", most, names[k],
                                HumanBytes(kind.memory)));
  }
  return fmt::format("{}", fmt::join(rooms, ", "));
}

// The error of SolveJoint, with what memory has to do with it.
Error WithRoom(const JointProblem& problem,
               const std::vector<std::string>& names, Error error) {
  const std::string room = RoomText(problem, names);
  if (error.code != Code::kFailedPrecondition || room.empty()) return error;
  error.message += fmt::format(
      "; in memory, an iteration has room for {}: `--memory-budget` plans "
      "larger shares with memory plans",
      room);
  return error;
}

// The host's time to enqueue all micro-batches; those without a measured time
// count as 0.
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

// What a rank gets that the solver gave this plan; its other tasks take
// `other`.
SharedValue<WorkspacePlan> Completed(WorkspacePlan plan,
                                     const std::vector<Kernel>& kernels,
                                     const JobRequest& request,
                                     Nanoseconds other) {
  plan.other_time = other;
  plan.total_time += other;
  plan.lower_bound += other;
  if (plan.undivided_time) *plan.undivided_time += other;
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    plan.kernels[k].problem = kernels[k].problem;
  }
  if (request.total_workspace > Bytes(0) && !request.concurrent) {
    ShareArena(&plan);
  }
  return plan;
}

// Sets the predicted time, the bound and the undivided time of the slowest
// rank.
void AddTimes(JobPlan* plan) {
  plan->undivided = Nanoseconds(0);
  plan->optimal = true;
  for (const RankPlan& rank : plan->ranks) {
    if (rank.batch == BatchSize(0)) continue;
    const WorkspacePlan& workspace = *rank.workspace;
    plan->predicted = std::max(plan->predicted, workspace.total_time);
    plan->lower_bound = std::max(plan->lower_bound, workspace.lower_bound);
    plan->optimal = plan->optimal && workspace.optimal;
    plan->undivided = plan->undivided && workspace.undivided_time
                          ? std::max(plan->undivided, workspace.undivided_time)
                          : std::nullopt;
  }
}

std::string ReasonOf(const RankPlan& rank, Nanoseconds predicted) {
  if (rank.batch == BatchSize(0)) {
    return "left out: a share for it would not make the slowest rank faster";
  }
  const Nanoseconds slack = predicted - rank.workspace->total_time;
  return slack.count() == 0
             ? "the slowest rank, which the others wait for"
             : fmt::format("ends {} before the slowest rank", HumanTime(slack));
}

// What the plan's times count. `lacking` is why it is not whole steps.
std::string TimesNote(const JobPlan& plan, const PlainMemory& memory,
                      const std::string& lacking) {
  if (!CountsWholeSteps(plan)) {
    return std::string(memory.live.empty() ? kPredictionNote
                                           : kConvolutionsNote) +
           (lacking.empty() ? "" : ": " + lacking);
  }
  const auto slowest = std::ranges::max_element(
      plan.ranks, {},
      [](const RankPlan& rank) { return rank.workspace->total_time; });
  const WorkspacePlan& workspace = slowest->workspace;
  return fmt::format(
      "{}; tasks other than convolutions take {} of the slowest rank's {}, "
      "{:.0f} %",
      kWholeStepsNote, HumanTime(workspace.other_time),
      HumanTime(workspace.total_time),
      100.0 * static_cast<double>(workspace.other_time.count()) /
          static_cast<double>(workspace.total_time.count()));
}

// Differs for unlike requests: names come with their lengths.
std::string TextOf(const JobRequest& request) {
  std::string text = fmt::format(
      "network {} {}\nbatch {} policy {} limit {} total {} {} {} within {} "
      "without {}",
      request.network.size(), request.network, request.batch.count(),
      Name(request.policy), request.workspace_limit.count(),
      request.total_workspace.count(), Name(request.precision),
      Name(request.layout), request.max_error,
      fmt::join(request.exclude_ranks, ","));
  for (const std::string& kind : request.device_kinds) {
    text += fmt::format("\nrank {} {}", kind.size(), kind);
  }
  if (request.concurrent) text += "\nconcurrent";
  if (!request.step.empty()) {
    text += fmt::format("\nstep {} {} all {}", request.step.size(),
                        request.step, request.all_ranks);
  }
  if (request.memory) {
    const JobMemory& memory = *request.memory;
    std::vector<std::int64_t> budgets;
    for (const Bytes budget : memory.budgets) budgets.push_back(budget.count());
    text += fmt::format("\nmemory {} {} {} {} {}", fmt::join(budgets, ","),
                        memory.policy, memory.recompute, memory.offload_weights,
                        memory.momentum);
  }
  return text;
}

// Whether it names what to plan, and a step asks for nothing of convolutions.
Status CheckSource(const JobRequest& request) {
  if (request.step.empty()) {
    if (request.all_ranks) {
      return Fail(Code::kInvalidArgument,
                  "all_ranks is true; it is accepted with step");
    }
    if (!request.network.empty()) return {};
    return Fail(Code::kInvalidArgument,
                "network is empty; the name of a registered network is "
                "accepted, or step with that of a framework's step");
  }
  const JobRequest none;
  const JobMemory memory = request.memory.value_or(JobMemory());
  const char* const given = !request.network.empty() ? "network"
                            : request.workspace_limit != none.workspace_limit
                                ? "workspace_limit_bytes"
                            : request.total_workspace != none.total_workspace
                                ? "total_workspace_bytes"
                            : request.policy != none.policy ? "batch_policy"
                            : request.precision != none.precision ? "precision"
                            : request.layout != none.layout       ? "layout"
                            : request.concurrent                  ? "concurrent"
                            : request.max_error != none.max_error ? "max_error"
                            : memory.policy != JobMemory().policy
                                ? "memory.policy"
                            : memory.offload_weights ? "memory.offload_weights"
                            : memory.momentum        ? "memory.momentum"
                                                     : nullptr;
  if (given == nullptr) return {};
  return Fail(Code::kInvalidArgument,
              "{} is given with step '{}', whose times are of whole steps; "
              "batch, device_kinds, exclude_ranks, all_ranks and the budgets "
              "and recompute of memory are accepted",
              given, Excerpt(request.step));
}

// MakePlan for a request that excludes no rank.
Result<JobPlan> PlanForAll(const Network& network, const JobRequest& request,
                           const KindProfiles& profiles,
                           const PlainMemory& memory,
                           const std::optional<Concurrency>& concurrency,
                           const StepTasks& tasks) {
  UCUDNN_CHECK(!request.device_kinds.empty());
  const std::vector<Kernel> kernels =
      KernelsOf(network, request.precision, request.layout);
  JointProblem problem;
  problem.batch = request.batch;
  // The only rank gets the whole batch.
  if (request.device_kinds.size() == 1) problem.shares = {request.batch};
  std::map<std::string, std::size_t> kinds;
  std::vector<std::string> names;
  for (const std::string& kind : request.device_kinds) {
    const auto [known, added] = kinds.try_emplace(kind, kinds.size());
    if (added) {
      names.push_back(kind);
      UCUDNN_ASSIGN_OR_RETURN(
          problem.kinds.emplace_back(),
          KindOf(network, request, profiles, memory, concurrency, kind));
    }
    problem.gpus.push_back({.kind = known->second});
  }
  const std::string lacking =
      AddOthers(tasks, request, profiles, names, &problem);
  Result<JointPlan> solved = SolveJoint(problem);
  if (!solved) {
    return tl::unexpected<Error>(
        WithRoom(problem, names, std::move(solved).error()));
  }
  const JointPlan& joint = *solved;
  JobPlan plan;
  plan.request = request;
  std::map<KindBatch, SharedValue<WorkspacePlan>> made;
  for (std::size_t r = 0; r < request.device_kinds.size(); ++r) {
    const KindBatch place(request.device_kinds[r],
                          joint.assignment.shares[r].batch);
    RankPlan& rank = plan.ranks.emplace_back(RankOf(request, r, place.second));
    if (!joint.plans[r]) continue;
    auto known = made.find(place);
    if (known == made.end()) {
      const auto& others = problem.kinds[problem.gpus[r].kind].others;
      const Nanoseconds other =
          others.empty()
              ? Nanoseconds(0)
              : others[static_cast<std::size_t>(place.second.count())];
      known = made.emplace(place,
                           Completed(*joint.plans[r], kernels, request, other))
                  .first;
    }
    rank.workspace = known->second;
  }
  AddTimes(&plan);
  plan.reasons.push_back(TimesNote(plan, memory, lacking));
  if (const std::string room = RoomText(problem, names); !room.empty()) {
    plan.reasons.push_back("memory bounds shares: room for " + room);
  }
  std::set<KindBatch> seen;
  for (RankPlan& rank : plan.ranks) {
    rank.reason = ReasonOf(rank, plan.predicted);
    // One reason is enough for ranks of the same kind and batch.
    if (!seen.emplace(rank.device_kind, rank.batch).second) continue;
    const std::string note = AccuracyNote(
        problem.kinds[kinds.at(rank.device_kind)].kernels, rank.workspace);
    if (!note.empty()) {
      plan.reasons.push_back(fmt::format(
          "{} images on {}: {}", rank.batch.count(), rank.device_kind, note));
    }
    const Nanoseconds device =
        rank.workspace->total_time - rank.workspace->other_time;
    const Nanoseconds host =
        HostTime(rank.workspace, ProfilesOf(profiles, rank.device_kind));
    if (host <= device) continue;
    plan.reasons.push_back(fmt::format(
        "{} images on {}: the host takes {} to enqueue what the device runs in "
        "{}, so a rank that does not replay it as a graph may take longer than "
        "predicted",
        rank.batch.count(), rank.device_kind, HumanTime(host),
        HumanTime(device)));
  }
  return plan;
}

}  // namespace

RankPlan RankOf(const JobRequest& request, std::size_t rank, BatchSize batch) {
  RankPlan plan;
  plan.device_kind = request.device_kinds[rank];
  plan.batch = batch;
  plan.weight = static_cast<double>(batch.count()) /
                static_cast<double>(request.batch.count());
  return plan;
}

Result<JobRequest> Canonical(JobRequest request) {
  UCUDNN_RETURN_IF_ERROR(Validate(request));
  UCUDNN_RETURN_IF_ERROR(CheckSource(request));
  // A total limit replaces the limit of each kernel, a memory budget both.
  if (request.memory) request.total_workspace = Bytes(0);
  if (request.memory || request.total_workspace > Bytes(0)) {
    request.workspace_limit = Bytes(0);
  }
  if (request.memory) {
    if (HaveOneBudget(request)) request.memory->budgets.resize(1);
  }
  return request;
}

std::int64_t NeedCount(const Network& network, const JobRequest& request) {
  const SizeRule rule(WithoutExcluded(request));
  std::int64_t sizes = 0;
  if (rule.policy == BatchPolicy::kAll) {
    // Every size up to the largest share.
    for (const BatchSize batch : rule.shares) {
      sizes = std::max<std::int64_t>(sizes, batch.count());
    }
  } else {
    sizes = static_cast<std::int64_t>(rule.Sizes().size());
  }
  return static_cast<std::int64_t>(rule.kinds.size()) * sizes *
         static_cast<std::int64_t>(ProblemsOf(network, request).size());
}

std::vector<Need> NeedsOf(const Network& network, const JobRequest& request,
                          const std::set<KindBatch>& chosen) {
  const SizeRule rule(WithoutExcluded(request));
  std::map<std::string, std::set<BatchSize>> sizes_of_kind;
  for (const std::string& kind : rule.kinds) {
    sizes_of_kind[kind] = rule.Sizes();
  }
  for (const auto& [kind, batch] : chosen) {
    if (batch.count() > 0) sizes_of_kind[kind].insert(batch);
  }
  const std::set<std::string> problems = ProblemsOf(network, request);
  TaskGoal goal;
  goal.adaptive = request.policy == BatchPolicy::kAdaptive;
  // A memory plan uses what memory is free.
  // So does a kernel that gets a part of a total use any part.
  if (goal.adaptive && !request.memory && !request.concurrent) {
    goal.limit = request.KernelLimit();
  }
  if (goal.adaptive) goal.max_error = request.max_error;
  std::vector<Need> needs;
  for (const auto& [kind, sizes] : sizes_of_kind) {
    for (const BatchSize batch : sizes) {
      for (const std::string& problem : problems) {
        needs.push_back({kind, problem, batch, goal});
      }
    }
  }
  std::stable_sort(
      needs.begin(), needs.end(),
      [](const Need& a, const Need& b) { return a.batch > b.batch; });
  return needs;
}

std::vector<Need> NeedsOf(const StepTasks& tasks, const JobRequest& request) {
  std::vector<Need> needs;
  if (!tasks.measured()) return needs;
  const SizeRule rule(WithoutExcluded(request));
  std::set<BatchSize> sizes;
  // A single rank gets the whole batch, at once unless a memory plan divides
  // it.
  const bool only_whole = request.device_kinds.size() == 1 && !request.memory;
  for (const BatchSize batch : rule.shares) {
    AddSizes(batch,
             only_whole ? BatchPolicy::kUndivided : BatchPolicy::kPowerOfTwo,
             &sizes);
  }
  for (const std::string& kind : rule.kinds) {
    for (const BatchSize batch : sizes) {
      needs.push_back({kind, tasks.problem, batch, TaskGoal()});
    }
  }
  return needs;
}

Result<Profile> ProfileOf(const Network& network, const JobRequest& request,
                          const KindProfiles& profiles,
                          const std::string& kind) {
  const ProblemProfiles& of_kind = ProfilesOf(profiles, kind);
  Profile profile;
  for (const Kernel& kernel :
       KernelsOf(network, request.precision, request.layout)) {
    KernelProfile& k = profile.kernels.emplace_back();
    k.id.network = request.network;
    k.id.layer = kernel.layer;
    k.id.op = kernel.op;
    k.id.precision = request.precision;
    k.id.layout = request.layout;
    k.points = PointsOf(of_kind, ToString(kernel.problem));
    UCUDNN_RETURN_IF_ERROR(KeepAccurate(
        request.precision, request.max_error, &k.points,
        fmt::format("{} {} on {}", kernel.layer, Name(kernel.op), kind)));
  }
  return profile;
}

Result<JobPlan> MakePlan(const Network& network, const JobRequest& request,
                         const KindProfiles& profiles,
                         const PlainMemory& memory,
                         const std::optional<Concurrency>& concurrency,
                         const StepTasks& tasks) {
  UCUDNN_CHECK(request.concurrent == concurrency.has_value());
  UCUDNN_ASSIGN_OR_RETURN(
      JobPlan plan, PlanForAll(network, WithoutExcluded(request), profiles,
                               memory, concurrency, tasks));
  if (concurrency && !concurrency->exact) {
    plan.reasons.emplace_back(
        "the network's branches are not series-parallel: some kernels that "
        "never run at once do not share workspace");
  }
  if (!memory.unknown.empty()) {
    plan.reasons.push_back("memory not considered: " + memory.unknown);
  }
  plan.request = request;
  for (const std::int32_t excluded : request.exclude_ranks) {
    RankPlan rank;
    rank.device_kind = request.device_kinds[static_cast<std::size_t>(excluded)];
    rank.reason = "excluded by the request";
    plan.ranks.insert(plan.ranks.begin() + excluded, std::move(rank));
  }
  return plan;
}

Result<Concurrency> ConcurrencyOf(const NetworkRecord& record,
                                  const Network& network,
                                  const JobRequest& request) {
  if (record.format != NetworkFormat::kOnnx) {
    return Fail(Code::kInvalidArgument,
                "concurrent: network '{}' is known by its convolutions alone, "
                "so which of them may run at once is not; an ONNX model is "
                "accepted",
                record.name);
  }
  UCUDNN_ASSIGN_OR_RETURN(
      const Graph graph,
      ParseGraph(record.source, record.name, request.batch, record.name));
  UCUDNN_ASSIGN_OR_RETURN(const PartialOrder order, ConvolutionOrder(graph));
  std::map<std::string, std::size_t> layers;
  for (const ConvLayer& layer : network.layers) {
    layers.emplace(layer.name, layers.size());
  }
  std::vector<LayerKernel> kernels;
  for (const Kernel& kernel :
       KernelsOf(network, request.precision, request.layout)) {
    kernels.push_back({layers.at(kernel.layer), kernel.op});
  }
  return OfTraining(Decompose(order), kernels);
}

std::string InputsText(const Network& network, const JobRequest& request,
                       const KindProfiles& profiles, int solver_version) {
  std::string text =
      fmt::format("solver {}\n{}", solver_version, TextOf(request));
  const auto out = std::back_inserter(text);
  for (const Kernel& kernel :
       KernelsOf(network, request.precision, request.layout)) {
    fmt::format_to(out, "\n{},{},{}", kernel.layer, Name(kernel.op),
                   ToString(kernel.problem));
  }
  for (const auto& [kind, problems] : profiles) {
    for (const auto& [problem, points] : problems) {
      fmt::format_to(out, "\n{},{}", kind, problem);
      for (const MeasuredPoint& p : points) {
        fmt::format_to(out, "\n{},{},{},{},{},{},{},{},{},{}", p.batch.count(),
                       p.algorithm.name, p.algorithm.math,
                       Name(p.algorithm.precision), p.workspace.count(),
                       p.time.count(), p.spread.count(), p.enqueue.count(),
                       p.adding.count(), p.error_ppt);
      }
    }
  }
  return text;
}

}  // namespace ucudnn
