#ifndef UCUDNN_SOLVER_MEMORY_BEST_ROUND_SEARCH_H_
#define UCUDNN_SOLVER_MEMORY_BEST_ROUND_SEARCH_H_

// What a round does so that it fits into a capacity and takes the least time:
// which blocks are away in which gaps, and which are computed again.
//
//   1. While some task does not fit, the gap across the worst one that ends
//      last is added: of nested lifetimes the outermost leaves first.
//   2. With recomputation, the blocks that take the least time a byte are
//      computed again: of several numbers of them the one is taken, with step 1
//      for what is left, that makes the round shortest; then blocks are added
//      and dropped one by one.
//   3. Gaps are dropped, added and exchanged while that makes the round
//      shorter, or moves less in the same time.
//
// Deterministic: the effort is a number of schedules, and of programs.

#include <cstdint>
#include <memory>
#include <stop_token>
#include <vector>

#include "solver/memory/best/program.h"
#include "solver/memory/best/schedule.h"
#include "solver/memory/best/task_options.h"
#include "solver/memory/round_model.h"

namespace ucudnn {

struct GapChoice {
  std::vector<char> moved;  // by gap of the program
  // What the largest task lacks if all gaps together do not make enough room.
  std::int64_t missing = 0;
  RoundSchedule schedule;  // fits if nothing is missing
};

// Step 1.
GapChoice CoverExcess(Scheduler& scheduler, std::int64_t capacity);

// Step 3, from a choice that fits, with at most `effort` schedules. Ends early
// if the round takes no more than `enough` ns.
void ImproveChoice(Scheduler& scheduler, std::int64_t capacity,
                   std::int64_t enough, std::int64_t effort,
                   const std::stop_token& stop, GapChoice* choice);

struct RoundLimits {
  std::int64_t capacity = 0;  // bytes for all blocks and workspaces
  std::int64_t enough = 0;    // ns
  std::int64_t effort = 0;    // schedules
  std::int64_t programs = 0;  // with recomputation; 0: nothing runs twice
  std::stop_token stop = {};
};

struct PlannedRound {
  std::unique_ptr<RoundProgram> program;
  std::unique_ptr<Scheduler> scheduler;  // refers to the program
  GapChoice choice;
};

// All steps; `choices` are those to begin with. Something is missing in the
// result if no way was found to fit. `round` and `options` must outlive it.
PlannedRound SearchRound(const RoundModel& round, const TaskOptions& options,
                         const ProgramChoices& choices,
                         const RoundLimits& limits);

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_MEMORY_BEST_ROUND_SEARCH_H_
