#ifndef UCUDNN_SOLVER_MCKP_INCUMBENT_H_
#define UCUDNN_SOLVER_MCKP_INCUMBENT_H_

// Good solutions of a multiple-choice knapsack from its relaxation, for
// solver/mckp. The closer they come to the bound, the fewer items are left
// for the core, and the less there is to search.

#include <cstdint>
#include <vector>

#include "solver/mckp_core.h"
#include "solver/mckp_relaxation.h"

namespace ucudnn::mckp_internal {

// A solution as changes of the relaxation's bases, and what they add to it.
struct Incumbent {
  std::vector<Change> changes;
  std::int64_t cost = 0;
  std::int64_t weight = 0;
};

// Fills the room that the bases leave with the edges that have exactly the
// price: bases move where all copies of a class fit, and the rest is a
// solution.
Incumbent FillAtPrice(Relaxation* r);

// The lightest solution, for the rare case that the bases do not fit (slopes
// so close that their rounded values come in another order).
Incumbent Lightest(const Relaxation& r);

// Solutions near a first one, `filled`, by changing at most three classes that
// it leaves at their bases. Both arguments must outlive it.
class Neighbours {
 public:
  Neighbours(const Relaxation& r, const Incumbent& filled);

  // The edge that no longer fits, taken all the same, and what one other class
  // gives up for it; then, as from `filled` itself, the one change that uses
  // the room that is left best. O(classes * log items).
  void Greedily(Incumbent* found);

  // Two deviations of different classes that together fill the room: for each
  // the few that fit beside it best. O(n log n) for n deviations, of which
  // the first 2^14 are looked at.
  void InPairs(const std::vector<CoreType>& types,
               const std::vector<Deviation>& deviations, Incumbent* found);

 private:
  std::int64_t RoomOf(const Incumbent& incumbent) const;
  void Add(const Change& change, Incumbent* incumbent) const;
  // The change of an unchanged class that adds at most `room` to the weight
  // and least to the cost, if that is less than `most`.
  bool Cheapest(std::int64_t room, std::int64_t most, Change* change) const;
  // `from` with one more change, if that is better than `found`.
  void Extend(const Incumbent& from, Incumbent* found) const;

  const Relaxation& r_;
  const Incumbent& filled_;
  std::vector<std::uint8_t> changed_;  // classes that are not at their base
};

}  // namespace ucudnn::mckp_internal

#endif  // UCUDNN_SOLVER_MCKP_INCUMBENT_H_
