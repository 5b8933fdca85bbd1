#include "solver/check/memory_ranges.h"

#include <algorithm>
#include <string>
#include <utility>

#include "solver/check/memory_violation.h"

namespace ucudnn::memory_check {

Result<std::size_t> OwnedRanges::ClaimBlock(std::optional<std::size_t> i,
                                            std::size_t block,
                                            MemoryRange range) {
  return Claim(i, range, {block, std::nullopt});
}

Status OwnedRanges::ClaimWorkspace(std::size_t i) {
  const Result<std::size_t> owner =
      Claim(i, round_.events[i].range, {std::nullopt, i});
  if (!owner) return tl::unexpected<Error>(owner.error());
  return {};
}

Result<std::size_t> OwnedRanges::Claim(std::optional<std::size_t> i,
                                       MemoryRange range, Owner owner) {
  const std::int64_t low = range.offset.count();
  const std::int64_t high = low + range.bytes.count();
  if (low < 0 || high > budget_.count()) {
    return Violation(12, i ? EventName(round_, graph_, *i) : "resident",
                     "[{}, {}) is not within the budget of {}", low, high,
                     budget_.count());
  }
  peak_ = std::max(peak_, Bytes(high));
  std::vector<Piece> kept;
  for (const Piece& piece : pieces_) {
    if (piece.high <= low || piece.low >= high) {
      kept.push_back(piece);
      continue;
    }
    UCUDNN_RETURN_IF_ERROR(CheckFree(i, piece, low, high));
    if (piece.low < low) kept.push_back({piece.low, low, piece.owner});
    if (piece.high > high) kept.push_back({high, piece.high, piece.owner});
  }
  kept.push_back({low, high, owners_.size()});
  pieces_ = std::move(kept);
  owners_.push_back(owner);
  return owners_.size() - 1;
}

Status OwnedRanges::CheckFree(std::optional<std::size_t> i, const Piece& piece,
                              std::int64_t low, std::int64_t high) const {
  const Owner& owner = owners_[piece.owner];
  if (owner.release && i && order_.Before(*owner.release, *i)) return {};
  const std::string where = i ? EventName(round_, graph_, *i) : "resident";
  const std::string whose =
      owner.block ? graph_.blocks[*owner.block].name
                  : fmt::format("the workspace of event {}", *owner.release);
  if (!owner.release) {
    return Violation(13, where, "[{}, {}) overlaps {}, which is live", low,
                     high, whose);
  }
  return Violation(14, where,
                   "[{}, {}) was {}'s; nothing makes this wait until event {} "
                   "has released it",
                   low, high, whose, *owner.release);
}

}  // namespace ucudnn::memory_check
