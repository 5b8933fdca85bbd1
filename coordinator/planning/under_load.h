#ifndef UCUDNN_COORDINATOR_PLANNING_UNDER_LOAD_H_
#define UCUDNN_COORDINATOR_PLANNING_UNDER_LOAD_H_

// What plans take once their devices have been busy for seconds. Points are
// measured in bursts of milliseconds, at full clocks; a device that computes
// without a pause may have to lower them.

#include <string>

#include "base/plan/job_plan.h"
#include "coordinator/planning/memory_planner.h"

namespace ucudnn {

// Sets the plan's time under load if a rank's device is known to slow down by
// at least 2 % (DeviceModel::SlowdownUnderLoad), and adds a reason for each
// such kind and batch. Kinds without a model keep their speed.
void PredictUnderLoad(const DeviceModels& models, JobPlan* plan);

// What that depends on besides the plan; empty if no model knows rates under
// load.
std::string LoadInputsText(const DeviceModels& models);

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_PLANNING_UNDER_LOAD_H_
