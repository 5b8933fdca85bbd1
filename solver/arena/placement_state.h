#ifndef UCUDNN_SOLVER_ARENA_PLACEMENT_STATE_H_
#define UCUDNN_SOLVER_ARENA_PLACEMENT_STATE_H_

// What a placement search (solver/arena/placement_search.h) has decided so far,
// section by section, what follows from it, and how to take it back.
//
// Everything placed counts as part of its sections' floors. A remaining block
// has a least offset: the highest floor below it. Whatever changes one of these
// is followed through all sections concerned, which refutes the state where a
// section's remaining blocks no longer fit.

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "solver/arena/best_fit.h"

namespace ucudnn {

class PlacementState {
 public:
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
  // A point to return to.
  struct Mark {
    std::size_t changes;
    std::size_t outlooks;
  };

  // The largest number of (block, section) pairs that are accepted; each needs
  // about 16 bytes.
  static constexpr std::int64_t kMostSpans = std::int64_t{1} << 22;

  // Blocks must have begin < end and size > 0.
  explicit PlacementState(std::span<const Block> blocks);

  // Whether the blocks are few enough; if not, call nothing else.
  bool within_reach() const { return within_reach_; }

  // Nothing is placed. False if the capacity does not suffice. Refuted sections
  // count as conflicts if that is wanted.
  bool Begin(std::int64_t capacity, bool counts_conflicts);

  // Puts a block onto its least offset, or raises a section's floor; false if
  // the rest cannot fit then, and the state is good for Undo alone.
  bool Place(Index block);
  bool RaiseFloor(Index section, std::int64_t floor);
  Mark Here() const { return {changes_.size(), outlook_changes_.size()}; }
  void Undo(const Mark& mark);

  static std::size_t At(Index index) { return static_cast<std::size_t>(index); }
  Index blocks() const { return static_cast<Index>(blocks_.size()); }
  Index sections() const { return static_cast<Index>(live_.size()); }

  // Of a block; the crowd is the load of its fullest section.
  const Span& span(Index block) const { return span_[At(block)]; }
  std::int64_t size(Index block) const { return blocks_[At(block)].size; }
  std::int64_t least(Index block) const { return least_[At(block)]; }
  std::int64_t Crowd(Index block) const;

  // Of a section: its remaining blocks, how many these are and how many of them
  // live in the next section too, the capacity above its floor less their
  // sizes.
  std::span<const Index> Live(Index section) const {
    return {live_[At(section)].data(), At(remaining_[At(section)])};
  }
  Index remaining(Index section) const { return remaining_[At(section)]; }
  Index crossing(Index section) const { return crossing_[At(section)]; }
  std::int64_t floor(Index section) const { return floor_[At(section)]; }
  std::int64_t Slack(Index section) const {
    return capacity_ - floor_[At(section)] - stacked_[At(section)];
  }
  const Outlook& outlook(Index section) const { return outlook_[At(section)]; }
  // Refuted steps, of all that was counted; at least 1.
  double conflicts(Index section) const { return conflicts_[At(section)]; }

  // Of the sections [first, last), whatever led there; never 0.
  std::uint64_t KeyOf(Index first, Index last) const;

  // Of placed blocks.
  const std::vector<std::int64_t>& offsets() const { return offset_; }
  std::int64_t pool() const;                     // the largest offset + size
  std::int64_t looks() const { return looks_; }  // blocks examined

 private:
  struct Change {
    enum Kind : Index { kFloor, kLeast, kPlaced } kind;
    Index index;
    std::int64_t old;
  };

  void CutIntoSections();
  bool RaiseLeast(Index block, std::int64_t offset);
  void MarkDirty(Index section);
  bool Propagate();
  bool Examine(Index section);
  bool StackFits(Index section, std::int64_t highest) const;

  std::vector<Block> blocks_;
  bool within_reach_ = true;

  // Of blocks.
  std::vector<Span> span_;
  std::vector<std::int64_t> offset_;
  std::vector<std::int64_t> least_;  // the lowest offset still possible
  std::vector<char> placed_;
  std::vector<std::vector<Index>> place_in_live_;  // by section from its first

  // Of sections.
  std::vector<std::vector<Index>> live_;  // remaining blocks, then placed ones
  std::vector<std::vector<Index>> starts_;  // blocks whose first section it is
  std::vector<Index> remaining_;
  std::vector<Index> crossing_;
  std::vector<std::int64_t> floor_;
  std::vector<std::int64_t> stacked_;  // sum of remaining sizes
  std::vector<std::int64_t> crowd_;    // sum of all sizes
  std::vector<Outlook> outlook_;
  std::vector<std::uint64_t> signature_;  // of the remaining of starts_
  std::vector<double> conflicts_;

  std::int64_t capacity_ = 0;
  bool counts_conflicts_ = false;
  std::int64_t looks_ = 0;

  std::vector<Change> changes_;
  std::vector<std::pair<Index, Outlook>> outlook_changes_;
  std::vector<Index> dirty_;  // sections to examine
  std::vector<char> is_dirty_;
};

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_ARENA_PLACEMENT_STATE_H_
