#include "solver/knapsack/mckp.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <memory_resource>
#include <numeric>
#include <utility>

#include "solver/check/validate.h"
#include "solver/check/validate_choice.h"
#include "solver/knapsack/classes.h"
#include "solver/knapsack/core.h"
#include "solver/knapsack/incumbent.h"
#include "solver/knapsack/relaxation.h"

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
using mckp_internal::Survey;
using mckp_internal::Wide;

std::int64_t CeilDivide(Wide a, Wide b) {
  return static_cast<std::int64_t>(a > 0 ? (a + b - 1) / b : a / b);
}

// Sets `step` to the greatest common divisor of itself and `value`. Nearly
// always it is that already, which is much faster to check.
void TightenStep(std::int64_t value, std::int64_t* step) {
  if (*step == 1 || (*step != 0 && value % *step == 0)) return;
  *step = std::gcd(*step, value);
}

constexpr std::uint32_t kNoChange = std::numeric_limits<std::uint32_t>::max();

MckpSolution Assemble(std::span<const MckpClass> classes, const Survey& survey,
                      const Relaxation& r, const Incumbent& found,
                      std::pmr::memory_resource* memory) {
  MckpSolution solution;
  solution.cost = r.base_cost + found.cost;
  solution.weight = r.base_weight + found.weight;
  // The items that the copies of each front take: its changes first, then the
  // base.
  struct Taken {
    std::uint32_t base = 0;
    std::uint32_t change = kNoChange;
  };
  std::pmr::vector<Taken> taken(r.fronts.size(), memory);
  for (std::size_t f = 0; f < r.fronts.size(); ++f) {
    taken[f].base = r.fronts[f].Original(r.hull[r.fronts[f].base]);
  }
  struct Left {
    std::int64_t copies = 0;
    std::uint32_t item = 0;
    std::uint32_t next = kNoChange;  // of the same front
  };
  std::pmr::vector<Left> left(memory);
  left.reserve(found.changes.size());
  for (const Change& change : found.changes) {
    std::uint32_t& head = taken[change.front].change;
    left.push_back(
        {change.copies, r.fronts[change.front].Original(change.item), head});
    head = static_cast<std::uint32_t>(left.size() - 1);
  }
  std::vector<std::uint32_t>& choice = solution.choice;
  choice.reserve(static_cast<std::size_t>(survey.copies));
  const auto take = [&choice](std::uint32_t item, std::int64_t copies) {
    choice.insert(choice.end(), static_cast<std::size_t>(copies), item);
  };
  for (std::size_t k = 0; k < classes.size(); ++k) {
    Taken& of = taken[r.kinds.of[k]];
    std::int64_t copies = classes[k].count;
    while (of.change != kNoChange && copies > 0) {
      Left& change = left[of.change];
      const std::int64_t now = std::min(copies, change.copies);
      take(change.item, now);
      copies -= now;
      change.copies -= now;
      if (change.copies == 0) of.change = change.next;
    }
    take(of.base, copies);
  }
  return solution;
}

// If every class's cheapest item fits, there is nothing to choose.
MckpSolution Cheapest(std::span<const MckpClass> classes,
                      const Survey& survey) {
  MckpSolution solution;
  solution.choice = mckp_internal::CheapestChoice(classes, survey);
  solution.cost = survey.cheapest_cost;
  solution.weight = survey.cheapest_weight;
  solution.lower_bound = solution.cost;
  solution.optimal = true;
  return solution;
}

Result<MckpSolution> Solve(std::span<const MckpClass> classes,
                           std::int64_t capacity, const Limits& limits) {
  UCUDNN_ASSIGN_OR_RETURN(const Survey survey,
                          mckp_internal::SurveyOf(classes));
  if (survey.cheapest_weight <= capacity) return Cheapest(classes, survey);

  // Uses the stack while it suffices: on the fronts of ResNet-50 and ResNet-152
  // measured on an H200 (tests/bench/mckp_bench.cc), heap memory makes the
  // search up to 20 % slower, 1 us of 6.
  std::array<std::byte, std::size_t{32} << 10> buffer;
  std::pmr::monotonic_buffer_resource scratch(buffer.data(), buffer.size());
  Relaxation r(&scratch);
  UCUDNN_RETURN_IF_ERROR(mckp_internal::Relax(classes, survey, capacity, &r));
  const bool bases_fit = r.base_weight <= capacity;
  Incumbent found = bases_fit ? mckp_internal::FillAtPrice(&r, &scratch)
                              : mckp_internal::Lightest(r, &scratch);
  Neighbours neighbours(r, found, &scratch);
  if (bases_fit) neighbours.Greedily();
  // How much the losses and unused capacity of a better solution may cost.
  const auto gap = [&](std::int64_t step) {
    return Wide{r.base_cost + neighbours.cost() - step} * r.price_q - r.bound;
  };

  // The core: the items that may replace the relaxation's in a better solution.
  std::pmr::vector<CoreType> types(&scratch);
  std::pmr::vector<Deviation> deviations(&scratch);
  if (gap(1) >= 0) {
    mckp_internal::FindCore(r, gap(1), &types, &deviations);
    neighbours.InPairs(types, deviations);
  }

  // Costs and weights of better solutions are multiples of steps.
  std::int64_t cost_step = 0;
  std::int64_t weight_step = 0;
  for (const Deviation& d : deviations) {
    TightenStep(d.cost, &cost_step);
    TightenStep(d.weight, &weight_step);
  }
  // Steps count from the bases. The best solution so far need not be made of
  // them, and its changes need not be among the deviations.
  if (cost_step == 0 || !bases_fit) cost_step = 1;
  TightenStep(neighbours.cost(), &cost_step);
  if (weight_step > 0) {
    const std::int64_t room = capacity - r.base_weight;
    const std::int64_t unusable =
        (room % weight_step + weight_step) % weight_step;
    r.capacity -= unusable;
    r.bound += Wide{r.price_p} * unusable;
  }

  const bool searched = gap(cost_step) >= 0 && !types.empty();
  neighbours.ApplyTo(&found);
  bool proven = true;
  std::int64_t open_bound = found.cost;
  std::int64_t nodes = 0;
  if (searched) {
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

  MckpSolution solution = Assemble(classes, survey, r, found, &scratch);
  solution.nodes = nodes;
  solution.lower_bound =
      proven ? solution.cost
             : std::min(solution.cost, std::max(CeilDivide(r.bound, r.price_q),
                                                r.base_cost + open_bound));
  solution.optimal = solution.lower_bound == solution.cost;
  return solution;
}

}  // namespace

Result<MckpSolution> SolveMckp(std::span<const MckpClass> classes,
                               std::int64_t capacity, const Limits& limits) {
  Result<MckpSolution> solution = Solve(classes, capacity, limits);
  if (kSolversCheckThemselves && solution)
    RequireValid(ValidateMckp(*solution, classes, capacity));
  return solution;
}

}  // namespace ucudnn
