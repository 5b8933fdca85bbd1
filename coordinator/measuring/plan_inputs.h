#ifndef UCUDNN_COORDINATOR_MEASURING_PLAN_INPUTS_H_
#define UCUDNN_COORDINATOR_MEASURING_PLAN_INPUTS_H_

// What a plan is made from, each part looked up once.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "coordinator/planning/memory_planner.h"
#include "coordinator/planning/plain_memory.h"
#include "coordinator/planning/planner.h"
#include "coordinator/stores.h"

namespace ucudnn {

// A request for a plan, with all that it names looked up.
struct PlanInputs {
  JobRequest request;
  Network network;
  NetworkRecord record;  // of the network
  StepTasks tasks;       // of the network, beside its convolutions
  // The drivers of each kind's devices online.
  std::map<std::string, std::vector<std::string>> drivers;
  std::set<std::string> online;  // kinds with a device that takes tasks
  std::vector<Need> needs;
  // What LoadProfiles has loaded, and for which batches.
  KindProfiles profiles;
  std::set<BatchSize> loaded;
  // What LoadProfiles has found out, unless there are to be memory plans.
  std::optional<PlainMemory> plain;
  // Of a concurrent request's kernels.
  std::optional<Concurrency> concurrency;
  // Made from the needs, once MeasureNeeds found all of them measured, unless
  // that failed or it is to hold memory plans.
  std::optional<JobPlan> plan;

  // The convolutions' needs, and those of the other tasks on kinds that are
  // online: others are not waited for.
  std::vector<Need> NeedsWith(const std::set<KindBatch>& chosen) const;
  std::set<std::string> Kinds() const;
  std::set<std::string> Problems() const;
};

// If the request names no device kinds, the devices online must be of one kind.
// kNotFound: the network; kFailedPrecondition, kInvalidArgument: there is no
// such kind, or too much would have to be measured; errors of Canonical.
// The network is that of `network_revision` or else the latest.
Result<PlanInputs> LookUp(
    AgentStore& agents, NetworkStore& networks, const JobRequest& request,
    std::optional<std::int64_t> network_revision = std::nullopt);

// The known device models of these kinds.
Result<DeviceModels> LoadModels(MeasurementStore& measurements,
                                const std::set<std::string>& kinds);

// Loads the points that the plan is made from, of those needs for which this
// has not been done, into `inputs->profiles`, and what is known of memory.
Status LoadProfiles(MeasurementStore& measurements, PlanInputs* inputs);

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_MEASURING_PLAN_INPUTS_H_
