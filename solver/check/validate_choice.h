#ifndef UCUDNN_SOLVER_CHECK_VALIDATE_CHOICE_H_
#define UCUDNN_SOLVER_CHECK_VALIDATE_CHOICE_H_

// Checks of Pareto fronts, and of what was chosen from them, the slow obvious
// way. As in solver/check/validate.h: kInternal names the first rule that is
// broken.

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

// Ok if `front` is one of `points` for `request`:
//   - it is not empty, workspaces rise to no more than the limit, times fall;
//   - no undivided execution is faster than what the front has within its
//     workspace;
//   - points are those of the micro-batches that belong to them. This costs a
//     SolveWr each, so of the front at most `witnesses` are looked at, the
//     first and the last among them.
Status ValidateFront(const ParetoFront& front,
                     std::span<const MeasuredPoint> points,
                     const WrRequest& request, std::size_t witnesses);

// Ok if `division` takes one point of each front, within `limit`, and adds up.
Status ValidateDivision(const Division& division,
                        std::span<const std::span<const FrontPoint>> fronts,
                        Bytes limit);

// Ok if `solution` takes one item of each class's copy, fits and adds up, and,
// where it is said to be optimal, taking another item for one copy never costs
// less. O(items of all copies).
Status ValidateMckp(const MckpSolution& solution,
                    std::span<const MckpClass> classes, std::int64_t capacity);

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_CHECK_VALIDATE_CHOICE_H_
