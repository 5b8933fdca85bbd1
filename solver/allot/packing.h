#ifndef UCUDNN_SOLVER_ALLOT_PACKING_H_
#define UCUDNN_SOLVER_ALLOT_PACKING_H_

// Takes one choice for each job so that all fit the free devices, for
// solver/allot: a depth-first search over the jobs.
//
// For any prices, what the remaining jobs can add to the value is at most the
// sum of their largest (value - price), plus the price of the devices that are
// left. The least of these bounds over several price vectors ends a branch. Two
// branches that leave the same devices to the same jobs differ in their value
// alone, so the lesser one ends.

#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
#include <vector>

#include "solver/allot/curve.h"

namespace ucudnn::allot_internal {

struct Option {
  Counts counts{};
  std::int64_t value = 0;
};

struct PackingProblem {
  std::span<const std::int64_t> free;
  std::vector<std::vector<Option>> jobs;
  std::vector<Prices> prices;  // the first ones guide the search
  std::int64_t at_least = 0;   // only packings of at least this value count
  bool any = false;            // whether the first packing ends the search
};

struct Packing {
  // The option of each job; empty if no packing was found.
  std::vector<std::size_t> options;
  std::int64_t value = 0;
  bool complete = false;  // no packing is of a higher value, unless any
};

// `nodes` counts down; the search ends when it is used up or `stop` requested.
Packing Pack(const PackingProblem& problem, std::int64_t* nodes,
             const std::stop_token& stop);

}  // namespace ucudnn::allot_internal

#endif  // UCUDNN_SOLVER_ALLOT_PACKING_H_
