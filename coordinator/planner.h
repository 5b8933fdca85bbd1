#ifndef UCUDNN_COORDINATOR_PLANNER_H_
#define UCUDNN_COORDINATOR_PLANNER_H_

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
#include "base/plan/plan.h"
#include "base/profile.h"
#include "base/result.h"
#include "base/units.h"
#include "ucudnn/v1/types.pb.h"

namespace ucudnn {

// A request for a plan, checked and with its defaults filled in.
struct PlanSpec {
  std::string network;
  BatchSize batch;                 // over all ranks
  std::vector<std::string> kinds;  // of each rank's device
  // Workspace reuse: of each kernel. Division: of all kernels together.
  Bytes workspace_limit;
  bool divide_workspace = false;
  BatchPolicy policy = BatchPolicy::kPowerOfTwo;
  Precision precision = Precision::kFp32;
  Layout layout = Layout::kNchw;
};

// kInvalidArgument, naming the field, the value and what is accepted.
// `kinds` may come back empty: the caller then knows which one is meant.
Result<PlanSpec> ParsePlanRequest(const v1::PlanRequest& request);

// The request that says the same with nothing left to defaults; equal specs,
// equal messages.
v1::PlanRequest ToProto(const PlanSpec& spec);

// One problem on one batch, to be measured on one kind of device.
struct Need {
  std::string kind;
  std::string problem;
  BatchSize batch;
  TaskGoal goal = {};

  friend auto operator<=>(const Need&, const Need&) = default;
};

// All that a plan for `spec` is made from, without repetitions, in the order
// in which it is best measured: what takes long first. `chosen` are batches
// that an assignment has chosen: those are to be measured undivided too, so
// that the plan is never slower than that.
using KindBatch = std::pair<std::string, BatchSize>;
std::vector<Need> NeedsOf(const Network& network, const PlanSpec& spec,
                          const std::set<KindBatch>& chosen = {});

// Measured points by problem.
using ProblemProfiles = std::map<std::string, std::vector<MeasuredPoint>>;
// Those by kind of device.
using KindProfiles = std::map<std::string, ProblemProfiles>;

// Each rank's batch, so that the slowest rank ends as early as possible. A
// division has to be solved for each share that a rank may get, so with unlike
// kinds those are: every one up to 64 images, above that powers of two, about
// 64 equal steps, and what the even split gives. Errors as SolveAssignment
// (solver/assign/assign.h).
Result<std::vector<BatchSize>> AssignBatches(const Network& network,
                                             const PlanSpec& spec,
                                             const KindProfiles& profiles);

// The plan: a batch for every rank, a division for every kernel. Id, revision
// and creation time are the caller's to fill in. kFailedPrecondition, naming
// the kernel and the smallest limit that would do, if there is none.
Result<v1::Plan> MakePlan(const Network& network, const PlanSpec& spec,
                          const KindProfiles& profiles);

// Text that differs whenever anything that MakePlan depends on does.
std::string InputsText(const Network& network, const PlanSpec& spec,
                       const KindProfiles& profiles);

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_PLANNER_H_
