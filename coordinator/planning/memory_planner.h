#ifndef UCUDNN_COORDINATOR_PLANNING_MEMORY_PLANNER_H_
#define UCUDNN_COORDINATOR_PLANNING_MEMORY_PLANNER_H_

// Memory plans of whole training iterations, from what is stored: the network's
// file, measurements and device models.

#include <chrono>
#include <map>
#include <string>

#include "base/plan/job_plan.h"
#include "base/result.h"
#include "base/training/device_model.h"
#include "coordinator/networks/network_store.h"
#include "coordinator/planning/planner.h"

namespace ucudnn {

// Of each kind.
using DeviceModels = std::map<std::string, DeviceModel>;

// Whether a memory plan can be asked for like this. `request` names a kind for
// each rank and has `memory`. kInvalidArgument: there is no such policy;
// kUnimplemented: the ranks' devices are of several kinds.
Status CheckMemoryRequest(const JobRequest& request);

// Gives the ranks even shares and makes one memory plan for each size of share.
// `request` passes CheckMemoryRequest; `models` has its kind. Convolutions
// without measurements, and all other tasks, take what the device model
// estimates. Searches at most for `time_limit`, after which the plan is the
// best one found and says so (`cut_off` and a reason); ends early, with the
// error of Call::Check, when nobody waits for the answer any more. The caller
// fills in id, revision and creation time. kFailedPrecondition, naming the
// smallest budget that would do, if nothing fits; kInvalidArgument if the
// network has no training graph.
Result<JobPlan> MakeMemoryPlans(const NetworkRecord& network,
                                const JobRequest& request,
                                const KindProfiles& profiles,
                                const DeviceModels& models,
                                std::chrono::milliseconds time_limit);

// What they depend on besides InputsText.
std::string MemoryInputsText(const NetworkRecord& network,
                             const DeviceModels& models);

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_PLANNING_MEMORY_PLANNER_H_
