#include "solver/arena/placement_search.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

namespace ucudnn {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMostDepth = 8192;  // of the recursion
constexpr std::size_t kMostRefuted = std::size_t{1} << 22;

std::uint64_t Mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

}  // namespace

PlacementSearch::PlacementSearch(std::span<const Block> blocks)
    : blocks_(blocks.begin(), blocks.end()) {
  CutIntoSections();
}

// A section begins where a block begins, if one ends before the next begins.
void PlacementSearch::CutIntoSections() {
  std::vector<std::pair<std::int64_t, bool>> events;  // ends before begins
  for (const Block& block : blocks_) {
    events.emplace_back(block.begin, true);
    events.emplace_back(block.end, false);
  }
  std::sort(events.begin(), events.end());
  std::vector<std::int64_t> begins;
  for (std::size_t i = 0; i + 1 < events.size(); ++i) {
    if (events[i].second && !events[i + 1].second) {
      begins.push_back(events[i].first);
    }
  }
  std::int64_t spans = 0;
  for (const Block& block : blocks_) {
    const auto section = [&begins](std::int64_t time) {
      return static_cast<Index>(
          std::lower_bound(begins.begin(), begins.end(), time) -
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
  lower_before_.resize(begins.size());
  lower_after_.resize(begins.size());
  refuted_.resize(std::size_t{1} << 12);
}

void PlacementSearch::Rank(BlockRule rule) {
  const auto key = [this, rule](std::size_t b) {
    const std::int64_t length = span_[b].last - span_[b].first;
    const double area =
        static_cast<double>(length) * static_cast<double>(blocks_[b].size);
    std::int64_t crowd = 0;
    for (Index s = span_[b].first; s < span_[b].last; ++s) {
      crowd = std::max(crowd, crowd_[At(s)]);
    }
    switch (rule) {
      case BlockRule::kLongest:
        return std::tuple(-double(length), -area, -double(crowd));
      case BlockRule::kMostCrowded:
        return std::tuple(-double(crowd), -area, -double(length));
      case BlockRule::kCrowdedAndLong:
        break;
    }
    return std::tuple(-double(crowd), -double(length), -area);
  };
  std::vector<std::pair<std::tuple<double, double, double>, std::size_t>> order;
  for (std::size_t b = 0; b < blocks_.size(); ++b)
    order.emplace_back(key(b), b);
  std::sort(order.begin(), order.end());
  rank_.resize(blocks_.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    rank_[order[i].second] = static_cast<Index>(i);
  }
}

void PlacementSearch::Reset(std::int64_t capacity) {
  capacity_ = capacity;
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
  candidates_.clear();
  depth_ = 0;
}

Verdict PlacementSearch::Fit(std::int64_t capacity, SectionRule section_rule,
                             BlockRule block_rule, std::int64_t max_steps,
                             const Limits& limits) {
  section_rule_ = section_rule;
  limits_ = limits;
  last_step_ = steps_ + std::min(max_steps, kNever - steps_);
  Rank(block_rule);
  Reset(capacity);
  if (!Propagate()) return Verdict::kImpossible;
  return FitRange(0, static_cast<Index>(live_.size()));
}

std::int64_t PlacementSearch::pool() const {
  std::int64_t pool = 0;
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    pool = std::max(pool, offset_[b] + blocks_[b].size);
  }
  return pool;
}

// The sections [first, last), split where no remaining block crosses.
Verdict PlacementSearch::FitRange(Index first, Index last) {
  while (first < last) {
    if (remaining_[At(first)] == 0) {
      ++first;
      continue;
    }
    Index end = first + 1;
    while (end < last && crossing_[At(end - 1)] > 0) ++end;
    const Verdict verdict = FitComponent(first, end);
    if (verdict != Verdict::kFits) return verdict;
    first = end;
  }
  return Verdict::kFits;
}

Verdict PlacementSearch::FitComponent(Index first, Index last) {
  if (steps_ >= last_step_ || nodes() >= limits_.max_nodes ||
      depth_ >= kMostDepth || limits_.stop.stop_requested()) {
    return Verdict::kUndecided;
  }
  ++steps_;
  const std::uint64_t key = KeyOf(first, last);
  if (IsRefuted(key)) return Verdict::kImpossible;
  ++depth_;
  Verdict verdict = Verdict::kImpossible;
  if (const Index block = FindThroughout(first, last); block >= 0) {
    const Mark mark = Here();
    if (Place(block)) verdict = FitRange(first, last);
    if (verdict != Verdict::kFits) Undo(mark);
  } else {
    verdict = Branch(first, last, ChooseSection(first, last));
  }
  --depth_;
  if (verdict == Verdict::kImpossible) Refute(key);
  return verdict;
}

Verdict PlacementSearch::Branch(Index first, Index last, Index section) {
  const std::int64_t floor = floor_[At(section)];
  const std::size_t begin = candidates_.size();
  for (const Index b : Live(section)) {
    if (least_[At(b)] == floor) candidates_.push_back(b);
  }
  const std::size_t end = candidates_.size();
  std::sort(candidates_.begin() + static_cast<std::ptrdiff_t>(begin),
            candidates_.end(),
            [this](Index a, Index b) { return rank_[At(a)] < rank_[At(b)]; });
  Verdict verdict = Verdict::kImpossible;
  bool settled = false;
  for (std::size_t c = begin; c < end && !settled; ++c) {
    const Index block = candidates_[c];
    const bool is_double = std::any_of(
        candidates_.begin() + static_cast<std::ptrdiff_t>(begin),
        candidates_.begin() + static_cast<std::ptrdiff_t>(c), [&](Index other) {
          return span_[At(other)].first == span_[At(block)].first &&
                 span_[At(other)].last == span_[At(block)].last &&
                 blocks_[At(other)].size == blocks_[At(block)].size;
        });
    if (is_double) continue;
    // If no block can come above it, no other place is better.
    const bool only_choice = IsUnderNothing(block);
    const Mark mark = Here();
    verdict = Place(block) ? FitRange(first, last) : Verdict::kImpossible;
    if (verdict != Verdict::kFits) Undo(mark);
    settled = verdict != Verdict::kImpossible || only_choice;
  }
  candidates_.resize(begin);
  if (settled || Slack(section) == 0) return verdict;
  const std::int64_t lifted = LiftedFloor(section);
  if (lifted == kNever || lifted - floor > Slack(section)) {
    return Verdict::kImpossible;
  }
  const Mark mark = Here();
  verdict = RaiseFloor(section, lifted) ? FitRange(first, last)
                                        : Verdict::kImpossible;
  if (verdict != Verdict::kFits) Undo(mark);
  return verdict;
}

// A block that lives in all sections, if their floors are equal; else -1.
PlacementSearch::Index PlacementSearch::FindThroughout(Index first,
                                                       Index last) const {
  for (const Index b : Live(first)) {
    if (span_[At(b)].first > first || span_[At(b)].last < last) continue;
    const auto begin = floor_.begin() + first;
    const bool level = std::all_of(begin, floor_.begin() + last,
                                   [&](std::int64_t f) { return f == *begin; });
    return level ? b : -1;
  }
  return -1;
}

// For each section, the nearest ones before and after it with a lower floor, or
// the ends of the range.
void PlacementSearch::FindWalls(Index first, Index last) {
  rising_.clear();
  for (Index s = first; s < last; ++s) {
    while (!rising_.empty() && floor_[At(rising_.back())] > floor_[At(s)]) {
      lower_after_[At(rising_.back())] = s;
      rising_.pop_back();
    }
    if (rising_.empty()) {
      lower_before_[At(s)] = first - 1;
    } else if (floor_[At(rising_.back())] == floor_[At(s)]) {
      lower_before_[At(s)] = lower_before_[At(rising_.back())];
    } else {
      lower_before_[At(s)] = rising_.back();
    }
    rising_.push_back(s);
  }
  for (const Index s : rising_) lower_after_[At(s)] = last;
}

// Always finds one: sections of the lowest floor are possible.
PlacementSearch::Index PlacementSearch::ChooseSection(Index first, Index last) {
  FindWalls(first, last);
  Index best = -1;
  std::tuple<double, std::int64_t, std::int64_t> best_key;
  for (Index s = first; s < last; ++s) {
    const Outlook& outlook = outlook_[At(s)];
    if (outlook.first <= lower_before_[At(s)] ||
        outlook.last > lower_after_[At(s)]) {
      continue;
    }
    const std::int64_t slack = Slack(s);
    double choices = outlook.candidates + (slack > 0 ? 1 : 0);
    if (section_rule_ == SectionRule::kMostConflicts) {
      choices = choices > 1 ? choices / conflicts_[At(s)] : 0;
    }
    const std::tuple key(choices, slack, floor_[At(s)]);
    if (best < 0 || key < best_key) {
      best = s;
      best_key = key;
    }
  }
  return best;
}

// The least floor of the section if none of its blocks lies on the current one:
// its lowest block then rests on one that is not live in the section.
std::int64_t PlacementSearch::LiftedFloor(Index section) const {
  const std::int64_t floor = floor_[At(section)];
  std::int64_t lifted = kNever;
  for (const Index b : Live(section)) {
    if (least_[At(b)] > floor) lifted = std::min(lifted, least_[At(b)]);
  }
  const Outlook& outlook = outlook_[At(section)];
  for (Index s = outlook.first; s < outlook.last; ++s) {
    for (const Index below : Live(s)) {
      const auto b = At(below);
      if (span_[b].first > section || span_[b].last <= section) {
        lifted =
            std::min(lifted, std::max(least_[b] + blocks_[b].size, floor + 1));
      }
    }
  }
  return lifted;
}

bool PlacementSearch::Place(Index block) {
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

bool PlacementSearch::RaiseFloor(Index section, std::int64_t floor) {
  bool fits = true;
  for (const Index block : Live(section)) {
    fits = fits && RaiseLeast(block, floor);
  }
  return Propagate() && fits;
}

bool PlacementSearch::RaiseLeast(Index block, std::int64_t offset) {
  const auto b = At(block);
  if (least_[b] >= offset) return true;
  changes_.push_back({Change::kLeast, block, least_[b]});
  least_[b] = offset;
  const Span span = span_[b];
  for (Index s = span.first; s < span.last; ++s) MarkDirty(s);
  if (offset + blocks_[b].size <= capacity_) return true;
  if (section_rule_ == SectionRule::kMostConflicts) {
    for (Index s = span.first; s < span.last; ++s) {
      conflicts_[At(s)] += 1.0 / (span.last - span.first);
    }
  }
  return false;
}

void PlacementSearch::MarkDirty(Index section) {
  if (is_dirty_[At(section)] != 0) return;
  is_dirty_[At(section)] = 1;
  dirty_.push_back(section);
}

bool PlacementSearch::Propagate() {
  bool fits = true;
  for (const Index s : dirty_) {
    is_dirty_[At(s)] = 0;
    fits = fits && (remaining_[At(s)] == 0 || Examine(s));
  }
  dirty_.clear();
  return fits;
}

// Raises the floor to the lowest least offset, and finds the candidates.
bool PlacementSearch::Examine(Index section) {
  const auto s = At(section);
  std::int64_t lowest = kNever;
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
  if (section_rule_ == SectionRule::kMostConflicts) conflicts_[s] += 1;
  return false;
}

// Whether the section's blocks can fit above each other, each no lower than its
// least offset: blocks that cannot begin below a height must fit between it and
// the capacity. Checks a few heights, for blocks with similar least offsets
// together.
bool PlacementSearch::StackFits(Index section, std::int64_t highest) const {
  constexpr int kHeights = 32;  // 2^5
  struct Layer {
    std::int64_t least = kNever;
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

bool PlacementSearch::IsUnderNothing(Index block) const {
  const Span span = span_[At(block)];
  for (Index s = span.first; s < span.last; ++s) {
    if (remaining_[At(s)] > 1) return false;
  }
  return true;
}

void PlacementSearch::Undo(const Mark& mark) {
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

std::uint64_t PlacementSearch::KeyOf(Index first, Index last) const {
  std::uint64_t key = Mix(static_cast<std::uint64_t>(first) << 32 |
                          static_cast<std::uint64_t>(last));
  for (Index s = first; s < last; ++s) {
    key ^= static_cast<std::uint64_t>(capacity_ - floor_[At(s)]);
    key = Mix(key + signature_[At(s)]);
  }
  return std::max<std::uint64_t>(key, 1);
}

bool PlacementSearch::IsRefuted(std::uint64_t key) const {
  return refuted_[key & (refuted_.size() - 1)] == key;
}

void PlacementSearch::Refute(std::uint64_t key) {
  if (++refuted_count_ > refuted_.size() / 2 &&
      refuted_.size() < kMostRefuted) {
    std::vector<std::uint64_t> larger(refuted_.size() * 4);
    for (const std::uint64_t old : refuted_) {
      larger[old & (larger.size() - 1)] = old;
    }
    refuted_ = std::move(larger);
  }
  refuted_[key & (refuted_.size() - 1)] = key;
}

}  // namespace ucudnn
