#ifndef UCUDNN_SOLVER_CHECK_MEMORY_RANGES_H_
#define UCUDNN_SOLVER_CHECK_MEMORY_RANGES_H_

// Who owned which part of the pool last: R12 to R14.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "base/training/graph.h"
#include "base/training/memory_plan.h"
#include "base/units.h"
#include "solver/check/memory_order.h"

namespace ucudnn::memory_check {

class OwnedRanges {
 public:
  // All must outlive this.
  OwnedRanges(const MemoryRound& round, const TrainingGraph& graph,
              const EventOrder& order, Bytes budget)
      : round_(round), graph_(graph), order_(order), budget_(budget) {}

  // Gives a range to a block from event `i` on (absent: from the round's
  // start); returns its owner's number. Fails unless the range is within the
  // budget and everything that owned a part of it was released before.
  Result<std::size_t> ClaimBlock(std::optional<std::size_t> i,
                                 std::size_t block, MemoryRange range);
  // Gives a range to task event `i`, which releases it at its end.
  Status ClaimWorkspace(std::size_t i);
  // Event `i` releases what the owner has.
  void Release(std::size_t owner, std::size_t i) { owners_[owner].release = i; }

  // The end of the highest range so far.
  Bytes peak() const { return peak_; }

 private:
  struct Owner {
    std::optional<std::size_t> block;  // absent: a workspace
    std::optional<std::size_t> release;
  };
  struct Piece {
    std::int64_t low;
    std::int64_t high;
    std::size_t owner;
  };

  Result<std::size_t> Claim(std::optional<std::size_t> i, MemoryRange range,
                            Owner owner);
  Status CheckFree(std::optional<std::size_t> i, const Piece& piece,
                   std::int64_t low, std::int64_t high) const;

  const MemoryRound& round_;
  const TrainingGraph& graph_;
  const EventOrder& order_;
  const Bytes budget_;
  std::vector<Owner> owners_;
  std::vector<Piece> pieces_;  // of the pool, apart from each other
  Bytes peak_;
};

}  // namespace ucudnn::memory_check

#endif  // UCUDNN_SOLVER_CHECK_MEMORY_RANGES_H_
