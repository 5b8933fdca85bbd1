#ifndef UCUDNN_SOLVER_KNAPSACK_INCUMBENT_H_
#define UCUDNN_SOLVER_KNAPSACK_INCUMBENT_H_

// Good solutions of a multiple-choice knapsack from its relaxation, for
// solver/knapsack/mckp. The closer they are to the bound, the smaller the core,
// and the shorter the search.

#include <array>
#include <cstdint>
#include <memory_resource>
#include <span>
#include <vector>

#include "solver/knapsack/core.h"
#include "solver/knapsack/relaxation.h"

namespace ucudnn::mckp_internal {

// A solution as changes of the relaxation's bases, with the cost and weight
// that they add.
struct Incumbent {
  explicit Incumbent(std::pmr::memory_resource* memory) : changes(memory) {}

  std::pmr::vector<Change> changes;
  std::int64_t cost = 0;
  std::int64_t weight = 0;
};

// Fills the room that the bases leave with the edges that have exactly the
// price: moves bases for which all copies of a class fit, and returns the rest
// as a solution.
Incumbent FillAtPrice(Relaxation* r, std::pmr::memory_resource* memory);

// The lightest solution, for the rare case that the bases do not fit because
// slopes are so close that rounding changes their order.
Incumbent Lightest(const Relaxation& r, std::pmr::memory_resource* memory);

// Solutions near a first one, `filled`, by changing at most three classes that
// it leaves at their bases. Both arguments must outlive it.
class Neighbours {
 public:
  Neighbours(const Relaxation& r, const Incumbent& filled,
             std::pmr::memory_resource* memory);

  // Takes the edge that no longer fits and lets one other class make room for
  // it; then, from there and from `filled` itself, adds the one change that
  // uses the remaining room best. O(classes * log items).
  void Greedily();

  // Tries pairs of deviations of different classes that together fill the room:
  // each deviation with the few that fit beside it best. O(n log n) for n
  // deviations, of which only the first 2^14 are considered.
  void InPairs(std::span<const CoreType> types,
               std::span<const Deviation> deviations);

  // Of the best solution so far.
  std::int64_t cost() const { return filled_.cost + best_.cost; }
  // Makes `filled` the best solution.
  void ApplyTo(Incumbent* filled) const;

 private:
  // Changes in addition to those of `filled_`, and what they add.
  struct Exchange {
    std::array<Change, 3> changes;
    std::size_t size = 0;
    std::int64_t cost = 0;
    std::int64_t weight = 0;
  };

  std::int64_t RoomAfter(const Exchange& exchange) const;
  void Add(const Change& change, Exchange* exchange) const;
  // Finds the change of an unchanged class that adds at most `room` to the
  // weight and least to the cost; false unless that is less than `most`.
  bool Cheapest(std::int64_t room, std::int64_t most, Change* change) const;
  // Adds one more change to `from`, and keeps the result if it is the best.
  void Extend(Exchange from);

  const Relaxation& r_;
  const Incumbent& filled_;
  std::pmr::memory_resource* memory_;
  std::pmr::vector<std::uint8_t> changed_;  // classes not at their base
  Exchange best_;
};

}  // namespace ucudnn::mckp_internal

#endif  // UCUDNN_SOLVER_KNAPSACK_INCUMBENT_H_
