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

// Whether a memory plan can be asked for like this. `request` has `memory`.
// kInvalidArgument: there is no such policy.
Status CheckMemoryRequest(const JobRequest& request);

// Shares the batch among the ranks so that the slowest ends its iteration as
// early as possible, each under a memory plan within its budget
// (solver/joint_memory.h), and makes one memory plan for each kind, budget and
// share. `request` names a kind for each rank, and passes CheckMemoryRequest;
// `models` has the kinds. Convolutions without measurements, and on kinds where
// `tasks` are not measured all other tasks, take what the device model
// estimates: the plan tells. Graphs update running statistics
// (TrainingOptions), have momentum if the request has, and all updates at the
// end if there are several ranks.
//
// No shares of whole images with plans of the policy are faster, unless the
// plan is `cut_off`; `lower_bound` is what no shares with any plans beat.
// Searches at most for `time_limit`, after which the plan is the best one
// found, or the first, and says so (`cut_off` and a reason); ends early, with
// the error of Call::Check, when nobody waits for the answer any more. The
// caller fills in id, revision and creation time. kFailedPrecondition, naming a
// budget that would do, if nothing fits; kInvalidArgument if the network has no
// training graph, or a budget is more than its device has.
Result<JobPlan> MakeMemoryPlans(const NetworkRecord& network,
                                const JobRequest& request,
                                const KindProfiles& profiles,
                                const DeviceModels& models,
                                std::chrono::milliseconds time_limit,
                                const StepTasks& tasks = {});

// What they depend on besides InputsText.
std::string MemoryInputsText(const NetworkRecord& network,
                             const DeviceModels& models);

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_PLANNING_MEMORY_PLANNER_H_
