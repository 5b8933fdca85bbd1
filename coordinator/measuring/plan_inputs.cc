#include "coordinator/measuring/plan_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "base/text.h"
#include "coordinator/agents/drivers.h"
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

bool ByPoint(const MeasuredPoint& a, const MeasuredPoint& b) {
  return std::tie(a.batch, a.algorithm, a.workspace) <
         std::tie(b.batch, b.algorithm, b.workspace);
}

}  // namespace

std::set<std::string> PlanInputs::Kinds() const {
  return {request.device_kinds.begin(), request.device_kinds.end()};
}

std::set<std::string> PlanInputs::Problems() const {
  std::set<std::string> problems;
  for (const Need& need : needs) problems.insert(need.problem);
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
  inputs.needs = NeedsOf(inputs.network, inputs.request);
  for (const std::string& kind : inputs.Kinds()) {
    UCUDNN_ASSIGN_OR_RETURN(inputs.drivers[kind], DriversOf(agents, kind));
  }
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
  // Adaptive measuring chooses the batches itself, and measures more of them
  // for more needs.
  const bool all = inputs->request.policy == BatchPolicy::kAdaptive;
  if (all) inputs->profiles.clear();
  std::set<BatchSize> sizes;
  for (const Need& need : inputs->needs) sizes.insert(need.batch);
  std::vector<BatchSize> batches;
  std::ranges::set_difference(sizes, inputs->loaded,
                              std::back_inserter(batches));
  if (!all && batches.empty()) return {};
  inputs->loaded = std::move(sizes);
  if (all) batches.clear();
  const std::set<std::string> problems = inputs->Problems();
  const std::vector<std::string> names(problems.begin(), problems.end());
  for (const std::string& kind : inputs->Kinds()) {
    UCUDNN_ASSIGN_OR_RETURN(PointsByProblem loaded,
                            measurements.LoadProfile(kind, names, batches,
                                                     inputs->drivers.at(kind)));
    ProblemProfiles& profiles = inputs->profiles[kind];
    for (auto& [problem, points] : loaded) {
      std::vector<MeasuredPoint>& known = profiles[problem];
      const auto middle = static_cast<std::ptrdiff_t>(known.size());
      std::ranges::move(points, std::back_inserter(known));
      std::inplace_merge(known.begin(), known.begin() + middle, known.end(),
                         ByPoint);
    }
  }
  return {};
}

}  // namespace ucudnn
