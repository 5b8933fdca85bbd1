#include "solver/knapsack/core.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace ucudnn::mckp_internal {
namespace {

// With fewer classes, looking for equal ones costs more than it saves.
constexpr std::size_t kFewTypes = 16;

Wide CeilDivide(Wide a, Wide b) { return a > 0 ? (a + b - 1) / b : a / b; }

}  // namespace

Core::Core(const Relaxation& relaxation, std::pmr::vector<CoreType> types,
           std::pmr::vector<Deviation> deviations, std::int64_t cost_step,
           const Limits& limits)
    : relaxation_(relaxation),
      types_(std::move(types)),
      merged_types_(relaxation.memory),
      deviations_(std::move(deviations)),
      outlooks_(relaxation.memory),
      cost_step_(cost_step),
      limits_(limits),
      states_(relaxation.memory),
      merged_(relaxation.memory),
      scratch_(relaxation.memory),
      nodes_(relaxation.memory) {
  for (CoreType& type : types_) {
    type.stored_end = type.end;
    type.own_count = type.count;
  }
}

// How much the losses and unused capacity of a better solution may cost, times
// the price's divisor.
Wide Core::Gap() const {
  return Wide{relaxation_.base_cost + best_.cost - cost_step_} *
             relaxation_.price_q -
         relaxation_.bound;
}

void Core::Search(std::int64_t cost) {
  best_.cost = cost;
  shrunk_to_ = Gap();
  for (CoreType& type : types_) {
    while (type.end > type.begin &&
           deviations_[type.end - 1].loss > shrunk_to_) {
      --type.end;
    }
  }
  std::erase_if(types_, [](const CoreType& t) { return t.begin == t.end; });
  if (types_.size() > kFewTypes) MergeAlikeTypes();
  SortTypes();
  UpdateOutlooks();
  State root;
  root.excess = relaxation_.base_weight - relaxation_.capacity;
  states_.assign(1, root);
  if (root.excess <= 0 && root.cost < best_.cost) {
    // Only if the caller's solution was worse than the bases themselves.
    best_.cost = 0;
    best_.weight = 0;
    improved_ = true;
  }
  for (std::size_t i = 0; i < types_.size(); ++i) {
    if (stopped_ || states_.empty() || Gap() < 0) break;
    SearchType(i);
    ShrinkToGap();
  }
}

// Once better solutions have closed a quarter of the gap, drops deviations that
// lose more than the remaining gap, which sharpens the outlooks.
void Core::ShrinkToGap() {
  const Wide gap = Gap();
  if (gap > shrunk_to_ - shrunk_to_ / 4) return;
  shrunk_to_ = gap;
  for (CoreType& type : types_) {
    while (type.end > type.begin && deviations_[type.end - 1].loss > gap) {
      --type.end;
    }
  }
  UpdateOutlooks();
}

void Core::SearchType(std::size_t position) {
  position_ = position;
  const CoreType type = types_[position];
  const Outlook& after = outlooks_[position + 1];
  if (type.begin == type.end) return;
  if (type.count == 1) {
    Step(type, after, {});
    return;
  }
  // Only so many of the copies can deviate at a loss. The others stay at their
  // base or take the one deviation without loss, if there is one; only the
  // number of those matters.
  std::uint32_t lossless = 0;
  while (type.begin + lossless < type.end &&
         deviations_[type.begin + lossless].loss == 0) {
    ++lossless;
  }
  const bool fills = lossless == 1 && deviations_[type.begin].weight > 0;
  std::int64_t stepped = 0;
  while (stepped < type.count && !stopped_ && !states_.empty()) {
    const Wide gap = Gap();
    if (gap < 0) return;
    if (lossless < 2) {
      if (type.begin + lossless == type.end) break;
      const Wide least = deviations_[type.begin + lossless].loss;
      if (Wide{stepped} * least + least > gap) break;
    }
    ++stepped;
    const std::int64_t left = type.count - stepped;
    Step(type, left == 0 ? after : outlooks_[position],
         {type.begin, fills ? left : 0});
  }
  if (lossless == 1 && stepped < type.count && !stopped_) {
    StepByCount(type.begin, type.count - stepped, after);
  }
}

// Lets one copy of `type` take its base or one of its deviations, and completes
// solutions with what is pending.
void Core::Step(const CoreType& type, const Outlook& outlook,
                const Pending& pending) {
  for (std::uint32_t d = type.begin; d < type.end; ++d) {
    if (OutOfLimits()) {
      Abandon();
      return;
    }
    Shift(d, d == type.begin, outlook);
  }
  Finish(outlook, pending);
}

