#ifndef UCUDNN_SOLVER_KNAPSACK_MCKP_H_
#define UCUDNN_SOLVER_KNAPSACK_MCKP_H_

// The multiple-choice knapsack problem: takes one item of every class so that
// the weights fit the capacity and the total cost is least.
//
//   min  sum_k cost_k(c_k)   where  sum_k weight_k(c_k) <= capacity
//
// Source: mu-cuDNN (Oyama et al., CLUSTER 2018), section III-C, equations
// 1-4, where a class is a kernel, an item one of its configurations, cost its
// time and weight its workspace.
//
// Method: if every class's cheapest item fits, one pass over the items is
// enough. Otherwise:
//   - classes with the same items are merged, and dominated items dropped;
//   - the linear relaxation over the classes' lower convex hulls is solved by
//     weighted selection;
//   - its slope prices every item, and items that cost more than the gap are
//     dropped;
//   - the rest, the core, is searched by dynamic programming over undominated
//     partial solutions, from the classes nearest to the relaxation's slope
//     outwards. The best slopes of the remaining classes bound each partial
//     solution. Copies of a class, and classes whose remaining items differ
//     from the relaxation's choice in the same way, are searched as one.
//
// All arithmetic is in integers (128 bits where products need it), so the
// answer is exact and the same on every machine. Pure and thread-safe. Typical
// cost: linear in the number of items, about 5 ns for each; if all cheapest
// items fit, 3 to 5 ns for each class.

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "solver/limits.h"

namespace ucudnn {

struct MckpItem {
  std::int64_t cost = 0;    // >= 0
  std::int64_t weight = 0;  // >= 0

  friend bool operator==(const MckpItem&, const MckpItem&) = default;
};

// `count` equal classes: each takes one of `items`. Any order will do; items by
// rising weight and falling cost are cheapest to solve.
struct MckpClass {
  std::span<const MckpItem> items;
  std::int64_t count = 1;
};

struct MckpSolution {
  // The index of each class's item: `count` entries for each MckpClass, class
  // after class.
  std::vector<std::uint32_t> choice;
  std::int64_t cost = 0;
  std::int64_t weight = 0;
  std::int64_t lower_bound = 0;  // no solution costs less
  bool optimal = false;          // cost == lower_bound
  std::int64_t nodes = 0;        // partial solutions created
};

// The best solution; if a limit is exhausted, the best one found, with its
// bound. Among equally good solutions, an arbitrary but fixed one.
//
// Errors: kInvalidArgument if a class has no items or a count below one, a
// cost or weight is negative, or there are more than 2^32 - 1 copies;
// kOutOfRange if the classes' largest costs or weights sum to more than 2^60;
// kFailedPrecondition if nothing fits `capacity`, naming the smallest
// sufficient one.
Result<MckpSolution> SolveMckp(std::span<const MckpClass> classes,
                               std::int64_t capacity,
                               const Limits& limits = {});

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_KNAPSACK_MCKP_H_
