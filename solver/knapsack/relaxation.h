#ifndef UCUDNN_SOLVER_KNAPSACK_RELAXATION_H_
#define UCUDNN_SOLVER_KNAPSACK_RELAXATION_H_

// The linear relaxation of a multiple-choice knapsack, for
// solver/knapsack/mckp.
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
// At the price p/q every item has a loss: its cost, including its weight at
// that price, above the class's best. A solution costs the bound plus its
// losses plus the price of the capacity it leaves unused, so an item whose loss
// alone exceeds the gap to a known solution is in no better one.

#include <cstdint>
#include <memory_resource>
#include <span>
#include <vector>

#include "base/result.h"
#include "solver/knapsack/classes.h"
#include "solver/knapsack/mckp.h"

namespace ucudnn::mckp_internal {

__extension__ using Wide = __int128;

// The undominated items by rising weight of all classes of one kind, and their
// hull.
struct Front {
  const MckpItem* items = nullptr;
  const std::uint32_t* index = nullptr;  // into the caller's items; null: same
  std::uint32_t size = 0;
  std::uint32_t hull_begin = 0;  // in Relaxation::hull: positions in `items`
  std::uint32_t hull_end = 0;
  std::uint32_t base = 0;  // of the hull: the relaxation's choice, the lightest
                           // if there are several
  std::int64_t count = 1;

  std::uint32_t Original(std::uint32_t position) const {
    return index == nullptr ? position : index[position];
  }
};

struct Relaxation {
  // `memory` must outlive it.
  explicit Relaxation(std::pmr::memory_resource* of)
      : memory(of),
        kinds(of),
        fronts(of),
        hull(of),
        sorted_items(of),
        sorted_index(of),
        at_price(of) {}

  std::pmr::memory_resource* memory;
  Kinds kinds;                     // of the caller's classes
  std::pmr::vector<Front> fronts;  // of each kind
  std::pmr::vector<std::uint32_t> hull;
  // Storage of fronts whose items the caller did not give in order.
  std::pmr::vector<MckpItem> sorted_items;
  std::pmr::vector<std::uint32_t> sorted_index;

  std::int64_t capacity = 0;
  std::uint32_t break_front = 0;  // of the edge that does not fit
  std::int64_t price_p = 0;       // cost per weight is price_p / price_q
  std::int64_t price_q = 1;
  // The fronts whose next edge has exactly the price, by rising number.
  std::pmr::vector<std::uint32_t> at_price;
  // Sums over the base items of all copies.
  std::int64_t base_cost = 0;
  std::int64_t base_weight = 0;
  // The bound times price_q: no solution costs less than bound / price_q.
  Wide bound = 0;

  const MckpItem& Base(const Front& front) const {
    return front.items[hull[front.base]];
  }
  // What `item` costs above `base`, including its weight at the price, times
  // price_q; never negative for the base of the same front.
  Wide Loss(const MckpItem& base, const MckpItem& item) const {
    return Wide{item.cost - base.cost} * price_q +
           Wide{item.weight - base.weight} * price_p;
  }
};

// Solves the relaxation of the surveyed classes, of which not all can take
// their cheapest item. kFailedPrecondition as SolveMckp.
Status Relax(std::span<const MckpClass> classes, const Survey& survey,
             std::int64_t capacity, Relaxation* relaxation);

}  // namespace ucudnn::mckp_internal

#endif  // UCUDNN_SOLVER_KNAPSACK_RELAXATION_H_
