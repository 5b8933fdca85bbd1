#ifndef UCUDNN_SOLVER_JOINT_H_
#define UCUDNN_SOLVER_JOINT_H_

// The joint problem of a training job on unlike GPUs: how the mini-batch is
// shared among them and how each divides its share. A GPU's time for a batch
// is that of its kernels, divided as well as its kind allows, and of all that
// is not convolution:
//
//   t_gb = fixed + per_image * b + T(b),   T(b) by WR or WD
//
// Source: mu-cuDNN (CLUSTER 2018), section III-E over III-B and III-C. Exact
// for these times, since the batches of the other GPUs do not matter to how a
// GPU divides its own. Pure; any number of threads.

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

// One kind of device and what was measured on it.
struct JointKind {
  Profile kernels;  // of one iteration
  // Of each kernel (WR) or of all together (WD).
  Bytes workspace_limit;
  bool divide_workspace = false;  // WD
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
  // The shares to consider; empty: every one under WR, powers of two and the
  // whole mini-batch under WD, which has to be solved for each of them.
  std::vector<BatchSize> shares;
  std::vector<Nanoseconds> communication;  // as in AssignProblem
};

struct JointPlan {
  Assignment assignment;
  // How each GPU divides its share; absent where it is left out.
  std::vector<std::optional<WorkspacePlan>> plans;
};

// The times of one kind for batches up to `largest`, those in `shares` if it
// is not empty; batches for which there is no plan are left out. Under WR
// O(curves of all kernels); under WD a division for each batch. Errors of
// SolveWr and SolveWd but for what does not fit; kInvalidArgument if a time of
// the rest is negative; kOutOfRange if times sum to more than 2^61 ns.
Result<std::vector<BatchCost>> IterationTimes(const JointKind& kind,
                                              BatchSize largest,
                                              std::span<const BatchSize> shares,
                                              const Limits& limits = {});

// The best plan. Errors of IterationTimes and SolveAssignment.
Result<JointPlan> SolveJoint(const JointProblem& problem,
                             const Limits& limits = {});

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_JOINT_H_
