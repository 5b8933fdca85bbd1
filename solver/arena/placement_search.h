#ifndef UCUDNN_SOLVER_ARENA_PLACEMENT_SEARCH_H_
#define UCUDNN_SOLVER_ARENA_PLACEMENT_SEARCH_H_

// Decides whether blocks fit into a pool of given capacity: the search behind
// Allocate (solver/arena/allocation.h).
//
// Time is cut into sections: the maximal sets of blocks that are live at once,
// in order of time. Each section has a floor, below which nothing more is
// placed. The search considers only placements in which every block rests on
// the bottom or on another block. A step takes a section whose candidates (the
// blocks that could lie on its floor) lie between higher walls, so that nothing
// can be placed below them, and branches on which of them lies there, or none:
//
//       |     |          floor of sections 2 and 3 lower than of 1 and 4:
//    ---+     +---       candidates are the blocks that live in 2, 3 or both
//       +-----+
//     1   2 3   4
//
//   - None: some block outside of the section must then lift the section's
//     lowest block. The floor rises to the least height at which that can be.
//   - A section's slack is the capacity above its floor less the sizes of its
//     remaining blocks; negative slack refutes the step. So does the same bound
//     with each block's own least offset.
//   - A block that lives in all sections of equal floors goes to the bottom.
//   - If no remaining block crosses from one section to the next, the two sides
//     are decided independently.
//   - Floors and remaining blocks determine what can follow, so refuted states
//     are remembered by a 64-bit hash (a false match in one of 2^64 look-ups).
//
// Moffitt, "MiniMalloc" (ASPLOS 2023), has canonical placements, bounds by
// section and the decomposition; it branches over all blocks by least offset.

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "solver/arena/best_fit.h"
#include "solver/arena/placement_state.h"
#include "solver/arena/refuted_states.h"
#include "solver/limits.h"

namespace ucudnn {

enum class Verdict {
  kFits,        // offsets() is a placement within the capacity
  kImpossible,  // there is none
  kUndecided,   // the limit or the stop ended the search
};

// Which of the possible sections a step takes.
enum class SectionRule {
  kFewestChoices,  // then the least slack, then the lowest floor
  kMostConflicts,  // fewest choices by refuted steps in the section
};

// The order in which a step tries the candidates: by length in sections, by the
// load of their fullest section, by area.
enum class BlockRule { kLongest, kMostCrowded, kCrowdedAndLong };

class PlacementSearch {
 public:
  // Blocks must have begin < end and size > 0. If `varied`, each call of Fit
  // takes sections of similar choices in another order, the same in every run.
  explicit PlacementSearch(std::span<const Block> blocks, bool varied = false);

  // Whether the blocks are few enough; if not, call nothing else.
  bool within_reach() const { return state_.within_reach(); }

  // Makes at most `limits.max_nodes` steps. Later calls, with whatever rules,
  // remember the states that this one refuted.
  Verdict Fit(std::int64_t capacity, SectionRule section_rule,
              BlockRule block_rule, std::int64_t max_steps,
              const Limits& limits);

  std::int64_t blocks() const { return state_.blocks(); }
  const std::vector<std::int64_t>& offsets() const { return state_.offsets(); }
  std::int64_t pool() const { return state_.pool(); }  // largest offset + size
  // Counted against limits.max_nodes: one node for every 256 blocks that a step
  // examines, so that a node takes about a microsecond in any instance.
  std::int64_t nodes() const { return steps_ + state_.looks() / 256; }

 private:
  using Index = PlacementState::Index;

  void Rank(BlockRule rule);
  Verdict FitRange(Index first, Index last);
  Verdict FitComponent(Index first, Index last);
  Verdict Branch(Index first, Index last, Index section);
  Index ChooseSection(Index first, Index last);
  void FindWalls(Index first, Index last);
  Index FindThroughout(Index first, Index last) const;
  std::int64_t LiftedFloor(Index section) const;
  bool IsUnderNothing(Index block) const;

  static std::size_t At(Index index) { return PlacementState::At(index); }

  PlacementState state_;
  RefutedStates refuted_;  // of all calls
  bool varied_;
  SectionRule section_rule_ = SectionRule::kFewestChoices;
  std::mt19937_64 random_;
  std::int64_t steps_ = 0;
  std::int64_t last_step_ = 0;
  std::int64_t depth_ = 0;
  Limits limits_;
  std::vector<Index> rank_;        // of blocks
  std::vector<Index> candidates_;  // of all open steps
  // Of sections: the nearest ones with a lower floor, and scratch.
  std::vector<Index> lower_before_;
  std::vector<Index> lower_after_;
  std::vector<Index> rising_;
};

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_ARENA_PLACEMENT_SEARCH_H_
