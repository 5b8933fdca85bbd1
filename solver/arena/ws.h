#ifndef UCUDNN_SOLVER_ARENA_WS_H_
#define UCUDNN_SOLVER_ARENA_WS_H_

// Shared arena: divides the mini-batches of a network's kernels and places
// their workspaces in one arena of M bytes, in which kernels that never run at
// the same time share bytes.
//
//   min  sum over kernels k of T_k(c_k)     c_k in the Pareto front of k
//   such that the segments [offset_k, offset_k + M_k(c_k)) lie in [0, M), and
//   those of kernels that may coincide are disjoint
//
// The objective is WD's (mu-cuDNN, CLUSTER 2018, III-C, equation 1): the sum
// of the kernels' times, not the length of a schedule. For a chain of kernels
// this is WR with the limit M; for kernels that all run at once, WD with the
// limit M. No source treats the cases between.
//
// Method: exact on a series-parallel structure (solver/arena/concurrency.h).
// With
//   leaf:      the kernel's front
//   Serial:    times add up, workspaces overlay    (t1 + t2, max(w1, w2))
//   Parallel:  times add up, workspaces stack up   (t1 + t2, w1 + w2)
// every node has a front of (time, workspace), found by a sweep for Serial and
// by a pruned Minkowski sum, cut at M, for Parallel. A kernel in no
// Parallel has all of M to itself: it gets its WR plan. The outermost Parallels
// need no front of their own: each is a multiple-choice knapsack over its
// parts' fronts (solver/knapsack/mckp.h). The parts of a Serial start at its
// own offset, those of a Parallel at the end of their predecessor.
//
// A front within nested Parallels that exceeds WsLimits::max_front points is
// thinned out: the plan stays valid, and no slower than with an equal part for
// each kernel, but its bound is that of WR for these kernels, and `optimal` may
// be false.
//
// The undivided times solve the same problem with undivided configurations
// only; absent for the kernels of an outermost Parallel without a solution.
//
// Ties are broken as the knapsack and, within a kernel, solver/micro_batch/wr.h
// break them. Pure, deterministic and thread-safe.

#include <cstddef>

#include "base/plan/plan.h"
#include "base/profile.h"
#include "base/result.h"
#include "solver/arena/concurrency.h"
#include "solver/limits.h"
#include "solver/micro_batch/wr.h"

namespace ucudnn {

struct WsLimits {
  Limits search;                   // of each outermost Parallel
  std::size_t max_front = 20'000;  // points of a nested front
  // Segments of kernels within a Parallel begin at multiples of it.
  Bytes alignment = Bytes(1);
};

// The plan of `profile`'s kernels, which are the leaves of `concurrency`, in
// an arena of request.workspace_limit. Every kernel has an offset, and
// total_workspace is the arena's extent. The plan tells `concurrency` unless no
// kernels may run at once.
//
// Errors: kInvalidArgument as SolveWr, or if `concurrency` is not a structure
// of these kernels; kFailedPrecondition as SolveWr, naming the smallest
// sufficient arena; kOutOfRange if times sum to more than 2^60 ns or
// workspaces that may coincide to more than 2^60 bytes.
Result<WorkspacePlan> SolveWs(const Profile& profile,
                              const Concurrency& concurrency,
                              const WrRequest& request,
                              const WsLimits& limits = {});

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_ARENA_WS_H_
