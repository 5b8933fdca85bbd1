#ifndef UCUDNN_SOLVER_KNAPSACK_WD_H_
#define UCUDNN_SOLVER_KNAPSACK_WD_H_

// Workspace division: one limit for all kernels of a network, each with a
// segment of its own. Chooses one configuration of every kernel's Pareto front
// so that the workspaces fit together and the total time is least:
//
//   min   T = sum_k sum_c T_k(c) x_kc                             (1)
//   where     sum_k sum_c M_k(c) x_kc <= M                        (2)
//             sum_c x_kc = 1 for every kernel k                   (3)
//             x_kc in {0, 1}                                      (4)
//
// Source: mu-cuDNN (CLUSTER 2018) section III-C, equations 1-4; the same in
// the IPSJ 2017 paper, section 3.3. Solved exactly, as a multiple-choice
// knapsack (solver/knapsack/mckp.h). WD under M is never slower than WR under
// M / K for each of K kernels, which is one of its choices.
//
// All functions are pure, deterministic and thread-safe.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/plan/plan.h"
#include "base/profile.h"
#include "base/result.h"
#include "base/units.h"
#include "solver/limits.h"
#include "solver/micro_batch/pareto.h"
#include "solver/micro_batch/wr.h"

namespace ucudnn {

// One configuration for every kernel.
struct Division {
  std::vector<std::uint32_t> point;  // in each kernel's front
  Nanoseconds time{0};
  Nanoseconds lower_bound{0};  // no division is faster
  bool optimal = false;        // time == lower_bound
  Bytes workspace;             // the sum of the segments

  friend bool operator==(const Division&, const Division&) = default;
};

// Divides `limit` among kernels given by their fronts, in any order and with or
// without dominated points. Fronts that share memory are recognised as equal
// without a comparison, which is faster.
//
// Errors: kInvalidArgument if a front is empty or has a negative time or
// workspace; kOutOfRange if the largest times or workspaces of all kernels sum
// to more than 2^60; kFailedPrecondition if nothing fits `limit`, naming the
// smallest sufficient total limit.
Result<Division> DivideWorkspace(
    std::span<const std::span<const FrontPoint>> fronts, Bytes limit,
    const Limits& limits = {});

// A way to divide a limit among kernels: DivideWorkspace, or a general solver.
using Divide = std::function<Result<Division>(
    std::span<const std::span<const FrontPoint>> fronts, Bytes limit)>;

// The plan of a list of kernels for one batch size; `request.workspace_limit`
// is for all of them together. Kernels with the same measurements share one
// front. Each kernel's plan has its segment's offset. Segments do not overlap;
// those whose size is a multiple of a larger power of two come first, so each
// begins at a multiple of its own.
//
// Noise is treated as in solver/micro_batch/wr.h: the choices are WR's plans
// under all limits, and the bound is that of their best combination. Undivided
// times are those of the best division under the same limit that divides no
// kernel's batch; absent if there is none.
//
// Errors of SolveWr, except that a limit that is too small names the smallest
// sufficient total limit.
Result<WorkspacePlan> SolveWd(const Profile& profile, const WrRequest& request,
                              const Limits& limits = {});

// The same, divided by `divide`; undivided times are DivideWorkspace's.
Result<WorkspacePlan> SolveWd(const Profile& profile, const WrRequest& request,
                              const Divide& divide, const Limits& limits = {});

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_KNAPSACK_WD_H_
