#ifndef UCUDNN_SOLVER_CHECK_VALIDATE_H_
#define UCUDNN_SOLVER_CHECK_VALIDATE_H_

// Checks a workspace plan against the measurements it was made from, in the
// slow obvious way and without any code of the solvers. Tests check every plan,
// and debug builds every plan that a solver returns. Other answers are checked
// by solver/check/validate_choice.h and validate_assignment.h.

#include <cstddef>
#include <span>
#include <utility>

#include "base/plan/plan.h"
#include "base/profile.h"
#include "base/result.h"
#include "base/units.h"
#include "solver/micro_batch/wr.h"

namespace ucudnn {

enum class WorkspaceMode {
  kReuse,     // WR: each kernel has the limit to itself
  kDivision,  // WD: a segment for each kernel, all within the limit
  kShared,    // WS: segments within the limit, disjoint where they coincide
};

// A pair of kernels, by index, that may run at the same time.
using ConcurrentPair = std::pair<std::size_t, std::size_t>;

struct ValidationRules {
  WorkspaceMode mode = WorkspaceMode::kReuse;
  BatchPolicy policy = BatchPolicy::kAll;
  // kShared only: which kernels' segments must not overlap. A plan that tells
  // which kernels may run at once tells these.
  std::span<const ConcurrentPair> concurrent = {};
};

// Ok if `plan` obeys `rules` and its figures add up:
//   - it has the kernels of `profile`, in order;
//   - each kernel's micro-batches sum to the batch, are of sizes the policy
//     admits and no larger than their predecessors, and are measured points of
//     the kernel with exactly these times and workspaces;
//   - a kernel's time is their sum, its workspace their maximum;
//   - workspaces fit: WR, each within the limit; WD, their sum, and offsets, if
//     given, disjoint; WS, offsets given, each segment within the limit and
//     those of concurrent kernels disjoint;
//   - a kernel's undivided time is that of a measured point of the whole batch
//     within the limit (WR: of the fastest); it is absent if there is no such
//     point;
//   - totals are the sums (WS: total_workspace is the extent), the plan is no
//     slower than undivided, the bound is no larger than the total, and
//     `optimal` says whether they are equal.
// kInternal otherwise, naming the kernel and the first rule that is broken.
// O(micro-batches * points + kernels^2) time; pure.
Status ValidatePlan(const WorkspacePlan& plan, const Profile& profile,
                    const ValidationRules& rules);

// The same for one kernel under WR: micro-batches, time, workspace, limit and
// undivided time. `request` is the solver's.
Status ValidateKernel(const KernelPlan& plan, const KernelProfile& measured,
                      const WrRequest& request);

// Ok if the micro-batches are measured points of sizes that `policy` admits,
// sum to `batch`, and take `time` and `workspace`.
Status ValidateMicroBatches(std::span<const MicroBatch> micro_batches,
                            Nanoseconds time, Bytes workspace,
                            std::span<const MeasuredPoint> points,
                            BatchSize batch, BatchPolicy policy);

// The answer is wrong: kInternal.
template <class... Args>
tl::unexpected<Error> Wrong(fmt::format_string<Args...> format,
                            Args&&... args) {
  return Fail(Code::kInternal, format, std::forward<Args>(args)...);
}

// Whether solvers check their own answers: in debug builds.
#ifdef NDEBUG
inline constexpr bool kSolversCheckThemselves = false;
#else
inline constexpr bool kSolversCheckThemselves = true;
#endif

// Aborts unless `valid`, naming the fault and the caller's place.
void RequireValid(const Status& valid, const char* file = __builtin_FILE(),
                  int line = __builtin_LINE());

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_CHECK_VALIDATE_H_
