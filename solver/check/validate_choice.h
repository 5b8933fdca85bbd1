#ifndef UCUDNN_SOLVER_CHECK_VALIDATE_CHOICE_H_
#define UCUDNN_SOLVER_CHECK_VALIDATE_CHOICE_H_

// Checks Pareto fronts, and choices from them, in the slow obvious way. As in
// solver/check/validate.h, kInternal names the first rule that is broken.

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/profile.h"
#include "base/result.h"
#include "base/units.h"
#include "solver/knapsack/mckp.h"
#include "solver/knapsack/wd.h"
#include "solver/micro_batch/pareto.h"
#include "solver/micro_batch/wr.h"

namespace ucudnn {

// Ok if `front` is a front of `points` for `request`:
//   - it is not empty, workspaces rise to no more than the limit, times fall;
//   - no undivided execution is faster than the front's point within its
//     workspace;
//   - each point has the time and workspace of its micro-batches. This costs
//     one SolveWr a point, so at most `witnesses` points are checked, including
//     the first and the last.
Status ValidateFront(const ParetoFront& front,
                     std::span<const MeasuredPoint> points,
                     const WrRequest& request, std::size_t witnesses);

// Ok if `division` takes one point of each front within `limit`, and its
// figures add up.
Status ValidateDivision(const Division& division,
                        std::span<const std::span<const FrontPoint>> fronts,
                        Bytes limit);

// Ok if `solution` takes one item for each copy of a class, fits, and its
// figures add up, and if, when it claims to be optimal, no single copy could
// take a cheaper item. O(items of all copies).
Status ValidateMckp(const MckpSolution& solution,
                    std::span<const MckpClass> classes, std::int64_t capacity);

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_CHECK_VALIDATE_CHOICE_H_
