#ifndef UCUDNN_SOLVER_ARENA_ARENA_H_
#define UCUDNN_SOLVER_ARENA_ARENA_H_

// The combinatorial part of solver/arena/ws.h: given the front of every leaf of
// a series-parallel structure, chooses a point for each leaf, and places it.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "solver/arena/concurrency.h"
#include "solver/arena/ws.h"
#include "solver/micro_batch/pareto.h"

namespace ucudnn {

// What one leaf, or one outermost Parallel, got.
struct ArenaGroup {
  std::vector<std::size_t> leaves;
  bool feasible = false;  // nothing else is set otherwise
  Nanoseconds time{0};
  Nanoseconds lower_bound{0};
};

struct Arena {
  std::vector<ArenaGroup> groups;
  // Of each leaf of a feasible group: its point and where it lies.
  std::vector<std::size_t> point;
  std::vector<Bytes> offset;
};

// Minimises the sum of times of each group within `limit`. A front has rising
// workspaces and falling times; it may be empty, which makes its group
// infeasible. `concurrency` is a valid structure of these fronts. kOutOfRange
// if the times or the workspaces of a group can add up to more than 2^60.
Result<Arena> SolveArena(const Concurrency& concurrency,
                         std::span<const std::span<const FrontPoint>> fronts,
                         Bytes limit, const WsLimits& limits);

// The smallest limit under which all is feasible, given the least workspace of
// each leaf; 2^62 if it is more than that.
Bytes SmallestArena(const Concurrency& concurrency,
                    std::span<const Bytes> least);

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_ARENA_ARENA_H_
