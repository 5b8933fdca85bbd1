#ifndef UCUDNN_SOLVER_MEMORY_BEST_ROUND_SEARCH_H_
#define UCUDNN_SOLVER_MEMORY_BEST_ROUND_SEARCH_H_

// What a round does so that it fits into a capacity and takes the least time:
// which blocks are away in which gaps, and which are computed again.
//
//   1. Gaps are chosen until all fits (CoverExcess).
//   2. With recomputation, the blocks that take the least time a byte are
//      computed again: of several numbers of them the one is taken, with step 1
//      for what is left, that makes the round shortest. Where a few large
//      blocks have most of the bytes, all choices of these are tried, each with
//      step 3. Then blocks are added and dropped one by one, and at last one or
//      two at a time at random, also where that makes the round a little
//      longer: by less and less (threshold accepting; G. Dueck and T. Scheuer,
//      J. Comput. Phys. 90, 1990). A block that would be computed again and
//      then be moved is repeated instead (ProgramChoices::repeated), if that is
//      faster. If the round does not fit otherwise, all blocks that are
//      computed again are repeated.
//   3. The gaps are improved (ImproveChoice).
//
// Deterministic: the effort is a number of schedules, and of programs.

#include <cstdint>
#include <memory>
#include <vector>

#include "solver/memory/best/gap_search.h"
#include "solver/memory/best/program.h"
#include "solver/memory/best/schedule.h"
#include "solver/memory/best/task_options.h"
#include "solver/memory/round_model.h"

namespace ucudnn {

struct RoundLimits {
  GapLimits gaps;
  std::int64_t programs = 0;  // with recomputation; 0: nothing runs twice
  // Part of the capacity, if nothing runs twice (KeepReserve).
  double reserve = 0;
};

struct FoundRound {
  std::unique_ptr<RoundProgram> program;
  std::unique_ptr<Scheduler> scheduler;  // refers to the program
  GapChoice choice;
};

// All steps; `choices` are those to begin with. `starts` are what other
// searches of the round chose, tried in step 2: the result is no worse than
// with one of them. Something is missing in the result if no way was found to
// fit. `round` and `options` must outlive it.
FoundRound SearchRound(const RoundModel& round, const TaskOptions& options,
                       const ProgramChoices& choices, const RoundLimits& limits,
                       const std::vector<ProgramChoices>& starts = {});

// The next smaller one of a ladder of budgets a quarter of an octave apart, and
// 0 below the last. The
// fastest plan within a budget and all rungs below it is what searches answer,
// so that more budget is seldom slower, though no search finds all plans.
Bytes RungBelow(Bytes budget);

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_MEMORY_BEST_ROUND_SEARCH_H_