// Merges the states with `deviation` added into `merged_` or, for the `first`
// deviation of a step, with the unchanged states; keeps undominated states.
void Core::Shift(std::uint32_t deviation, bool first, const Outlook& outlook) {
  const Deviation& d = deviations_[deviation];
  const auto promising = PromisingTest(outlook);
  const std::pmr::vector<State>& unshifted = first ? states_ : merged_;
  scratch_.clear();
  std::int64_t last_cost = std::numeric_limits<std::int64_t>::max();
  const auto push = [&](const State& state) {
    if (state.cost >= last_cost) return;
    last_cost = state.cost;
    scratch_.push_back(state);
  };
  auto old = unshifted.begin();
  const auto end = unshifted.end();
  const auto push_old = [&] {
    if (!first || promising(old->excess, old->cost)) push(*old);
    ++old;
  };
  for (const State& state : states_) {
    const std::int64_t excess = state.excess + d.weight;
    const std::int64_t cost = state.cost + d.cost;
    if (!promising(excess, cost)) continue;
    while (old != end && (old->excess < excess ||
                          (old->excess == excess && old->cost <= cost))) {
      push_old();
    }
    push({excess, cost, state.node, deviation, 1});
    ++nodes_made_;
  }
  while (old != end) push_old();
  std::swap(merged_, scratch_);
}

// Lets up to `count` copies take `deviation`, which has no loss. Only numbers
// of copies that bring a state near the capacity are promising.
void Core::StepByCount(std::uint32_t deviation, std::int64_t count,
                       const Outlook& outlook) {
  const Deviation& d = deviations_[deviation];
  const auto promising = PromisingTest(outlook);
  merged_.clear();
  for (const State& state : states_) {
    const auto add = [&](std::int64_t copies) {
      const std::int64_t excess = state.excess + copies * d.weight;
      const std::int64_t cost = state.cost + copies * d.cost;
      if (!promising(excess, cost)) return false;
      merged_.push_back({excess, cost, state.node,
                         copies == 0 ? kUnchanged : deviation, copies});
      ++nodes_made_;
      return true;
    };
    if (OutOfLimits()) {
      Abandon();
      return;
    }
    const std::int64_t fit =
        std::clamp<std::int64_t>(-state.excess / d.weight, 0, count);
    for (std::int64_t copies = fit; copies >= 0; --copies) {
      if (!add(copies)) break;
    }
    for (std::int64_t copies = fit + 1; copies <= count; ++copies) {
      if (!add(copies)) break;
    }
  }
  std::ranges::sort(merged_, [](const State& a, const State& b) {
    return std::tuple(a.excess, a.cost, a.node, a.copies) <
           std::tuple(b.excess, b.cost, b.node, b.copies);
  });
  scratch_.clear();
  for (const State& state : merged_) {
    if (scratch_.empty() || state.cost < scratch_.back().cost) {
      scratch_.push_back(state);
    }
  }
  std::swap(merged_, scratch_);
  Finish(outlook, {});
}

// Adopts the merged states: records how they came about and the best solution
// among them, and drops those that the solution makes unpromising.
void Core::Finish(const Outlook& outlook, const Pending& pending) {
  std::swap(states_, merged_);
  const std::int64_t best_before = best_.cost;
  // Of the states that fit, the last costs least.
  const auto first_over = std::ranges::partition_point(
      states_, [](const State& state) { return state.excess <= 0; });
  if (first_over != states_.begin()) Offer(*std::prev(first_over), 0, 0);
  if (pending.copies > 0) {
    const Deviation& d = deviations_[pending.deviation];
    for (const State& state : states_) {
      if (state.excess > 0) break;
      const std::int64_t copies =
          std::min(pending.copies, -state.excess / d.weight);
      Offer(state, pending.deviation, copies);
    }
  }
  if (nodes_made_ >= next_look_ahead_ && states_.size() > 16) LookAhead();
  const bool better = best_.cost < best_before;  // else all are promising
  const auto promising = PromisingTest(outlook);
  std::size_t kept = 0;
  for (State& state : states_) {
    if (better && !promising(state.excess, state.cost)) continue;
    if (state.deviation != kUnchanged) {
      nodes_.push_back({state.node, state.deviation, state.copies});
      state.node = static_cast<std::uint32_t>(nodes_.size() - 1);
      state.deviation = kUnchanged;
    }
    if (better) states_[kept] = state;
    ++kept;
  }
  states_.resize(kept);
}

