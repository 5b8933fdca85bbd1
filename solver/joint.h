#ifndef UCUDNN_SOLVER_JOINT_H_
#define UCUDNN_SOLVER_JOINT_H_

// The joint problem of a training job on unlike GPUs: how the mini-batch is
// shared among them and how each divides its share. A GPU's time for a batch
// is that of its kernels, divided as well as its kind allows, and of all that
// is not convolution:
//
//   t_gb = fixed + per_image * b + T(b),   T(b) by WR
//
// Source: mu-cuDNN (CLUSTER 2018), section III-E over III-B. Exact for these
// times, since the batches of the other GPUs do not matter to how a GPU divides
// its own. A GPU's kernels run one after another, so that a workspace for all
// of them is each one's limit. Pure; any number of threads.

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "base/plan/plan.h"
#include "base/profile.h"
#include "base/result.h"
#include "base/units.h"
#include "solver/assign/assign.h"
#include "solver/limits.h"

namespace ucudnn {

// The version of all that plans of jobs are made by: this header and what it
// calls, and coordinator/planning. To be raised with every change by which the
// same measurements may get another plan, since plans that were made are
// returned again to the same request over the same measurements.
inline constexpr int kSolverVersion = 1;

// One kind of device and what was measured on it.
struct JointKind {
  Profile kernels;        // of one iteration
  Bytes workspace_limit;  // of each kernel
  BatchPolicy policy = BatchPolicy::kAll;
  // What is not convolution.
  Nanoseconds fixed{0};
  Nanoseconds per_image{0};
};

struct JointGpu {
  std::size_t kind = 0;
  BatchSize max_batch = kMaxBatchSize;  // that its memory admits
};

struct JointProblem {
  BatchSize batch;
  std::vector<JointKind> kinds;
  std::vector<JointGpu> gpus;
  std::vector<BatchSize> shares;  // the ones to consider; empty: every one
  std::vector<Nanoseconds> communication;  // as in AssignProblem
};

struct JointPlan {
  Assignment assignment;
  // How each GPU divides its share; absent where it is left out.
  std::vector<std::optional<WorkspacePlan>> plans;
};

// The times of one kind for batches up to `largest`, those in `shares` if it
// is not empty; batches for which there is no plan are left out. Kernels alike
// share a curve. Errors of SolveWrCurve; kInvalidArgument if a time of the rest
// is negative; kOutOfRange if times sum to more than 2^61 ns.
Result<std::vector<BatchCost>> IterationTimes(
    const JointKind& kind, BatchSize largest,
    std::span<const BatchSize> shares);

// The best plan. Errors of IterationTimes and SolveAssignment; where a kind has
// no plan for any batch, or the only GPU none for the whole, those of SolveWr
// for the whole, which name the smallest limit that would do.
Result<JointPlan> SolveJoint(const JointProblem& problem,
                             const Limits& limits = {});

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_JOINT_H_
