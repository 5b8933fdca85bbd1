#ifndef UCUDNN_SOLVER_MEMORY_BEST_ROUND_SEARCH_H_
#define UCUDNN_SOLVER_MEMORY_BEST_ROUND_SEARCH_H_

// Which blocks are away in which gaps, so that a round fits into a capacity and
// takes the least time.
//
//   1. While some task does not fit, the gap across the worst one that ends
//      last is added: of nested lifetimes the outermost leaves first.
//   2. Gaps are dropped, added and exchanged while that makes the round
//      shorter, or moves less in the same time.
//
// Deterministic: the effort is a number of schedules.

#include <cstdint>
#include <stop_token>
#include <vector>

#include "solver/memory/best/schedule.h"

namespace ucudnn {

struct GapChoice {
  std::vector<char> moved;  // by gap of the program
  RoundSchedule schedule;   // does not fit if there is no choice that does
};

// Step 1. `moved` may have gaps to begin with, or be empty.
GapChoice CoverExcess(Scheduler& scheduler, std::int64_t capacity,
                      std::vector<char> moved);

// Step 2, from a choice that fits, with at most `effort` schedules, which are
// subtracted from it. Ends early if it takes no more than `enough` ns.
void ImproveChoice(Scheduler& scheduler, std::int64_t capacity,
                   std::int64_t enough, const std::stop_token& stop,
                   std::int64_t* effort, GapChoice* choice);

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_MEMORY_BEST_ROUND_SEARCH_H_
