#ifndef UCUDNN_SOLVER_MCKP_RELAXATION_H_
#define UCUDNN_SOLVER_MCKP_RELAXATION_H_

// The linear relaxation of a multiple-choice knapsack, for solver/mckp.
//
//   cost                          A class's items by weight. Dominated ones (x)
//    |o                           cost no less than a lighter one. The lower
//    | \    x                     hull (o) is what the relaxation may choose
//    |  \      .                  from; each of its edges buys time at a rate,
//    |   o-__     .               the slope. Buying by falling slope until the
//    |       ---__o---___         capacity is spent solves the relaxation; the
//    |                   ---o     edge that no longer fits entirely gives the
//    +----------------------- w   price of one unit of weight.
//
// With the price p/q every item has a loss: what it costs, weight paid for,
// above the class's best. A solution costs the bound plus its losses plus the
// price of the capacity it leaves unused, so an item whose loss alone exceeds
// the gap to a known solution is in no better one.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "solver/mckp.h"

namespace ucudnn::mckp_internal {

__extension__ using Wide = __int128;

// One class's undominated items by rising weight, and its hull among them.
struct Front {
  const MckpItem* items = nullptr;
  const std::uint32_t* index = nullptr;  // into the caller's; null: the same
  std::uint32_t size = 0;
  std::uint32_t hull_begin = 0;  // in Relaxation::hull: positions in `items`
  std::uint32_t hull_end = 0;
  std::uint32_t base = 0;       // of the hull: the relaxation's choice, or the
                                // lightest of its several
  bool small_products = false;  // a cost times a weight is below 2^62
  std::int64_t count = 1;

  std::uint32_t Original(std::uint32_t position) const {
    return index == nullptr ? position : index[position];
  }
};

struct Relaxation {
  std::vector<Front> fronts;
  std::vector<std::uint32_t> hull;
  // What the fronts point to where the caller's items were not in order.
  std::vector<std::vector<MckpItem>> sorted_items;
  std::vector<std::vector<std::uint32_t>> sorted_index;

  std::int64_t capacity = 0;
  bool everything_fits = false;  // then every base is its class's cheapest
  std::optional<std::uint32_t> break_front;  // of the edge that does not fit
  Wide price_p = 0;  // cost per weight is price_p / price_q
  Wide price_q = 1;
  // Of the base items, all copies.
  std::int64_t base_cost = 0;
  std::int64_t base_weight = 0;
  // The bound times price_q: no solution costs less than bound / price_q.
  Wide bound = 0;

  const MckpItem& Base(const Front& front) const {
    return front.items[hull[front.base]];
  }
  // Times price_q; never negative.
  Wide Loss(const Front& front, const MckpItem& item) const {
    const MckpItem& base = Base(front);
    return Wide{item.cost - base.cost} * price_q +
           price_p * Wide{item.weight - base.weight};
  }
};

// Errors: those of SolveMckp.
Result<Relaxation> Relax(std::span<const MckpClass> classes,
                         std::int64_t capacity);

// An item that may still be part of a better solution, against its class's
// base.
struct Deviation {
  std::int64_t cost = 0;    // added to the base's
  std::int64_t weight = 0;  // added to the base's
  Wide loss = 0;            // times price_q
  std::uint32_t item = 0;   // in Front::items
};

// Appends the items of `front` but its base whose loss is at most `gap`, the
// smallest loss first.
void AppendDeviations(const Relaxation& relaxation, const Front& front,
                      Wide gap, std::vector<Deviation>* out);

}  // namespace ucudnn::mckp_internal

#endif  // UCUDNN_SOLVER_MCKP_RELAXATION_H_
