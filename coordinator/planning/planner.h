#ifndef UCUDNN_COORDINATOR_PLANNING_PLANNER_H_
#define UCUDNN_COORDINATOR_PLANNING_PLANNER_H_

// From a request for a plan to the measurements it needs, and from those to
// the plan. Pure functions.

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/goal.h"
#include "base/network.h"
#include "base/plan/job_plan.h"
#include "base/profile.h"
#include "base/result.h"
#include "base/units.h"
#include "solver/joint.h"
#include "ucudnn/v1/types.pb.h"

namespace ucudnn {

// The request with its defaults filled in; of equal ones, equal ones come back.
// Errors as FromProto (proto/convert.h), and kInvalidArgument if no network is
// named. `device_kinds` may be empty: the caller then knows which one is meant.
Result<JobRequest> ParsePlanRequest(const v1::PlanRequest& request);

// One problem on one batch, to be measured on one kind of device.
struct Need {
  std::string kind;
  std::string problem;
  BatchSize batch;
  TaskGoal goal = {};

  friend auto operator<=>(const Need&, const Need&) = default;
};

// All that a plan for `request` is made from, without repetitions, in the order
// in which it is best measured: what takes long first. `chosen` are batches
// that an assignment has chosen: those are to be measured undivided too, so
// that the plan is never slower than that.
using KindBatch = std::pair<std::string, BatchSize>;
std::vector<Need> NeedsOf(const Network& network, const JobRequest& request,
                          const std::set<KindBatch>& chosen = {});

// Measured points by problem.
using ProblemProfiles = std::map<std::string, std::vector<MeasuredPoint>>;
// Those by kind of device.
using KindProfiles = std::map<std::string, ProblemProfiles>;

// The plan: each rank's batch, so that the slowest rank ends as early as
// possible, and a division for every kernel (solver/joint.h). `request` names a
// kind for each rank. Id, revision and creation time are the caller's to fill
// in. Errors of SolveJoint.
Result<JobPlan> MakePlan(const Network& network, const JobRequest& request,
                         const KindProfiles& profiles);

// Text that differs whenever anything that MakePlan depends on does.
std::string InputsText(const Network& network, const JobRequest& request,
                       const KindProfiles& profiles,
                       int solver_version = kSolverVersion);

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_PLANNING_PLANNER_H_
