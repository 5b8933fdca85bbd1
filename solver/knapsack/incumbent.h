#ifndef UCUDNN_SOLVER_KNAPSACK_INCUMBENT_H_
#define UCUDNN_SOLVER_KNAPSACK_INCUMBENT_H_

// Good solutions of a multiple-choice knapsack from its relaxation, for
// solver/knapsack/mckp. The closer they come to the bound, the fewer items are
// left for the core, and the less there is to search.

#include <array>
#include <cstdint>
#include <memory_resource>
#include <span>
#include <vector>

#include "solver/knapsack/core.h"
#include "solver/knapsack/relaxation.h"

namespace ucudnn::mckp_internal {

// A solution as changes of the relaxation's bases, and what they add to it.
struct Incumbent {
  explicit Incumbent(std::pmr::memory_resource* memory) : changes(memory) {}

  std::pmr::vector<Change> changes;
  std::int64_t cost = 0;
  std::int64_t weight = 0;
};

// Fills the room that the bases leave with the edges that have exactly the
// price: bases move where all copies of a class fit, and the rest is a
// solution.
Incumbent FillAtPrice(Relaxation* r, std::pmr::memory_resource* memory);

// The lightest solution, for the rare case that the bases do not fit (slopes
// so close that their rounded values come in another order).
Incumbent Lightest(const Relaxation& r, std::pmr::memory_resource* memory);

// Solutions near a first one, `filled`, by changing at most three classes that
// it leaves at their bases. Both arguments must outlive it.
class Neighbours {
 public:
  Neighbours(const Relaxation& r, const Incumbent& filled,
             std::pmr::memory_resource* memory);

  // The edge that no longer fits, taken all the same, and what one other class
  // gives up for it; then, as from `filled` itself, the one change that uses
  // the room that is left best. O(classes * log items).
  void Greedily();

  // Two deviations of different classes that together fill the room: for each
  // the few that fit beside it best. O(n log n) for n deviations, of which
  // the first 2^14 are looked at.
  void InPairs(std::span<const CoreType> types,
               std::span<const Deviation> deviations);

  // Of the best solution so far.
  std::int64_t cost() const { return filled_.cost + best_.cost; }
  // Makes `filled` the best solution.
  void ApplyTo(Incumbent* filled) const;

 private:
  // Changes beside those of `filled_`, and what they add to it.
  struct Exchange {
    std::array<Change, 3> changes;
    std::size_t size = 0;
    std::int64_t cost = 0;
    std::int64_t weight = 0;
  };

  std::int64_t RoomAfter(const Exchange& exchange) const;
  void Add(const Change& change, Exchange* exchange) const;
  // The change of an unchanged class that adds at most `room` to the weight
  // and least to the cost, if that is less than `most`.
  bool Cheapest(std::int64_t room, std::int64_t most, Change* change) const;
  // `from` with one more change, if that is the best.
  void Extend(Exchange from);

  const Relaxation& r_;
  const Incumbent& filled_;
  std::pmr::memory_resource* memory_;
  std::pmr::vector<std::uint8_t> changed_;  // classes not at their base
  Exchange best_;
};

}  // namespace ucudnn::mckp_internal

#endif  // UCUDNN_SOLVER_KNAPSACK_INCUMBENT_H_
