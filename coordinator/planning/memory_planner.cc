#include "coordinator/planning/memory_planner.h"

#include <algorithm>
#include <future>
#include <nlohmann/json.hpp>
#include <set>
#include <stop_token>
#include <utility>

#include "base/onnx/network_file.h"
#include "base/plan/even_shares.h"
#include "base/service/call.h"
#include "base/training/build.h"
#include "base/training/costs.h"
#include "base/training/json.h"
#include "solver/memory/policies.h"

namespace ucudnn {
namespace {

using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

// The training graph of `batch` images on the request's kind, with its costs.
Result<TrainingGraph> GraphFor(const NetworkRecord& network, BatchSize batch,
                               const JobRequest& request,
                               const KindProfiles& profiles,
                               const DeviceModel& model) {
  UCUDNN_ASSIGN_OR_RETURN(
      const Graph graph,
      ParseGraph(network.source, network.name, batch, network.name));
  TrainingOptions options;
  options.precision = request.precision;
  UCUDNN_ASSIGN_OR_RETURN(TrainingGraph training,
                          BuildTrainingGraph(graph, options));
  UCUDNN_RETURN_IF_ERROR(SetDevice(model, &training));
  UCUDNN_ASSIGN_OR_RETURN(
      const Network convolutions,
      ParseNetwork(network.source, network.name, batch, network.name));
  Profile measured =
      ProfileOf(convolutions, request, profiles, request.device_kinds.front());
  std::erase_if(measured.kernels,
                [](const KernelProfile& k) { return k.points.empty(); });
  if (!measured.kernels.empty()) {
    UCUDNN_RETURN_IF_ERROR(SetConvolutionCosts(measured, &training));
  }
  return training;
}

// The policy's plan. It is made on a thread of its own, so that this one can
// stop it: at `deadline`, or once the call is not wanted any more.
Result<MemoryPlan> PlanUntil(const TrainingGraph& graph, MemoryRequest request,
                             const MemoryPolicy& policy,
                             SteadyClock::time_point deadline) {
  constexpr milliseconds kLook{50};
  UCUDNN_RETURN_IF_ERROR(Call::Check());
  std::stop_source stop;
  request.stop = stop.get_token();
  if (SteadyClock::now() >= deadline) stop.request_stop();
  auto planned = std::async(std::launch::async,
                            [&] { return PlanMemory(graph, request, policy); });
  Status wanted;
  while (planned.wait_for(kLook) != std::future_status::ready) {
    wanted = Call::Check();
    if (!wanted || SteadyClock::now() >= deadline) stop.request_stop();
  }
  Result<MemoryPlan> plan = planned.get();
  if (!wanted) return tl::unexpected<Error>(std::move(wanted).error());
  return plan;
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

// A rank's part without its times.
RankPlan EvenRank(const JobRequest& request, BatchSize batch) {
  RankPlan rank;
  rank.device_kind = request.device_kinds.front();
  rank.batch = batch;
  rank.weight = static_cast<double>(batch.count()) /
                static_cast<double>(request.batch.count());
  rank.reason = batch == BatchSize(0) ? "left out: there are more ranks than "
                                        "images"
                                      : "an even share";
  return rank;
}

}  // namespace

Status CheckMemoryRequest(const JobRequest& request) {
  const Result<const MemoryPolicy*> policy =
      FindMemoryPolicy(request.memory->policy);
  if (!policy) {
    return Fail(Code::kInvalidArgument, "memory.policy: {}",
                policy.error().message);
  }
  for (const std::string& kind : request.device_kinds) {
    if (kind == request.device_kinds.front()) continue;
    return Fail(Code::kUnimplemented,
                "memory plans for ranks on unlike devices, '{}' and '{}'; "
                "ranks on devices of one kind are accepted",
                request.device_kinds.front(), kind);
  }
  return {};
}

Result<JobPlan> MakeMemoryPlans(const NetworkRecord& network,
                                const JobRequest& request,
                                const KindProfiles& profiles,
                                const DeviceModels& models,
                                milliseconds time_limit) {
  const auto deadline = SteadyClock::now() + time_limit;
  const std::string& kind = request.device_kinds.front();
  const DeviceModel& model = models.at(kind);
  UCUDNN_ASSIGN_OR_RETURN(const MemoryPolicy* const policy,
                          FindMemoryPolicy(request.memory->policy));
  MemoryRequest memory;
  memory.budget = request.memory->budget == Bytes(0) ? model.memory
                                                     : request.memory->budget;
  memory.recompute = request.memory->recompute;
  memory.offload_weights = request.memory->offload_weights;
  JobPlan plan;
  plan.request = request;
  plan.optimal = true;
  std::map<BatchSize, SharedValue<WorkspacePlan>> made;
  for (const BatchSize batch :
       EvenShares(request.batch, request.device_kinds.size())) {
    RankPlan& rank = plan.ranks.emplace_back(EvenRank(request, batch));
    if (batch == BatchSize(0)) continue;
    if (!made.contains(batch)) {
      UCUDNN_ASSIGN_OR_RETURN(
          const TrainingGraph graph,
          GraphFor(network, batch, request, profiles, model));
      const Result<MemoryPlan> best =
          PlanUntil(graph, memory, *policy, deadline);
      if (!best) {
        return Within(fmt::format("{} images on {}", batch.count(), kind),
                      best.error());
      }
      if (best->cut_off) {
        plan.cut_off = true;
        plan.reasons.push_back(fmt::format(
            "{} images on {}: the search was cut off after {}; the bound is {}",
            batch.count(), kind, HumanTime(time_limit),
            HumanTime(best->lower_bound)));
      }
      plan.memory_plans.push_back(
          {kind, batch, ToJsonWithGraph(*best, graph).dump()});
      made.emplace(batch, PartOf(*best, batch));
    }
    rank.workspace = made.at(batch);
    plan.predicted = std::max(plan.predicted, rank.workspace->total_time);
    plan.lower_bound = std::max(plan.lower_bound, rank.workspace->lower_bound);
    plan.optimal = plan.optimal && rank.workspace->optimal;
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
