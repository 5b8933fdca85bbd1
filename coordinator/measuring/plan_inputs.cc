#include "coordinator/measuring/plan_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/accuracy.h"
#include "base/text.h"
#include "coordinator/limits.h"
#include "coordinator/measuring/device_models.h"
#include "coordinator/networks/stored_network.h"
#include "coordinator/planning/memory_planner.h"
#include "proto/convert.h"
#include "ucudnn/v1/coordinator.pb.h"

namespace ucudnn {
namespace {

// The only kind of the devices online, for requests that name none.
Result<std::string> OnlyKind(AgentStore& agents) {
  UCUDNN_ASSIGN_OR_RETURN(const auto kinds, agents.ListKinds());
  std::vector<std::string> usable;
  for (const KindSummary& kind : kinds) {
    if (kind.usable > 0) usable.push_back(ToString(kind.kind));
  }
  // The answer does not change while the only agent is away.
  if (usable.empty() && kinds.size() == 1) return ToString(kinds[0].kind);
  if (usable.size() == 1) return usable[0];
  if (usable.empty()) {
    return Fail(Code::kFailedPrecondition,
                "no device is online; start ucudnn-agent on a node, or name "
                "device_kinds");
  }
  return Fail(
      Code::kInvalidArgument,
      "the cluster has several kinds of devices; name device_kinds, out "
      "of {}",
      fmt::join(usable, ", "));
}

}  // namespace

std::vector<Need> PlanInputs::NeedsWith(
    const std::set<KindBatch>& chosen) const {
  std::vector<Need> all = NeedsOf(network, request, chosen);
  for (Need& need : NeedsOf(tasks, request)) {
    if (online.contains(need.kind)) all.push_back(std::move(need));
  }
  std::ranges::stable_sort(all, std::ranges::greater(), &Need::batch);
  return all;
}

std::set<std::string> PlanInputs::Kinds() const {
  return {request.device_kinds.begin(), request.device_kinds.end()};
}

std::set<std::string> PlanInputs::Problems() const {
  std::set<std::string> problems;
  for (const Need& need : needs) problems.insert(need.problem);
  // Plans take what is known of them, also where it is not waited for.
  if (tasks.measured()) problems.insert(tasks.problem);
  return problems;
}

Result<PlanInputs> LookUp(AgentStore& agents, NetworkStore& networks,
                          const JobRequest& request,
                          std::optional<std::int64_t> network_revision) {
  PlanInputs inputs;
  UCUDNN_ASSIGN_OR_RETURN(inputs.request, Canonical(request));
  if (!inputs.request.step.empty()) {
    return Fail(
        Code::kInvalidArgument,
        "step is '{}'; a network is accepted here, as steps are planned "
        "by themselves",
        Excerpt(inputs.request.step));
  }
  std::vector<std::string>& kinds = inputs.request.device_kinds;
  if (kinds.empty()) {
    UCUDNN_ASSIGN_OR_RETURN(std::string kind, OnlyKind(agents));
    kinds.push_back(std::move(kind));
  }
  if (inputs.request.memory) {
    UCUDNN_RETURN_IF_ERROR(CheckMemoryRequest(inputs.request));
  }
  UCUDNN_ASSIGN_OR_RETURN(
      inputs.record,
      networks.GetNetwork(inputs.request.network, network_revision));
  UCUDNN_ASSIGN_OR_RETURN(const v1::Network network, ToProto(inputs.record));
  UCUDNN_ASSIGN_OR_RETURN(inputs.network, FromProto(network));
  if (inputs.Kinds().size() > kMaxKindsPerPlan) {
    return Fail(Code::kInvalidArgument,
                "device_kinds names {} kinds; up to {} are accepted",
                inputs.Kinds().size(), kMaxKindsPerPlan);
  }
  if (inputs.request.concurrent) {
    UCUDNN_ASSIGN_OR_RETURN(
        inputs.concurrency,
        ConcurrencyOf(inputs.record, inputs.network, inputs.request));
  }
  const std::int64_t count = NeedCount(inputs.network, inputs.request);
  if (count > kMaxTasksPerPlan) {
    return Fail(Code::kInvalidArgument,
                "the plan needs {} measurements; up to {} are accepted: take a "
                "smaller batch or the policy adaptive",
                count, kMaxTasksPerPlan);
  }
  for (const std::string& kind : inputs.Kinds()) {
    UCUDNN_ASSIGN_OR_RETURN(inputs.drivers[kind], agents.ListDrivers(kind));
  }
  UCUDNN_ASSIGN_OR_RETURN(const auto kinds_known, agents.ListKinds());
  for (const KindSummary& kind : kinds_known) {
    if (kind.usable > 0) inputs.online.insert(ToString(kind.kind));
  }
  inputs.tasks = StepTasksOf(inputs.record, inputs.network, inputs.request);
  inputs.needs = inputs.NeedsWith({});
  return inputs;
}

Result<DeviceModels> LoadModels(MeasurementStore& measurements,
                                const std::set<std::string>& kinds) {
  DeviceModels models;
  for (const std::string& kind : kinds) {
    UCUDNN_ASSIGN_OR_RETURN(const auto measured,
                            NewestDeviceModel(measurements, kind));
    if (measured) models[kind] = measured->model;
  }
  return models;
}

Status LoadProfiles(MeasurementStore& measurements, PlanInputs* inputs) {
  if (!inputs->request.memory && !inputs->plain) {
    UCUDNN_ASSIGN_OR_RETURN(const DeviceModels models,
                            LoadModels(measurements, inputs->Kinds()));
    inputs->plain = PlainMemoryOf(inputs->record, inputs->request, models);
  }
  std::set<BatchSize> sizes;
  for (const Need& need : inputs->needs) sizes.insert(need.batch);
  // Adaptive measuring chooses the batches itself, and measures more of them
  // for more needs.
  const bool all = inputs->request.policy == BatchPolicy::kAdaptive;
  if (!all && sizes == inputs->loaded) return {};
  const std::set<std::string> problems = inputs->Problems();
  const std::vector<std::string> names(problems.begin(), problems.end());
  for (const std::string& kind : inputs->Kinds()) {
    ProblemProfiles& profiles = inputs->profiles[kind];
    UCUDNN_ASSIGN_OR_RETURN(
        profiles,
        measurements.LoadProfile(kind, names, inputs->drivers.at(kind)));
    for (auto& [problem, points] : profiles) {
      // An algorithm is as inexact as at the batches that are not needed.
      SpreadErrors(&points);
      if (all || problem == inputs->tasks.problem) continue;
      std::erase_if(points, [&](const MeasuredPoint& point) {
        return !sizes.contains(point.batch);
      });
    }
  }
  inputs->loaded = std::move(sizes);
  return {};
}

}  // namespace ucudnn
