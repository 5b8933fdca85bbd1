#include "solver/mckp.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "solver/mckp_core.h"
#include "solver/mckp_incumbent.h"
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
using mckp_internal::Incumbent;
using mckp_internal::Neighbours;
using mckp_internal::Relaxation;
using mckp_internal::Wide;

std::int64_t CeilDivide(Wide a, Wide b) {
  return static_cast<std::int64_t>(a > 0 ? (a + b - 1) / b : a / b);
}

// `step` becomes the greatest common divisor of itself and `value`. Nearly
// always it is that already, which is much sooner told than found.
void TightenStep(std::int64_t value, std::int64_t* step) {
  if (*step == 1 || (*step != 0 && value % *step == 0)) return;
  *step = std::gcd(*step, value);
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
    found = mckp_internal::Lightest(r);
  } else if (!r.everything_fits) {
    found = mckp_internal::FillAtPrice(&r);
  }
  const Incumbent filled = found;
  Neighbours neighbours(r, filled);
  if (!r.everything_fits && r.base_weight <= r.capacity) {
    neighbours.Greedily(&found);
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
    neighbours.InPairs(types, deviations, &found);
  }

  // Costs and weights of better solutions come in steps.
  std::int64_t cost_step = 0;
  std::int64_t weight_step = 0;
  for (const Deviation& d : deviations) {
    TightenStep(d.cost, &cost_step);
    TightenStep(d.weight, &weight_step);
  }
  // The steps count from the bases, which `found` need not be made of; what it
  // changes need not be among the deviations either.
  if (cost_step == 0 || r.base_weight > r.capacity) cost_step = 1;
  TightenStep(found.cost, &cost_step);
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
