#include "solver/arena/placement_state.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <numeric>
#include <utility>

namespace ucudnn {
namespace {

constexpr std::int64_t kNowhere = std::numeric_limits<std::int64_t>::max();

std::uint64_t Mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

}  // namespace

PlacementState::PlacementState(std::span<const Block> blocks)
    : blocks_(blocks.begin(), blocks.end()) {
  CutIntoSections();
}

// A section begins where a block begins, if one ends before the next begins.
void PlacementState::CutIntoSections() {
  std::vector<std::pair<std::int64_t, bool>> events;  // ends before begins
  for (const Block& block : blocks_) {
    events.emplace_back(block.begin, true);
    events.emplace_back(block.end, false);
  }
  std::ranges::sort(events);
  std::vector<std::int64_t> begins;
  for (std::size_t i = 0; i + 1 < events.size(); ++i) {
    if (events[i].second && !events[i + 1].second) {
      begins.push_back(events[i].first);
    }
  }
  std::int64_t spans = 0;
  for (const Block& block : blocks_) {
    const auto section = [&begins](std::int64_t time) {
      return static_cast<Index>(std::ranges::lower_bound(begins, time) -
                                begins.begin());
    };
    span_.push_back({section(block.begin), section(block.end)});
    spans += span_.back().last - span_.back().first;
  }
  within_reach_ = spans <= kMostSpans;
  if (!within_reach_) return;

  live_.resize(begins.size());
  starts_.resize(begins.size());
  crowd_.resize(begins.size());
  place_in_live_.resize(blocks_.size());
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    const auto block = static_cast<Index>(b);
    starts_[At(span_[b].first)].push_back(block);
    for (Index s = span_[b].first; s < span_[b].last; ++s) {
      place_in_live_[b].push_back(static_cast<Index>(live_[At(s)].size()));
      live_[At(s)].push_back(block);
      crowd_[At(s)] += blocks_[b].size;
    }
  }
  conflicts_.assign(begins.size(), 1);
}

bool PlacementState::Begin(std::int64_t capacity, bool counts_conflicts) {
  capacity_ = capacity;
  counts_conflicts_ = counts_conflicts;
  const std::size_t sections = live_.size();
  offset_.assign(blocks_.size(), 0);
  least_.assign(blocks_.size(), 0);
  placed_.assign(blocks_.size(), 0);
  floor_.assign(sections, 0);
  stacked_ = crowd_;
  remaining_.resize(sections);
  crossing_.assign(sections, 0);
  outlook_.assign(sections, {});
  signature_.assign(sections, 0);
  is_dirty_.assign(sections, 1);
  dirty_.resize(sections);
  std::iota(dirty_.begin(), dirty_.end(), Index{0});
  for (std::size_t s = 0; s < sections; ++s) {
    remaining_[s] = static_cast<Index>(live_[s].size());
  }
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    signature_[At(span_[b].first)] += Mix(b + 1);
    for (Index s = span_[b].first; s + 1 < span_[b].last; ++s) {
      ++crossing_[At(s)];
    }
  }
  changes_.clear();
  outlook_changes_.clear();
  return Propagate();
}

std::int64_t PlacementState::Crowd(Index block) const {
  std::int64_t crowd = 0;
  for (Index s = span(block).first; s < span(block).last; ++s) {
    crowd = std::max(crowd, crowd_[At(s)]);
  }
  return crowd;
}

std::int64_t PlacementState::pool() const {
  std::int64_t pool = 0;
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    pool = std::max(pool, offset_[b] + blocks_[b].size);
  }
  return pool;
}

bool PlacementState::Place(Index block) {
  const auto b = At(block);
  const Span span = span_[b];
  const std::int64_t top = least_[b] + blocks_[b].size;
  placed_[b] = 1;
  offset_[b] = least_[b];
  changes_.push_back({Change::kPlaced, block, 0});
  signature_[At(span.first)] -= Mix(b + 1);
  for (Index s = span.first; s < span.last; ++s) {
    std::vector<Index>& live = live_[At(s)];
    const Index end = --remaining_[At(s)];
    Index& place = place_in_live_[b][At(s - span.first)];
    const Index moved = live[At(end)];
    place_in_live_[At(moved)][At(s - span_[At(moved)].first)] = place;
    live[At(place)] = moved;
    live[At(end)] = block;
    place = end;
    stacked_[At(s)] -= blocks_[b].size;
    if (s + 1 < span.last) --crossing_[At(s)];
    changes_.push_back({Change::kFloor, s, floor_[At(s)]});
    floor_[At(s)] = top;
    MarkDirty(s);
  }
  bool fits = true;
  for (const Index other : Live(span.first)) {
    fits = fits && RaiseLeast(other, top);
  }
  for (Index s = span.first + 1; s < span.last; ++s) {
    for (const Index other : starts_[At(s)]) {
      fits = fits && (placed_[At(other)] != 0 || RaiseLeast(other, top));
    }
  }
  return Propagate() && fits;
}

bool PlacementState::RaiseFloor(Index section, std::int64_t floor) {
  bool fits = true;
  for (const Index block : Live(section)) {
    fits = fits && RaiseLeast(block, floor);
  }
  return Propagate() && fits;
}

