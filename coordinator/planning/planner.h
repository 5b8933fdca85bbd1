#ifndef UCUDNN_COORDINATOR_PLANNING_PLANNER_H_
#define UCUDNN_COORDINATOR_PLANNING_PLANNER_H_

// Turns a request for a plan into the measurements it needs, and those into the
// plan. Pure functions.

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/goal.h"
#include "base/network.h"
#include "base/plan/concurrency.h"
#include "base/plan/job_plan.h"
#include "base/profile.h"
#include "base/result.h"
#include "base/units.h"
#include "coordinator/planning/plain_memory.h"
#include "coordinator/planning/whole_steps.h"
#include "solver/version.h"

namespace ucudnn {

// The request in canonical form: requests that mean the same are equal. An
// empty list of device kinds stays empty for the caller to fill. Errors of
// Validate; kInvalidArgument unless it names a network or, with nothing of what
// concerns convolutions, a step.
Result<JobRequest> Canonical(JobRequest request);

// A rank's plan, without the workspace and the reason.
RankPlan RankOf(const JobRequest& request, std::size_t rank, BatchSize batch);

// A measurement to make: one problem at one batch on one kind of device.
struct Need {
  std::string kind;
  std::string problem;
  BatchSize batch;
  TaskGoal goal = {};

  friend auto operator<=>(const Need&, const Need&) = default;
};

// All measurements that a plan for `request` is made from, each once, the
// largest batches first because they take longest. `chosen` are the batches
// that an assignment gave to ranks: they are measured undivided too, so that
// the plan is never slower than the undivided batch.
using KindBatch = std::pair<std::string, BatchSize>;
std::vector<Need> NeedsOf(const Network& network, const JobRequest& request,
                          const std::set<KindBatch>& chosen = {});

// The measurements of the tasks that are not convolutions, at batches between
// which their times are on the line; none unless `tasks` are measured. No plan
// needs them: without them, it counts convolutions only.
std::vector<Need> NeedsOf(const StepTasks& tasks, const JobRequest& request);

// How many NeedsOf returns if none was chosen, without making them.
std::int64_t NeedCount(const Network& network, const JobRequest& request);

// Points by problem.
using ProblemProfiles = std::map<std::string, std::vector<MeasuredPoint>>;
// Points by kind and problem.
using KindProfiles = std::map<std::string, ProblemProfiles>;

// The kind's points of the kernels of an iteration, in the kernels' order,
// without those of algorithms that the request has too inexact. The error of
// KeepAccurate (base/accuracy.h).
Result<Profile> ProfileOf(const Network& network, const JobRequest& request,
                          const KindProfiles& profiles,
                          const std::string& kind);

// Shares the batch among the ranks so that the slowest ends as early as
// possible, and divides every kernel's share (solver/joint.h). No rank gets a
// share of which an iteration does not fit into its device's memory, as far as
// `memory` tells. Times are of whole steps if those of `tasks` are known of all
// kinds at all shares that these may get, else of convolutions only: the plan
// tells. `request` names a kind for each rank; `concurrency`, which of the
// kernels of an iteration may run at once, if it is concurrent. The caller
// fills in id, revision and creation time. Errors of SolveJoint; where memory
// is what nothing fits into, they say how many images each kind has room for.
Result<JobPlan> MakePlan(const Network& network, const JobRequest& request,
                         const KindProfiles& profiles,
                         const PlainMemory& memory = {},
                         const std::optional<Concurrency>& concurrency = {},
                         const StepTasks& tasks = {});

// Which kernels of an iteration may run at once, by the graph of the stored
// network, whose convolutions are `network`. kInvalidArgument if that is not
// known: it is no ONNX model.
Result<Concurrency> ConcurrencyOf(const NetworkRecord& record,
                                  const Network& network,
                                  const JobRequest& request);

// A text of all that MakePlan depends on besides `memory` and `concurrency`: it
// differs whenever any of it does.
std::string InputsText(const Network& network, const JobRequest& request,
                       const KindProfiles& profiles,
                       int solver_version = kSolverVersion);

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_PLANNING_PLANNER_H_
