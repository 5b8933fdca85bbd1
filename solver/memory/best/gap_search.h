#ifndef UCUDNN_SOLVER_MEMORY_BEST_GAP_SEARCH_H_
#define UCUDNN_SOLVER_MEMORY_BEST_GAP_SEARCH_H_

// Which blocks are away in which gaps of a program, so that its round fits into
// a capacity and takes the least time.
//
// Deterministic: the effort is a number of schedules.

#include <cstdint>
#include <stop_token>

#include "solver/memory/best/schedule.h"

namespace ucudnn {

struct GapChoice {
  RoundChoices choices;
  // What the largest task lacks if all gaps together do not make enough room.
  std::int64_t missing = 0;
  RoundSchedule schedule;  // fits if nothing is missing
};

// Whether `a` is better: what lacks less, then what takes less time, then what
// moves less.
bool Better(const GapChoice& a, const GapChoice& b);

// While some task does not fit, adds the gap across the worst one that ends
// last: of nested lifetimes the outermost leaves first.
GapChoice CoverExcess(Scheduler& scheduler, std::int64_t capacity);

struct GapLimits {
  std::int64_t capacity = 0;  // bytes for all blocks and workspaces
  std::int64_t enough = 0;    // ns that need not be beaten
  std::int64_t effort = 0;    // schedules
  std::stop_token stop = {};
};

// From a choice that fits: drops, adds and exchanges gaps, and gives tasks less
// workspace or more, while that makes the round shorter, or moves less in the
// same time. Where nothing does, goes on from a few changes at random, or from
// gaps chosen at random until all fits.
void ImproveChoice(Scheduler& scheduler, const GapLimits& limits,
                   GapChoice* choice);

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_MEMORY_BEST_GAP_SEARCH_H_
