#ifndef UCUDNN_SOLVER_ARENA_ARENA_H_
#define UCUDNN_SOLVER_ARENA_ARENA_H_

// The combinatorial part of solver/arena/ws.h: given the Pareto front of every
// leaf of a series-parallel structure, chooses a point for each leaf and places
// it in the arena.

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

// Of a sum of times, in nanoseconds: 36 years.
inline constexpr std::int64_t kMostArenaTime = std::int64_t{1} << 60;

// The result for an outermost Parallel, or for a leaf outside of any.
struct ArenaGroup {
  std::vector<std::size_t> leaves;
  bool feasible = false;  // if false, the members below are unset
  Nanoseconds time{0};
  Nanoseconds lower_bound{0};
};

struct Arena {
  std::vector<ArenaGroup> groups;
  // The point and the offset of each leaf of a feasible group.
  std::vector<std::size_t> point;
  std::vector<Bytes> offset;
};

// Minimises the sum of times of each group within `limit`. Fronts have
// workspaces that do not fall and falling times; an empty front makes its group
// infeasible. `concurrency` is a valid structure of these fronts. kOutOfRange
// if the times or the workspaces of a group can sum to more than 2^60.
Result<Arena> SolveArena(const Concurrency& concurrency,
                         std::span<const std::span<const FrontPoint>> fronts,
                         Bytes limit, const WsLimits& limits);

// The smallest limit under which every group is feasible, given the least
// workspace of each leaf; at most 2^62.
Bytes SmallestArena(const Concurrency& concurrency,
                    std::span<const Bytes> least);

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_ARENA_ARENA_H_
