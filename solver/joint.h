#ifndef UCUDNN_SOLVER_JOINT_H_
#define UCUDNN_SOLVER_JOINT_H_

// Plans a training job on unlike GPUs: how they share the mini-batch, and how
// each divides its share into micro-batches. A GPU's time for a batch is that
// of its optimally divided kernels plus that of everything else:
//
//   t_gb = rest(b) + T(b),   T(b) by WR, or by WS
//   rest(b) = fixed + per_image * b + others[b]
//
// Source: mu-cuDNN (CLUSTER 2018), section III-E over III-B. Exact for these
// times, since how a GPU divides its share does not depend on the shares of
// others. A GPU's kernels run one after another, so each may use all of a
// workspace that they share, unless the kind's `concurrency` tells otherwise.
// Pure and thread-safe.

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "base/plan/concurrency.h"
#include "base/plan/plan.h"
#include "base/profile.h"
#include "base/result.h"
#include "base/shared_value.h"
#include "base/units.h"
#include "solver/assign/assign.h"
#include "solver/limits.h"

namespace ucudnn {

// One kind of device and its measurements.
struct JointKind {
  Profile kernels;        // of one iteration
  Bytes workspace_limit;  // of each kernel
  // Which of the kernels may run at once: then the limit is divided among them
  // (solver/arena/ws.h). Absent: they run one after another.
  std::optional<Concurrency> concurrency = {};
  BatchPolicy policy = BatchPolicy::kAll;
  // The time of everything that is not a convolution.
  Nanoseconds fixed{0};
  Nanoseconds per_image{0};
  // More of it by batch, up to the largest, none negative; empty: none.
  std::vector<Nanoseconds> others = {};
  // The device's memory, and what an iteration needs of it besides workspace,
  // by batch; empty: it does not matter. A batch needs the sum of this and the
  // largest workspace of its kernels, which run one after the other.
  Bytes memory = Bytes::Max();
  std::vector<Bytes> needs = {};
};

// Where segments may begin that lie beside others.
inline constexpr Bytes kSegmentAlignment = Bytes(256);

struct JointGpu {
  std::size_t kind = 0;
  BatchSize max_batch = kMaxBatchSize;  // the largest that fits its memory
};

struct JointProblem {
  BatchSize batch;
  std::vector<JointKind> kinds;
  std::vector<JointGpu> gpus;
  std::vector<BatchSize> shares;           // candidates; empty: all sizes
  std::vector<Nanoseconds> communication;  // as in AssignProblem
};

struct JointPlan {
  Assignment assignment;
  // How each GPU divides its share; absent for GPUs that are left out. GPUs of
  // one kind and share have one object.
  std::vector<std::optional<SharedValue<WorkspacePlan>>> plans;
};

// The times of one kind for batches up to `largest`, restricted to `shares`
// unless that is empty, and the memory that they need, if `needs` tells. Omits
// batches without a plan. Equal kernels share a
// curve. `needs` and `others` are empty or
// have every batch up to `largest`. Errors of SolveWrCurve, or SolveWs;
// kInvalidArgument if `fixed`, `per_image` or one of `others` is negative;
// kOutOfRange if times sum to more than 2^61 ns.
Result<std::vector<BatchCost>> IterationTimes(
    const JointKind& kind, BatchSize largest,
    std::span<const BatchSize> shares);

// The best plan. Errors of IterationTimes and SolveAssignment; if a kind has no
// plan for any batch, or a single GPU has none for the whole mini-batch, the
// error of SolveWr for the mini-batch, which names the smallest sufficient
// limit.
Result<JointPlan> SolveJoint(const JointProblem& problem,
                             const Limits& limits = {});

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_JOINT_H_