bool PlacementState::RaiseLeast(Index block, std::int64_t offset) {
  const auto b = At(block);
  if (least_[b] >= offset) return true;
  changes_.push_back({Change::kLeast, block, least_[b]});
  least_[b] = offset;
  const Span span = span_[b];
  for (Index s = span.first; s < span.last; ++s) MarkDirty(s);
  if (offset + blocks_[b].size <= capacity_) return true;
  if (counts_conflicts_) {
    for (Index s = span.first; s < span.last; ++s) {
      conflicts_[At(s)] += 1.0 / (span.last - span.first);
    }
  }
  return false;
}

void PlacementState::MarkDirty(Index section) {
  if (is_dirty_[At(section)] != 0) return;
  is_dirty_[At(section)] = 1;
  dirty_.push_back(section);
}

bool PlacementState::Propagate() {
  bool fits = true;
  for (const Index s : dirty_) {
    is_dirty_[At(s)] = 0;
    fits = fits && (remaining_[At(s)] == 0 || Examine(s));
  }
  dirty_.clear();
  return fits;
}

// Raises the floor to the lowest least offset, and finds the candidates.
bool PlacementState::Examine(Index section) {
  const auto s = At(section);
  std::int64_t lowest = kNowhere;
  std::int64_t highest = 0;
  Outlook outlook;
  for (const Index b : Live(section)) {
    const std::int64_t least = least_[At(b)];
    highest = std::max(highest, least);
    if (least < lowest) {
      lowest = least;
      outlook = {1, span_[At(b)].first, span_[At(b)].last};
    } else if (least == lowest) {
      ++outlook.candidates;
      outlook.first = std::min(outlook.first, span_[At(b)].first);
      outlook.last = std::max(outlook.last, span_[At(b)].last);
    }
  }
  looks_ += remaining_[s];
  outlook_changes_.emplace_back(section, outlook_[s]);
  outlook_[s] = outlook;
  if (lowest != floor_[s]) {
    changes_.push_back({Change::kFloor, section, floor_[s]});
    floor_[s] = lowest;
  }
  if (Slack(section) >= 0 &&
      (highest + stacked_[s] <= capacity_ || StackFits(section, highest))) {
    return true;
  }
  if (counts_conflicts_) conflicts_[s] += 1;
  return false;
}

// Whether the section's blocks can fit above each other, each no lower than its
// least offset: blocks that cannot begin below a height must fit between it and
// the capacity. Checks a few heights, for blocks with similar least offsets
// together.
bool PlacementState::StackFits(Index section, std::int64_t highest) const {
  constexpr int kHeights = 32;  // 2^5
  struct Layer {
    std::int64_t least = kNowhere;
    std::int64_t size = 0;
  };
  std::array<Layer, kHeights> layers;
  const std::int64_t floor = floor_[At(section)];
  const int shift = std::max(
      0, static_cast<int>(
             std::bit_width(static_cast<std::uint64_t>(highest - floor))) -
             5);
  for (const Index b : Live(section)) {
    const std::int64_t least = least_[At(b)];
    Layer& layer = layers[static_cast<std::size_t>((least - floor) >> shift)];
    layer.least = std::min(layer.least, least);
    layer.size += blocks_[At(b)].size;
  }
  std::int64_t above = 0;
  for (int i = kHeights; i-- > 0;) {
    const Layer& layer = layers[static_cast<std::size_t>(i)];
    above += layer.size;
    if (layer.size > 0 && layer.least + above > capacity_) return false;
  }
  return true;
}

void PlacementState::Undo(const Mark& mark) {
  while (changes_.size() > mark.changes) {
    const Change change = changes_.back();
    changes_.pop_back();
    const auto i = At(change.index);
    switch (change.kind) {
      case Change::kFloor:
        floor_[i] = change.old;
        break;
      case Change::kLeast:
        least_[i] = change.old;
        break;
      case Change::kPlaced:
        placed_[i] = 0;
        signature_[At(span_[i].first)] += Mix(i + 1);
        for (Index s = span_[i].first; s < span_[i].last; ++s) {
          ++remaining_[At(s)];  // it is the first of the placed ones
          stacked_[At(s)] += blocks_[i].size;
          if (s + 1 < span_[i].last) ++crossing_[At(s)];
        }
        break;
    }
  }
  while (outlook_changes_.size() > mark.outlooks) {
    outlook_[At(outlook_changes_.back().first)] =
        outlook_changes_.back().second;
    outlook_changes_.pop_back();
  }
}

std::uint64_t PlacementState::KeyOf(Index first, Index last) const {
  std::uint64_t key = Mix(static_cast<std::uint64_t>(first) << 32 |
                          static_cast<std::uint64_t>(last));
  for (Index s = first; s < last; ++s) {
    key ^= static_cast<std::uint64_t>(capacity_ - floor_[At(s)]);
    key = Mix(key + signature_[At(s)]);
  }
  return std::max<std::uint64_t>(key, 1);
}

}  // namespace ucudnn
