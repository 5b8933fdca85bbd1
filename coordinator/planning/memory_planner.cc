#include "coordinator/planning/memory_planner.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <stop_token>
#include <utility>
#include <vector>

#include "base/onnx/network_file.h"
#include "base/plan/plan.h"
#include "base/training/build.h"
#include "base/training/costs.h"
#include "base/training/json.h"
#include "coordinator/planning/solve_until.h"
#include "solver/joint_memory.h"
#include "solver/memory/policies.h"

namespace ucudnn {
namespace {

using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

// Devices of one kind that may use as much memory.
struct Place {
  std::string kind;
  Bytes budget;

  std::string Text() const {
    return fmt::format("{} with {}", kind, HumanBytes(budget));
  }
  friend bool operator==(const Place&, const Place&) = default;
};

// Who shares the batch, and what the solver is asked.
struct Sharing {
  std::vector<Place> places;       // of each of the problem's kinds
  std::vector<std::size_t> ranks;  // of each of its GPUs
  JointMemoryProblem problem;
  std::set<std::string> estimated;  // kinds whose other tasks are not measured
};

Result<Place> PlaceOf(const JobRequest& request, std::size_t rank,
                      const DeviceModels& models) {
  const std::string& kind = request.device_kinds[rank];
  const Bytes memory = models.at(kind).memory;
  const Bytes budget = request.memory->BudgetOf(rank);
  if (budget > memory) {
    return Fail(Code::kInvalidArgument,
                "memory: the budget of rank {} is {}; up to {}, which devices "
                "of kind {} have, is accepted",
                rank, FormatBytes(budget), FormatBytes(memory), kind);
  }
  return Place{kind, budget == Bytes(0) ? memory : budget};
}

// The training graph on a place, and what was measured of its convolutions.
Result<JointMemoryKind> KindAt(const Place& place, const NetworkRecord& network,
                               const JobRequest& request,
                               const KindProfiles& profiles,
                               const DeviceModels& models) {
  UCUDNN_ASSIGN_OR_RETURN(
      const Graph graph,
      ParseGraph(network.source, network.name, request.batch, network.name));
  TrainingOptions options;
  options.precision = request.precision;
  options.momentum = request.memory->momentum;
  options.running_statistics = true;
  // Ranks sum gradients first, also with ranks that get no part.
  options.updates_at_end = request.device_kinds.size() > 1;
  JointMemoryKind kind;
  kind.budget = place.budget;
  UCUDNN_ASSIGN_OR_RETURN(kind.graph, BuildTrainingGraph(graph, options));
  UCUDNN_RETURN_IF_ERROR(SetDevice(models.at(place.kind), &kind.graph));
  UCUDNN_ASSIGN_OR_RETURN(
      const Network convolutions,
      ParseNetwork(network.source, network.name, request.batch, network.name));
  UCUDNN_ASSIGN_OR_RETURN(kind.convolutions, ProfileOf(convolutions, request,
                                                       profiles, place.kind));
  std::erase_if(kind.convolutions.kernels,
                [](const KernelProfile& k) { return k.points.empty(); });
  return kind;
}

// Whether the kind has measured times of its other tasks.
bool SetMeasured(const StepTasks& tasks, const std::string& name,
                 const JobRequest& request, const KindProfiles& profiles,
                 JointMemoryKind* kind) {
  if (!tasks.measured() || !profiles.contains(name)) return false;
  const auto points = profiles.at(name).find(tasks.problem);
  if (points == profiles.at(name).end()) return false;
  std::vector<BatchSize> needed;
  for (const Need& need : NeedsOf(tasks, request)) {
    if (need.kind == name) needed.push_back(need.batch);
  }
  return SetTimes(tasks, points->second, needed, &kind->graph,
                  &kind->convolutions);
}

Result<Sharing> SharingOf(const NetworkRecord& network,
                          const JobRequest& request,
                          const KindProfiles& profiles,
                          const DeviceModels& models, const StepTasks& tasks) {
  Sharing sharing;
  JointMemoryProblem& problem = sharing.problem;
  problem.batch = request.batch;
  UCUDNN_ASSIGN_OR_RETURN(problem.policy,
                          FindMemoryPolicy(request.memory->policy));
  problem.request.recompute = request.memory->recompute;
  problem.request.offload_weights = request.memory->offload_weights;
  for (std::size_t r = 0; r < request.device_kinds.size(); ++r) {
    if (std::ranges::binary_search(request.exclude_ranks,
                                   static_cast<std::int32_t>(r))) {
      continue;
    }
    UCUDNN_ASSIGN_OR_RETURN(const Place place, PlaceOf(request, r, models));
    const auto known = std::ranges::find(sharing.places, place);
    sharing.ranks.push_back(r);
    problem.gpus.push_back(
        static_cast<std::size_t>(known - sharing.places.begin()));
    if (known != sharing.places.end()) continue;
    sharing.places.push_back(place);
    UCUDNN_ASSIGN_OR_RETURN(problem.kinds.emplace_back(),
                            KindAt(place, network, request, profiles, models));
    if (!SetMeasured(tasks, place.kind, request, profiles,
                     &problem.kinds.back())) {
      sharing.estimated.insert(place.kind);
    }
  }
  return sharing;
}

// Why there is no plan: with the error of the largest even share on the place
// with the least memory, which names a budget that would do for it.
Error WhyNothingFits(const Sharing& sharing, Error error) {
  if (error.code != Code::kFailedPrecondition) return error;
  const JointMemoryProblem& problem = sharing.problem;
  const auto least =
      std::ranges::min_element(sharing.places, {}, &Place::budget);
  const JointMemoryKind& kind =
      problem.kinds[static_cast<std::size_t>(least - sharing.places.begin())];
  const auto ranks = std::ssize(problem.gpus);
  const BatchSize share((problem.batch.count() + ranks - 1) / ranks);
  MemoryRequest request = problem.request;
  request.budget = kind.budget;
  const Result<MemoryPlan> plan =
      PlanMemory(AtBatch(kind, share), request, *problem.policy);
  if (plan) return error;
  Error why = plan.error();
  why.message = fmt::format("{} images on {}: {}", share.count(), least->Text(),
                            why.message);
  if (ranks > 1)
    why.message = error.message + "; an even share, " + why.message;
  return why;
}

// The times of a memory plan, as those of a rank's part.
WorkspacePlan PartOf(const MemoryPlan& plan, BatchSize batch) {
  WorkspacePlan part;
  part.batch = batch;
  part.total_time = plan.time;
  part.lower_bound = plan.lower_bound;
  part.optimal = plan.time == plan.lower_bound;
  return part;
}

std::vector<std::string> ReasonsOf(const Sharing& sharing,
                                   const JointMemoryPlan& joint,
                                   const StepTasks& tasks,
                                   milliseconds time_limit) {
  std::vector<std::string> reasons;
  if (joint.cut_off) {
    reasons.push_back(fmt::format(
        "the search for shares and memory plans was cut off after {}; the "
        "bound is {}",
        HumanTime(time_limit), HumanTime(joint.least)));
  } else {
    reasons.push_back(fmt::format(
        "no shares are faster under memory plans of policy {}; under any, none "
        "takes less than {}",
        sharing.problem.policy->name, HumanTime(joint.least)));
  }
  if (joint.makespan_whole) {
    reasons.push_back(fmt::format("with all of each share in memory: {}",
                                  HumanTime(*joint.makespan_whole)));
  } else if (!joint.cut_off) {
    reasons.emplace_back(
        "no shares that fit into memory as a whole add up to the batch");
  }
  if (!sharing.estimated.empty()) {
    reasons.push_back(fmt::format(
        "tasks other than convolutions take what the device model of {} "
        "estimates{}",
        fmt::join(sharing.estimated, ", "),
        tasks.unknown.empty() ? "" : ": " + tasks.unknown));
  }
  for (std::size_t k = 0; k < sharing.places.size(); ++k) {
    const std::string note =
        AccuracyNote(sharing.problem.kinds[k].convolutions);
    if (note.empty()) continue;
    reasons.push_back(fmt::format("{}: {}", sharing.places[k].Text(), note));
  }
  return reasons;
}

}  // namespace

Status CheckMemoryRequest(const JobRequest& request) {
  const Result<const MemoryPolicy*> policy =
      FindMemoryPolicy(request.memory->policy);
  if (policy) return {};
  return Fail(Code::kInvalidArgument, "memory.policy: {}",
              policy.error().message);
}

Result<JobPlan> MakeMemoryPlans(const NetworkRecord& network,
                                const JobRequest& request,
                                const KindProfiles& profiles,
                                const DeviceModels& models,
                                milliseconds time_limit,
                                const StepTasks& tasks) {
  const auto deadline = SteadyClock::now() + time_limit;
  UCUDNN_ASSIGN_OR_RETURN(Sharing sharing,
                          SharingOf(network, request, profiles, models, tasks));
  const Result<JointMemoryPlan> joint =
      SolveUntil(deadline, [&](std::stop_token stop) {
        sharing.problem.request.stop = std::move(stop);
        return SolveJointMemory(sharing.problem);
      });
  if (!joint) {
    return tl::unexpected<Error>(WhyNothingFits(sharing, joint.error()));
  }
  JobPlan plan;
  plan.request = request;
  plan.predicted = joint->assignment.makespan;
  plan.lower_bound = joint->least;
  plan.optimal = plan.predicted == plan.lower_bound;
  plan.cut_off = joint->cut_off;
  plan.reasons = ReasonsOf(sharing, *joint, tasks, time_limit);
  for (std::size_t r = 0; r < request.device_kinds.size(); ++r) {
    plan.ranks.push_back(RankOf(request, r, BatchSize(0)));
    plan.ranks.back().reason = "excluded by the request";
  }
  std::map<std::pair<std::size_t, BatchSize>, SharedValue<WorkspacePlan>> parts;
  for (const auto& [place, memory] : joint->plans) {
    const auto& [kind, batch] = place;
    parts.emplace(place, PartOf(memory, batch));
    plan.memory_plans.push_back(
        {.device_kind = sharing.places[kind].kind,
         .batch = batch,
         .budget = sharing.places[kind].budget,
         .plan = ToJsonWithGraph(memory,
                                 AtBatch(sharing.problem.kinds[kind], batch))
                     .dump()});
  }
  for (std::size_t g = 0; g < sharing.ranks.size(); ++g) {
    const BatchSize batch = joint->assignment.shares[g].batch;
    RankPlan& rank = plan.ranks[sharing.ranks[g]];
    rank = RankOf(request, sharing.ranks[g], batch);
    rank.reason = WhyShare(sharing.problem, *joint, g);
    if (batch == BatchSize(0)) continue;
    const std::pair place(sharing.problem.gpus[g], batch);
    rank.workspace = parts.at(place);
    rank.memory = RankMemory{.budget = sharing.places[place.first].budget,
                             .peak = joint->plans.at(place).peak};
  }
  return plan;
}

std::string MemoryInputsText(const NetworkRecord& network,
                             const DeviceModels& models) {
  std::string text = "\nnetwork " + network.hash;
  for (const auto& [kind, model] : models) {
    text += fmt::format("\nmodel {} {}", kind, ToJson(model).dump());
  }
  return text;
}

}  // namespace ucudnn
