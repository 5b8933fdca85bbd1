#ifndef UCUDNN_BASE_PLAN_JOB_PLAN_H_
#define UCUDNN_BASE_PLAN_JOB_PLAN_H_

// What a plan is asked for, and the plan: what each rank of a training job
// does. Values; safe to copy and to read from any thread.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/accuracy.h"
#include "base/conv_problem.h"
#include "base/plan/plan.h"
#include "base/result.h"
#include "base/shared_value.h"
#include "base/units.h"

namespace ucudnn {

// More ranks than any job has.
inline constexpr int kMaxRanks = 1 << 16;

// Whole training iterations within device memory, instead of convolutions
// within workspaces.
struct JobMemory {
  // Of all that a rank has on its device: weights, gradients, activations,
  // workspaces. One for all ranks, or one for each; 0: the device model's
  // memory.
  std::vector<Bytes> budgets = {Bytes(0)};
  std::string policy = "best";  // docs/memory.md lists them
  bool recompute = false;
  bool offload_weights = false;
  bool momentum = false;  // updates keep one for each weight, on the device

  Bytes BudgetOf(std::size_t rank) const {
    return budgets[budgets.size() == 1 ? 0 : rank];
  }

  friend bool operator==(const JobMemory&, const JobMemory&) = default;
};

// What a plan is asked for. Equal requests over the same measurements have
// the same plan.
struct JobRequest {
  std::string network;
  BatchSize batch;                        // over all ranks
  std::vector<std::string> device_kinds;  // of each rank, in rank order
  Bytes workspace_limit;                  // of each kernel
  Bytes total_workspace;  // of all kernels, instead; 0: only each is limited
  BatchPolicy policy = BatchPolicy::kPowerOfTwo;
  Precision precision = Precision::kFp32;
  Layout layout = Layout::kNchw;
  std::optional<JobMemory> memory = {};  // then the limits are 0
  // These ranks get no part of the batch; sorted, and not all.
  std::vector<std::int32_t> exclude_ranks = {};
  // The total is divided among kernels that may run at once (docs/adr/0064).
  bool concurrent = false;
  // Instead of a network: a step that a framework measured (docs/steps.md).
  // Then plans have no kernels, and of `memory` budgets and recompute count.
  std::string step = {};
  bool all_ranks = false;  // of a step: all get images that are not excluded
  // The error that algorithms may have (base/accuracy.h).
  double max_error = kDefaultMaxError;

  // What each kernel may use. Kernels that run one after another in one arena
  // may each use all of a total (docs/adr/0022).
  Bytes KernelLimit() const {
    return total_workspace > Bytes(0) ? total_workspace : workspace_limit;
  }

  friend bool operator==(const JobRequest&, const JobRequest&) = default;
};

// What a rank needs on its device under its memory plan.
struct RankMemory {
  Bytes budget;
  Bytes peak;  // at most the budget

  friend bool operator==(const RankMemory&, const RankMemory&) = default;
};

struct RankPlan {
  std::string device_kind;
  BatchSize batch;    // 0: the rank is left out
  double weight = 0;  // of its gradient: batch / global batch
  // Ranks with the same kind and batch share it, as there may be thousands.
  SharedValue<WorkspacePlan> workspace;
  std::string reason;  // why this batch, for people; may be empty
  // If the rank has images and a memory plan.
  std::optional<RankMemory> memory = {};

  friend bool operator==(const RankPlan&, const RankPlan&) = default;
};

// The memory plan of all ranks with this kind, batch and budget.
struct DeviceMemoryPlan {
  std::string device_kind;
  BatchSize batch;
  Bytes budget;  // 0 in plans of older versions, whose ranks have the same
  // As JSON (base/training/json.h), with its training graph as `graph`.
  std::string plan;

  friend bool operator==(const DeviceMemoryPlan&,
                         const DeviceMemoryPlan&) = default;
};

struct JobPlan {
  std::int64_t id = 0;  // the coordinator's number; 0 if it made none
  std::int64_t revision = 0;
  JobRequest request;
  std::int64_t network_revision = 0;
  // The slowest rank's time for the convolutions of one iteration, or for all
  // of its tasks (CountsWholeSteps); 0 if nothing was measured.
  Nanoseconds predicted{0};
  Nanoseconds lower_bound{0};
  bool optimal = false;
  // A time limit ended a search, so another one for the same request may find a
  // faster plan.
  bool cut_off = false;
  // The same with no batch divided; absent where a rank has no such time.
  std::optional<Nanoseconds> undivided;
  // `predicted` after seconds of load; absent unless a device is known to slow
  // down then.
  std::optional<Nanoseconds> under_load = {};
  std::vector<RankPlan> ranks;
  std::vector<std::string> reasons;  // for people
  std::int64_t created_ms = 0;       // Unix time
  // If the request has `memory`: then times are of whole iterations, and ranks
  // have no kernels.
  std::vector<DeviceMemoryPlan> memory_plans = {};

  friend bool operator==(const JobPlan&, const JobPlan&) = default;
};

// Whether the plan's times are of whole steps, not of convolutions alone.
bool CountsWholeSteps(const JobPlan& plan);

// "6GiB" or "6GiB,2GiB": the budget of all ranks, or of each. Errors of
// ParseBytes.
Result<std::vector<Bytes>> ParseBudgets(std::string_view text);

// The rank's memory plan; null if it has none.
const DeviceMemoryPlan* MemoryPlanOf(const JobPlan& plan, std::size_t rank);

// For each rank, the first one that has the same workspace object: itself,
// unless an earlier one shares it.
std::vector<std::size_t> WorkspaceOwners(std::span<const RankPlan> ranks);

// kInvalidArgument, naming the field by its path in a request as JSON, the
// value and what is accepted, unless there is one budget or one for each of
// `ranks`, all in [0, 2^62], and the policy is plain text.
Status Validate(const JobMemory& memory, std::size_t ranks);

// The same unless the batch is in [1, kMaxBatchSize], there are at most
// kMaxRanks kinds, the limits are in [0, 2^62], max_error is in [0, 1), what is
// asked of memory is valid for as many ranks, excluded ranks are among those
// with a kind, and a concurrent request has a total workspace.
Status Validate(const JobRequest& request);

// The same unless request and each rank's workspace are valid, times are in
// [0, 2^62] ns and weights in [0, 1]. Whether a job may use the plan is another
// question.
Status Validate(const JobPlan& plan);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_PLAN_JOB_PLAN_H_
