#ifndef UCUDNN_SOLVER_ALLOT_HALVES_H_
#define UCUDNN_SOLVER_ALLOT_HALVES_H_

// The packing of packing.h by meeting in the middle, for solver/allot.
//
// Against the bound of the first prices, a packing loses what each option's
// (value - price) lacks of its job's best, and the price of the devices that
// are left over. So a packing that loses little consists of options that lose
// little. The jobs are split into two halves, and for each half the least loss
// is found for every number of devices that it can take. A packing is a pair of
// one entry of each half and devices left over that make up all free devices:
//
//   jobs 1, 3, 4:   devices (2, 5), loss 7      free (6, 9)
//   jobs 2, 5:      devices (4, 3), loss 2  ->  left over (0, 1), price 4
//
// A depth-first search meets the pairs one by one; here each half has about the
// square root of their number.

#include <cstddef>
#include <cstdint>
#include <stop_token>

#include "solver/allot/packing.h"

namespace ucudnn::allot_internal {

// As Pack, but keeps at most `most_states` entries of a half: those of the
// least loss or, if `problem.any`, those that take of each kind about as many
// devices as the half's jobs should on average. If there are more entries, the
// result is not complete. `nodes` counts the entries that are made.
Packing PackHalves(const PackingProblem& problem, std::size_t most_states,
                   std::int64_t* nodes, const std::stop_token& stop);

}  // namespace ucudnn::allot_internal

#endif  // UCUDNN_SOLVER_ALLOT_HALVES_H_
