#include "solver/mckp.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "solver/mckp_core.h"
#include "solver/mckp_relaxation.h"
#include "solver/validate.h"
#include "solver/validate_choice.h"

namespace ucudnn {
namespace {

using mckp_internal::Change;
using mckp_internal::Core;
using mckp_internal::CoreType;
using mckp_internal::Deviation;
using mckp_internal::Front;
using mckp_internal::Relaxation;
using mckp_internal::Wide;

std::int64_t CeilDivide(Wide a, Wide b) {
  return static_cast<std::int64_t>(a > 0 ? (a + b - 1) / b : a / b);
}

// A solution as changes of the relaxation's bases, and what they add to it.
struct Incumbent {
  std::vector<Change> changes;
  std::int64_t cost = 0;
  std::int64_t weight = 0;
};

// Fills the room that the bases leave with the edges that have exactly the
// price: bases move where all copies of a class fit, and the rest is a
// solution.
Incumbent FillAtPrice(Relaxation* r) {
  Incumbent found;
  std::int64_t room = r->capacity - r->base_weight;
  for (std::uint32_t k = 0; k < r->fronts.size(); ++k) {
    Front& front = r->fronts[k];
    while (front.base + 1 < front.hull_end) {
      const std::uint32_t next = r->hull[front.base + 1];
      if (r->Loss(front, front.items[next]) != 0) break;
      const std::int64_t weight =
          front.items[next].weight - r->Base(front).weight;
      const std::int64_t cost = front.items[next].cost - r->Base(front).cost;
      const std::int64_t copies = std::min(front.count, room / weight);
      room -= weight * copies;
      if (copies == front.count) {
        r->base_weight += weight * copies;
        r->base_cost += cost * copies;
        ++front.base;
        continue;
      }
      if (copies > 0) {
        found.changes.push_back({k, next, copies});
        found.weight += weight * copies;
        found.cost += cost * copies;
      }
      break;
    }
  }
  return found;
}

// The lightest solution, for the rare case that the bases do not fit (slopes
// so close that their rounded values come in another order).
Incumbent Lightest(const Relaxation& r) {
  Incumbent found;
  for (std::uint32_t k = 0; k < r.fronts.size(); ++k) {
    const Front& front = r.fronts[k];
    if (front.base == front.hull_begin) continue;
    found.changes.push_back({k, 0, front.count});
    found.cost += (front.items[0].cost - r.Base(front).cost) * front.count;
    found.weight +=
        (front.items[0].weight - r.Base(front).weight) * front.count;
  }
  return found;
}

// Tries to improve `found` by one more deviation of a class that it leaves at
// its base.
void ImproveByOne(const Relaxation& r, const std::vector<CoreType>& types,
                  const std::vector<Deviation>& deviations, Incumbent* found) {
  const std::int64_t room = r.capacity - r.base_weight - found->weight;
  std::int64_t best = 0;
  Change change;
  auto used = found->changes.begin();  // both are in the order of the fronts
  for (const CoreType& type : types) {
    while (used != found->changes.end() && used->front < type.front) ++used;
    if (used != found->changes.end() && used->front == type.front) continue;
    for (std::uint32_t d = type.begin; d < type.end; ++d) {
      if (deviations[d].weight <= room && deviations[d].cost < best) {
        best = deviations[d].cost;
        change = {type.front, deviations[d].item, 1};
      }
    }
  }
  if (best == 0) return;
  const Front& front = r.fronts[change.front];
  found->cost += best;
  found->weight += front.items[change.item].weight - r.Base(front).weight;
  found->changes.push_back(change);
}

MckpSolution Assemble(const Relaxation& r, const Incumbent& found) {
  MckpSolution solution;
  solution.cost = r.base_cost + found.cost;
  solution.weight = r.base_weight + found.weight;
  std::vector<std::size_t> first(r.fronts.size());
  std::size_t copies = 0;
  for (std::size_t k = 0; k < r.fronts.size(); ++k) {
    first[k] = copies;
    copies += static_cast<std::size_t>(r.fronts[k].count);
  }
  solution.choice.resize(copies);
  for (std::size_t k = 0; k < r.fronts.size(); ++k) {
    const Front& front = r.fronts[k];
    std::fill_n(solution.choice.begin() + static_cast<std::ptrdiff_t>(first[k]),
                front.count, front.Original(r.hull[front.base]));
  }
  for (const Change& change : found.changes) {
    for (std::int64_t i = 0; i < change.copies; ++i) {
      solution.choice[first[change.front]++] =
          r.fronts[change.front].Original(change.item);
    }
  }
  return solution;
}

}  // namespace

Result<MckpSolution> SolveMckp(std::span<const MckpClass> classes,
                               std::int64_t capacity, const Limits& limits) {
  UCUDNN_ASSIGN_OR_RETURN(Relaxation r,
                          mckp_internal::Relax(classes, capacity));
  Incumbent found;
  if (r.base_weight > r.capacity) {
    found = Lightest(r);
  } else if (!r.everything_fits) {
    found = FillAtPrice(&r);
  }
  // What a better solution's losses and unused capacity may cost.
  const auto gap = [&](std::int64_t step) {
    return Wide{r.base_cost + found.cost - step} * r.price_q - r.bound;
  };

  // The core: what may deviate from the relaxation in a better solution.
  std::vector<CoreType> types;
  std::vector<Deviation> deviations;
  if (gap(1) >= 0) {
    for (std::uint32_t k = 0; k < r.fronts.size(); ++k) {
      const auto begin = static_cast<std::uint32_t>(deviations.size());
      mckp_internal::AppendDeviations(r, r.fronts[k], gap(1), &deviations);
      const auto end = static_cast<std::uint32_t>(deviations.size());
      if (end > begin) {
        CoreType type;
        type.front = k;
        type.begin = begin;
        type.end = end;
        type.count = r.fronts[k].count;
        types.push_back(type);
      }
    }
    ImproveByOne(r, types, deviations, &found);
  }

  // Costs and weights of better solutions come in steps.
  std::int64_t cost_step = 0;
  std::int64_t weight_step = 0;
  for (const Deviation& d : deviations) {
    if (cost_step == 1 && weight_step == 1) break;
    cost_step = std::gcd(cost_step, d.cost);
    weight_step = std::gcd(weight_step, d.weight);
  }
  // The steps count from the bases, which `found` need not be made of.
  if (cost_step == 0 || r.base_weight > r.capacity) cost_step = 1;
  std::int64_t unusable = 0;  // of the capacity
  if (weight_step > 0) {
    const std::int64_t room = capacity - r.base_weight;
    unusable = (room % weight_step + weight_step) % weight_step;
    r.capacity -= unusable;
    r.bound += r.price_p * unusable;
  }

  bool proven = true;
  std::int64_t open_bound = found.cost;
  std::int64_t nodes = 0;
  if (gap(cost_step) >= 0 && !types.empty()) {
    Core core(r, std::move(types), std::move(deviations), cost_step, limits);
    core.Search(found.cost);
    if (core.improved()) {
      found.changes = core.changes();
      found.cost = core.cost();
      found.weight = core.weight();
    }
    proven = core.proven();
    open_bound = core.open_bound();
    nodes = core.nodes();
  }

  MckpSolution solution = Assemble(r, found);
  solution.nodes = nodes;
  solution.lower_bound =
      proven ? solution.cost
             : std::min(solution.cost, std::max(CeilDivide(r.bound, r.price_q),
                                                r.base_cost + open_bound));
  solution.optimal = solution.lower_bound == solution.cost;
  if constexpr (kSolversCheckThemselves) {
    RequireValid(ValidateMckp(solution, classes, capacity));
  }
  return solution;
}

}  // namespace ucudnn
