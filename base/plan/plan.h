#ifndef UCUDNN_BASE_PLAN_PLAN_H_
#define UCUDNN_BASE_PLAN_PLAN_H_

// What solvers produce and jobs apply.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/conv_problem.h"
#include "base/profile.h"
#include "base/result.h"
#include "base/units.h"

namespace ucudnn {

// Which micro-batch sizes a division may use; the mini-batch itself always may.
// Adaptive: those that were chosen to be measured, so every size that there are
// measurements of.
enum class BatchPolicy { kAll, kPowerOfTwo, kUndivided, kAdaptive };
inline constexpr std::array kBatchPolicies = {
    BatchPolicy::kAll, BatchPolicy::kPowerOfTwo, BatchPolicy::kUndivided,
    BatchPolicy::kAdaptive};

// "all", "powerOfTwo", "undivided", "adaptive".
std::string_view Name(BatchPolicy policy);
Result<BatchPolicy> ParseBatchPolicy(std::string_view text);
// "all, powerOfTwo, undivided or adaptive", for help texts and errors.
std::string BatchPolicyNames();

// `count` executions, one after the other, of one micro-configuration.
struct MicroBatch {
  BatchSize batch;
  std::int64_t count = 1;
  Algorithm algorithm;
  Nanoseconds time{0};  // of one execution
  Bytes workspace;      // of one execution

  friend bool operator==(const MicroBatch&, const MicroBatch&) = default;
};

// How one kernel divides its mini-batch. The micro-batches run in this order
// and share one workspace: the first writes the result; the others, largest
// first, add to it if it is a filter gradient.
struct KernelPlan {
  std::string layer;
  ConvOp op = ConvOp::kForward;
  Precision precision = Precision::kFp32;
  Layout layout = Layout::kNchw;
  // What runs, where it is known: a profile file does not tell.
  std::optional<ConvProblem> problem;
  Nanoseconds time{0};  // sum over executions
  // The fastest undivided execution under the same limit; none fits if absent.
  std::optional<Nanoseconds> undivided_time;
  Bytes workspace;              // the largest of the micro-batches
  std::optional<Bytes> offset;  // in a shared arena or a divided workspace
  std::vector<MicroBatch> micro_batches;

  friend bool operator==(const KernelPlan&, const KernelPlan&) = default;
};

// The kernels of one device for one batch size under one workspace limit.
struct WorkspacePlan {
  BatchSize batch;
  Bytes workspace_limit;
  Nanoseconds total_time{0};
  Nanoseconds lower_bound{0};  // no plan under the limit is faster
  bool optimal = false;        // total_time equals lower_bound
  std::optional<Nanoseconds> undivided_time;  // absent where a kernel has none
  // The part of these times in which tasks run that are not kernels; 0 where
  // they are of kernels alone, or of a memory plan or a framework's step.
  Nanoseconds other_time{0};
  // WR and WD: the sum over kernels, each having a segment of its own. An arena
  // that kernels share: its extent.
  Bytes total_workspace;
  std::vector<KernelPlan> kernels;
  // Which of them may run at once, and so have segments that are disjoint, as
  // text (base/plan/concurrency.h); empty: they run one after the other.
  std::string concurrency = {};

  friend bool operator==(const WorkspacePlan&, const WorkspacePlan&) = default;
};

// "conv2 forward", for people.
std::string KernelName(const KernelPlan& kernel);

// "accuracy not measured: 3 of 15 kernels use algorithms of unknown error", for
// a plan of the profile's kernels in their order; empty if all are known.
std::string AccuracyNote(const Profile& kernels, const WorkspacePlan& plan);
// The same where a plan does not tell which points it uses: "3 of 15 kernels
// have algorithms of unknown error".
std::string AccuracyNote(const Profile& kernels);

// The operations of an iteration's kernels whose problem is known; a
// multiplication and an addition are two.
double Operations(const WorkspacePlan& plan);

// Gives kernels that run one after another one arena: each workspace begins at
// its start, and the total is the largest.
void ShareArena(WorkspacePlan* plan);

// Whether a device may run the plan: every reader of plans asks this, and so
// does whoever runs one.
//
// Ok if batches and counts are in [1, kMaxBatchSize], times in [0, 2^62] ns and
// sizes not negative; each kernel's micro-batches sum to the plan's batch, need
// no more than the kernel's workspace, and that ends within 2^62 bytes of the
// arena's beginning; names are plain text (base/text.h) and algorithms have
// one. A batch of 0, of a rank that is left out, has no kernels. Kernels that
// may run at once have disjoint segments within the total workspace.
// kInvalidArgument otherwise, naming the field by its path in JSON
// ("kernels[3].offset_bytes"), the value and what is accepted. Whether times
// and the total workspace of kernels in a row add up is not checked.
Status Validate(const WorkspacePlan& plan);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_PLAN_PLAN_H_
