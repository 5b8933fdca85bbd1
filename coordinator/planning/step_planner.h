#ifndef UCUDNN_COORDINATOR_PLANNING_STEP_PLANNER_H_
#define UCUDNN_COORDINATOR_PLANNING_STEP_PLANNER_H_

// Plans over whole steps that a framework measured or recorded (docs/steps.md).

#include <chrono>
#include <string>

#include "base/plan/job_plan.h"
#include "base/result.h"
#include "coordinator/steps/step_store.h"

namespace ucudnn {

// The request with the kinds of its ranks: the only one of the step, if it
// names none. kInvalidArgument if a kind is not the step's.
Result<JobRequest> WithStepKinds(const StepRecord& step, JobRequest request);

// Shares the batch among the ranks so that the slowest ends its step as early
// as possible (solver/step_shares.h), each within its budget and what its
// device's kind tells of its memory. `request` comes from WithStepKinds. Ends
// as MakeMemoryPlans does. The caller fills in id, revision and creation time.
// kFailedPrecondition, naming what would do, if nothing fits or the steps do
// not add up to the batch.
Result<JobPlan> MakeStepPlan(const StepRecord& step, const JobRequest& request,
                             std::chrono::milliseconds time_limit);

// A text of all that MakeStepPlan depends on.
std::string StepInputsText(const StepRecord& step, const JobRequest& request);

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_PLANNING_STEP_PLANNER_H_
