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

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "solver/arena/best_fit.h"
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
  // The largest number of (block, section) pairs that the search accepts; it
  // needs about 16 bytes for each.
  static constexpr std::int64_t kMostSpans = std::int64_t{1} << 22;

  // Blocks must have begin < end and size > 0.
  explicit PlacementSearch(std::span<const Block> blocks);

  // Whether the blocks are few enough; if not, call nothing else.
  bool within_reach() const { return within_reach_; }

  // Makes at most `limits.max_nodes` steps. Later calls, with whatever rules,
  // remember the states that this one refuted.
  Verdict Fit(std::int64_t capacity, SectionRule section_rule,
              BlockRule block_rule, std::int64_t max_steps,
              const Limits& limits);

  const std::vector<std::int64_t>& offsets() const { return offset_; }
  std::int64_t pool() const;  // the largest offset + size
  // Counted against limits.max_nodes: one node for every 256 blocks that a step
  // examines, so that a node takes about a microsecond in any instance.
  std::int64_t nodes() const { return steps_ + looks_ / 256; }

 private:
  using Index = std::int32_t;
  struct Span {  // of a block: its sections [first, last)
    Index first;
    Index last;
  };
  // The basis for choosing a section.
  struct Outlook {
    Index candidates = 0;  // blocks whose least offset is the floor
    Index first = 0;       // sections that any candidate lives in
    Index last = 0;
  };
  struct Change {
    enum Kind : Index { kFloor, kLeast, kPlaced } kind;
    Index index;
    std::int64_t old;
  };
  struct Mark {
    std::size_t changes;
    std::size_t outlooks;
  };

  void CutIntoSections();
  void Rank(BlockRule rule);
  void Reset(std::int64_t capacity);

  Verdict FitRange(Index first, Index last);
  Verdict FitComponent(Index first, Index last);
  Verdict Branch(Index first, Index last, Index section);
  Index ChooseSection(Index first, Index last);
  void FindWalls(Index first, Index last);
  Index FindThroughout(Index first, Index last) const;
  std::int64_t LiftedFloor(Index section) const;

  bool Place(Index block);
  bool RaiseFloor(Index section, std::int64_t floor);
  bool RaiseLeast(Index block, std::int64_t offset);
  bool Propagate();
  bool Examine(Index section);
  bool StackFits(Index section, std::int64_t highest) const;
  bool IsUnderNothing(Index block) const;
  void MarkDirty(Index section);
  Mark Here() const { return {changes_.size(), outlook_changes_.size()}; }
  void Undo(const Mark& mark);

  std::uint64_t KeyOf(Index first, Index last) const;
  bool IsRefuted(std::uint64_t key) const;
  void Refute(std::uint64_t key);

  static std::size_t At(Index index) { return static_cast<std::size_t>(index); }
  std::span<const Index> Live(Index section) const {
    return {live_[At(section)].data(), At(remaining_[At(section)])};
  }
  std::int64_t Slack(Index section) const {
    return capacity_ - floor_[At(section)] - stacked_[At(section)];
  }

  std::vector<Block> blocks_;
  bool within_reach_ = true;

  // Of blocks.
  std::vector<Span> span_;
  std::vector<std::int64_t> offset_;
  std::vector<std::int64_t> least_;  // the lowest offset still possible
  std::vector<char> placed_;
  std::vector<Index> rank_;
  std::vector<std::vector<Index>> place_in_live_;  // by section from its first

  // Of sections.
  std::vector<std::vector<Index>> live_;  // remaining blocks, then placed ones
  std::vector<std::vector<Index>> starts_;  // blocks whose first section it is
  std::vector<Index> remaining_;
  std::vector<Index> crossing_;  // remaining blocks that live in the next too
  std::vector<std::int64_t> floor_;
  std::vector<std::int64_t> stacked_;  // sum of remaining sizes
  std::vector<std::int64_t> crowd_;    // sum of all sizes
  std::vector<Outlook> outlook_;
  std::vector<std::uint64_t> signature_;  // of the remaining of starts_
  std::vector<double> conflicts_;         // refuted steps, of all calls

  std::int64_t capacity_ = 0;
  SectionRule section_rule_ = SectionRule::kFewestChoices;
  std::int64_t steps_ = 0;
  std::int64_t looks_ = 0;  // blocks examined
  std::int64_t last_step_ = 0;
  std::int64_t depth_ = 0;
  Limits limits_;

  std::vector<Change> changes_;
  std::vector<std::pair<Index, Outlook>> outlook_changes_;
  std::vector<Index> dirty_;  // sections to examine
  std::vector<char> is_dirty_;
  std::vector<Index> candidates_;  // of all open steps
  // Of sections: the nearest ones with a lower floor, and scratch.
  std::vector<Index> lower_before_;
  std::vector<Index> lower_after_;
  std::vector<Index> rising_;

  std::vector<std::uint64_t> refuted_;
  std::size_t refuted_count_ = 0;
};

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_ARENA_PLACEMENT_SEARCH_H_
