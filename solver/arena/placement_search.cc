#include "solver/arena/placement_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

namespace ucudnn {
namespace {

constexpr std::int64_t kInfinite = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMostDepth = 8192;  // of the recursion

}  // namespace

PlacementSearch::PlacementSearch(std::span<const Block> blocks, bool varied)
    : state_(blocks), varied_(varied) {
  lower_before_.resize(At(state_.sections()));
  lower_after_.resize(At(state_.sections()));
}

Verdict PlacementSearch::Fit(std::int64_t capacity, SectionRule section_rule,
                             BlockRule block_rule, std::int64_t max_steps,
                             const Limits& limits) {
  section_rule_ = section_rule;
  limits_ = limits;
  last_step_ = steps_ + std::min(max_steps, kInfinite - steps_);
  candidates_.clear();
  depth_ = 0;
  Rank(block_rule);
  if (!state_.Begin(capacity, section_rule == SectionRule::kMostConflicts)) {
    return Verdict::kImpossible;
  }
  return FitRange(0, state_.sections());
}

void PlacementSearch::Rank(BlockRule rule) {
  const auto key = [this, rule](Index b) {
    const double length = state_.span(b).last - state_.span(b).first;
    const double area = length * static_cast<double>(state_.size(b));
    const auto crowd = static_cast<double>(state_.Crowd(b));
    switch (rule) {
      case BlockRule::kLongest:
        return std::tuple(-length, -area, -crowd);
      case BlockRule::kMostCrowded:
        return std::tuple(-crowd, -area, -length);
      case BlockRule::kCrowdedAndLong:
        break;
    }
    return std::tuple(-crowd, -length, -area);
  };
  std::vector<std::pair<std::tuple<double, double, double>, Index>> order;
  for (Index b = 0; b < state_.blocks(); ++b) order.emplace_back(key(b), b);
  std::ranges::sort(order);
  rank_.resize(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    rank_[At(order[i].second)] = static_cast<Index>(i);
  }
}

// The sections [first, last), split where no remaining block crosses.
Verdict PlacementSearch::FitRange(Index first, Index last) {
  while (first < last) {
    if (state_.remaining(first) == 0) {
      ++first;
      continue;
    }
    Index end = first + 1;
    while (end < last && state_.crossing(end - 1) > 0) ++end;
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
  const std::uint64_t key = state_.KeyOf(first, last);
  if (refuted_.Has(key)) return Verdict::kImpossible;
  ++depth_;
  Verdict verdict = Verdict::kImpossible;
  if (const Index block = FindThroughout(first, last); block >= 0) {
    const PlacementState::Mark mark = state_.Here();
    if (state_.Place(block)) verdict = FitRange(first, last);
    if (verdict != Verdict::kFits) state_.Undo(mark);
  } else {
    verdict = Branch(first, last, ChooseSection(first, last));
  }
  --depth_;
  if (verdict == Verdict::kImpossible) refuted_.Add(key);
  return verdict;
}

Verdict PlacementSearch::Branch(Index first, Index last, Index section) {
  const std::int64_t floor = state_.floor(section);
  const std::size_t begin = candidates_.size();
  for (const Index b : state_.Live(section)) {
    if (state_.least(b) == floor) candidates_.push_back(b);
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
          return state_.span(other).first == state_.span(block).first &&
                 state_.span(other).last == state_.span(block).last &&
                 state_.size(other) == state_.size(block);
        });
    if (is_double) continue;
    // If no block can come above it, no other place is better.
    const bool only_choice = IsUnderNothing(block);
    const PlacementState::Mark mark = state_.Here();
    verdict =
        state_.Place(block) ? FitRange(first, last) : Verdict::kImpossible;
    if (verdict != Verdict::kFits) state_.Undo(mark);
    settled = verdict != Verdict::kImpossible || only_choice;
  }
  candidates_.resize(begin);
  if (settled || state_.Slack(section) == 0) return verdict;
  const std::int64_t lifted = LiftedFloor(section);
  if (lifted == kInfinite || lifted - floor > state_.Slack(section)) {
    return Verdict::kImpossible;
  }
  const PlacementState::Mark mark = state_.Here();
  verdict = state_.RaiseFloor(section, lifted) ? FitRange(first, last)
                                               : Verdict::kImpossible;
  if (verdict != Verdict::kFits) state_.Undo(mark);
  return verdict;
}

// A block that lives in all sections, if their floors are equal; else -1.
PlacementSearch::Index PlacementSearch::FindThroughout(Index first,
                                                       Index last) const {
  for (const Index b : state_.Live(first)) {
    if (state_.span(b).first > first || state_.span(b).last < last) continue;
    for (Index s = first + 1; s < last; ++s) {
      if (state_.floor(s) != state_.floor(first)) return -1;
    }
    return b;
  }
  return -1;
}

// For each section, the nearest ones before and after it with a lower floor, or
// the ends of the range.
void PlacementSearch::FindWalls(Index first, Index last) {
  rising_.clear();
  for (Index s = first; s < last; ++s) {
    while (!rising_.empty() && state_.floor(rising_.back()) > state_.floor(s)) {
      lower_after_[At(rising_.back())] = s;
      rising_.pop_back();
    }
    if (rising_.empty()) {
      lower_before_[At(s)] = first - 1;
    } else if (state_.floor(rising_.back()) == state_.floor(s)) {
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
    const PlacementState::Outlook& outlook = state_.outlook(s);
    if (outlook.first <= lower_before_[At(s)] ||
        outlook.last > lower_after_[At(s)]) {
      continue;
    }
    const std::int64_t slack = state_.Slack(s);
    double choices = outlook.candidates + (slack > 0 ? 1 : 0);
    if (section_rule_ == SectionRule::kMostConflicts) {
      choices = choices > 1 ? choices / state_.conflicts(s) : 0;
    }
    if (varied_ && choices > 1) {  // by up to a half
      choices *= 1 + std::ldexp(static_cast<double>(random_() >> 11), -54);
    }
    const std::tuple key(choices, slack, state_.floor(s));
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
  const std::int64_t floor = state_.floor(section);
  std::int64_t lifted = kInfinite;
  for (const Index b : state_.Live(section)) {
    if (state_.least(b) > floor) lifted = std::min(lifted, state_.least(b));
  }
  const PlacementState::Outlook& outlook = state_.outlook(section);
  for (Index s = outlook.first; s < outlook.last; ++s) {
    for (const Index below : state_.Live(s)) {
      if (state_.span(below).first > section ||
          state_.span(below).last <= section) {
        lifted = std::min(
            lifted,
            std::max(state_.least(below) + state_.size(below), floor + 1));
      }
    }
  }
  return lifted;
}

bool PlacementSearch::IsUnderNothing(Index block) const {
  const PlacementState::Span span = state_.span(block);
  for (Index s = span.first; s < span.last; ++s) {
    if (state_.remaining(s) > 1) return false;
  }
  return true;
}

}  // namespace ucudnn