// Completes every state with the one deviation of the remaining classes that
// fills its room best. If costs follow weights closely, partial solutions
// multiply until one happens to fill the capacity; this finds such a solution
// much earlier. Called each time the work has doubled.
void Core::LookAhead() {
  constexpr std::size_t kPool = 1 << 14;
  constexpr int kTried = 4;
  next_look_ahead_ = 2 * nodes_made_;
  std::pmr::vector<std::uint32_t> pool(relaxation_.memory);
  for (std::size_t i = position_ + 1; i < types_.size(); ++i) {
    if (pool.size() >= kPool) break;
    for (std::uint32_t d = types_[i].begin; d < types_[i].end; ++d) {
      pool.push_back(d);
    }
  }
  std::ranges::sort(pool, [this](std::uint32_t a, std::uint32_t b) {
    return std::tuple(deviations_[a].weight, -deviations_[a].cost, a) <
           std::tuple(deviations_[b].weight, -deviations_[b].cost, b);
  });
  auto end = pool.end();
  for (const State& state : states_) {
    const std::int64_t room = -state.excess;
    while (end != pool.begin() && deviations_[end[-1]].weight > room) --end;
    auto at = end;
    for (int i = 0; i < kTried && at != pool.begin(); ++i) {
      --at;
      if (state.cost + deviations_[*at].cost < best_.cost) {
        Offer(state, *at, 1);
      }
    }
  }
}

void Core::Offer(const State& state, std::uint32_t deviation,
                 std::int64_t extra) {
  std::int64_t cost = state.cost;
  std::int64_t excess = state.excess;
  if (extra > 0) {
    cost += deviations_[deviation].cost * extra;
    excess += deviations_[deviation].weight * extra;
  }
  if (cost >= best_.cost) return;
  best_.cost = cost;
  best_.weight = excess + relaxation_.capacity - relaxation_.base_weight;
  best_.node = state.node;
  if (state.deviation != kUnchanged) {
    nodes_.push_back({state.node, state.deviation, state.copies});
    best_.node = static_cast<std::uint32_t>(nodes_.size() - 1);
  }
  best_.deviation = deviation;
  best_.extra = extra;
  improved_ = true;
}

bool Core::OutOfLimits() {
  if (nodes_made_ < limits_.max_nodes && !limits_.stop.stop_requested()) {
    return false;
  }
  stopped_ = true;
  return true;
}

// Stops the search in the middle of a step; the states before it remain open.
void Core::Abandon() {
  const Outlook& outlook = outlooks_[position_];
  proven_ = false;
  open_bound_ = best_.cost;
  for (const State& state : states_) {
    const Slope& slope = state.excess <= 0 ? outlook.save : outlook.shed;
    if (slope.weight == 0) continue;
    const Wide bound =
        state.cost + CeilDivide(Wide{state.excess} * slope.cost, slope.weight);
    open_bound_ = static_cast<std::int64_t>(std::min<Wide>(open_bound_, bound));
  }
}

std::pmr::vector<Change> Core::changes() const {
  // How many copies of each type take each of its deviations.
  std::pmr::vector<std::int64_t> copies(deviations_.size(), 0,
                                        relaxation_.memory);
  for (std::uint32_t n = best_.node; n != kNoNode; n = nodes_[n].parent) {
    copies[nodes_[n].deviation] += nodes_[n].copies;
  }
  if (best_.extra > 0) copies[best_.deviation] += best_.extra;
  std::pmr::vector<Change> changes(relaxation_.memory);
  for (const CoreType& type : types_) {
    const CoreType* member = &type;
    std::int64_t left = type.own_count;
    for (std::uint32_t d = type.begin; d < type.stored_end; ++d) {
      while (copies[d] > 0) {
        if (left == 0) {
          UCUDNN_CHECK(member->merged_next != CoreType::kNone);
          member = &merged_types_[member->merged_next];
          left = member->count;
        }
        const std::int64_t taken = std::min(left, copies[d]);
        const std::uint32_t own = member->begin + (d - type.begin);
        changes.push_back({member->front, deviations_[own].item, taken});
        left -= taken;
        copies[d] -= taken;
      }
    }
  }
  return changes;
}

}  // namespace ucudnn::mckp_internal
