#include "solver/allot/halves.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <utility>

namespace ucudnn::allot_internal {
namespace {

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
// About 24 bytes each.
constexpr std::size_t kMostStatesOfAll = 8'000'000;
// How many devices a half should leave is an average and no whole number; it is
// counted in sixteenths of a device.
constexpr std::int64_t kPartsOfDevice = 16;
constexpr std::int64_t kNodesBetweenLooks = 1024;  // whether to stop

// Numbers of devices of all kinds as one number, with a bit above each that
// tells whether a difference is negative.
class Packed {
 public:
  // Returns false if they need more than 64 bits.
  bool Fit(std::span<const std::int64_t> free) {
    int at = 0;
    for (const std::int64_t f : free) {
      const auto width =
          static_cast<int>(std::bit_width(static_cast<std::uint64_t>(f)));
      shifts_.push_back(at);
      masks_.push_back((std::uint64_t{1} << width) - 1);
      at += width + 1;
      if (at > 64) return false;
      guards_ |= std::uint64_t{1} << (at - 1);
    }
    return true;
  }
  std::uint64_t Pack(std::size_t kind, std::int64_t count) const {
    return static_cast<std::uint64_t>(count) << shifts_[kind];
  }
  std::int64_t Unpack(std::size_t kind, std::uint64_t counts) const {
    return static_cast<std::int64_t>(counts >> shifts_[kind] & masks_[kind]);
  }
  bool Fits(std::uint64_t part, std::uint64_t whole) const {
    return (((whole | guards_) - part) & guards_) == guards_;
  }

 private:
  std::vector<int> shifts_;
  std::vector<std::uint64_t> masks_;
  std::uint64_t guards_ = 0;
};

// What some jobs leave, with the least loss that leaves it.
struct State {
  std::uint64_t left = 0;
  std::int64_t loss = 0;
  std::uint32_t parent = 0;
  std::uint32_t option = 0;
};

// States by what they leave.
class Layer {
 public:
  // Ends finding and adding, to save memory.
  void Close() { slots_ = {}; }

  const std::vector<State>& states() const { return states_; }

  const State* Find(std::uint64_t left) const {
    if (slots_.empty()) return nullptr;
    const std::uint32_t at = slots_[SlotOf(left)];
    return at == kNone ? nullptr : &states_[at];
  }

  void Add(const State& state) {
    if (2 * (states_.size() + 1) > slots_.size()) Grow();
    std::uint32_t& at = slots_[SlotOf(state.left)];
    if (at == kNone) {
      at = static_cast<std::uint32_t>(states_.size());
      states_.push_back(state);
    } else if (state.loss < states_[at].loss) {
      states_[at] = state;
    }
  }

  // Keeps the states of the lowest rank. Returns whether any went.
  template <typename Rank>
  bool Keep(std::size_t most, const Rank& rank) {
    if (states_.size() <= most) return false;
    const auto end = states_.begin() + static_cast<std::ptrdiff_t>(most);
    std::nth_element(states_.begin(), end, states_.end(),
                     [&](const State& a, const State& b) {
                       const std::int64_t one = rank(a);
                       const std::int64_t other = rank(b);
                       return one != other ? one < other : a.left < b.left;
                     });
    states_.erase(end, states_.end());
    slots_.clear();
    Grow();
    return true;
  }

 private:
  // The slot of `left`, or where it would be.
  std::size_t SlotOf(std::uint64_t left) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t slot = (left * 0x9E3779B97F4A7C15U) >> 32U & mask;
    while (slots_[slot] != kNone && states_[slots_[slot]].left != left) {
      slot = (slot + 1) & mask;
    }
    return slot;
  }

  void Grow() {
    slots_.assign(std::bit_ceil(4 * (states_.size() + 16)), kNone);
    for (std::size_t i = 0; i < states_.size(); ++i) {
      slots_[SlotOf(states_[i].left)] = static_cast<std::uint32_t>(i);
    }
  }

  std::vector<State> states_;
  std::vector<std::uint32_t> slots_;
};

struct Step {
  std::uint64_t devices = 0;
  std::int64_t loss = 0;
  std::uint32_t option = 0;
};

// The layers of one half, one more than it has jobs.
struct Half {
  std::vector<std::size_t> jobs;
  std::vector<Layer> layers;
};

class Meeting {
 public:
  Meeting(const PackingProblem& problem, std::size_t most_states,
          std::int64_t* nodes, const std::stop_token& stop)
      : problem_(problem),
        most_states_(
            std::min(most_states, kMostStatesOfAll / problem.jobs.size())),
        nodes_(nodes),
        stop_(stop) {}

  Packing Run() {
    if (!packed_.Fit(problem_.free)) return {};
    Prepare();
    Packing best;
    if (limit_ < 0) {
      best.complete = true;
      return best;
    }
    // Few options first, so that the halves grow late and alike.
    std::vector<std::size_t> order(problem_.jobs.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) {
                       return steps_[a].size() < steps_[b].size();
                     });
    Half one = Start();
    Half other = Start();
    for (const std::size_t job : order) {
      Half& half = one.layers.back().states().size() <=
                           other.layers.back().states().size()
                       ? one
                       : other;
      half.jobs.push_back(job);
      if (!Extend(steps_[job], &half)) return best;
    }
    // What is left over counts as taken by the smaller half.
    if (one.layers.back().states().size() < other.layers.back().states().size())
      std::swap(one, other);
    const std::size_t layers = other.layers.size();
    for (std::size_t k = 0; k < problem_.free.size(); ++k) {
      if (!Extend(LeftOver(k), &other)) return best;
    }
    Join(one, other, layers, &best);
    best.complete = complete_;
    return best;
  }

 private:
  void Prepare() {
    const Prices& prices = problem_.prices.front();
    for (std::size_t k = 0; k < prices.size(); ++k) {
      all_ += packed_.Pack(k, problem_.free[k]);
      bound_ += prices[k] * problem_.free[k];
    }
    steps_.resize(problem_.jobs.size());
    for (std::size_t j = 0; j < steps_.size(); ++j) {
      const auto& options = problem_.jobs[j];
      std::int64_t most = std::numeric_limits<std::int64_t>::min() / 4;
      for (std::size_t o = 0; o < options.size(); ++o) {
        const std::int64_t merit =
            options[o].value - CostOf(options[o].counts, prices);
        most = std::max(most, merit);
        std::uint64_t devices = 0;
        bool fits = true;
        for (std::size_t k = 0; k < prices.size(); ++k) {
          fits = fits && options[o].counts[k] <= problem_.free[k];
          devices += packed_.Pack(k, options[o].counts[k]);
        }
        if (!fits) continue;
        steps_[j].push_back({devices, -merit, static_cast<std::uint32_t>(o)});
      }
      bound_ =
          std::max(bound_, std::numeric_limits<std::int64_t>::min() / 4) + most;
      for (Step& step : steps_[j]) step.loss += most;
      std::stable_sort(
          steps_[j].begin(), steps_[j].end(),
          [](const Step& a, const Step& b) { return a.loss < b.loss; });
    }
    limit_ = bound_ - problem_.at_least;
    costs_.resize(steps_.size());
    for (std::size_t j = 0; j < steps_.size(); ++j) {
      auto& steps = steps_[j];
      while (!steps.empty() && steps.back().loss > limit_) steps.pop_back();
      if (steps.empty()) continue;
      costs_[j] = CostOf(problem_.jobs[j][steps.front().option].counts, prices);
    }
  }

  std::vector<Step> LeftOver(std::size_t kind) const {
    std::vector<Step> steps;
    for (std::int64_t n = 0; n <= problem_.free[kind]; ++n) {
      const std::int64_t price = n * problem_.prices.front()[kind];
      if (price > limit_) break;
      steps.push_back({packed_.Pack(kind, n), price, 0});
    }
    return steps;
  }

  Half Start() const {
    Half half;
    half.layers.emplace_back().Add({all_, 0, 0, 0});
    return half;
  }

  // What this half should leave of each kind, in parts of a device: as much of
  // all free devices as the other jobs' share of what all jobs cost.
  std::vector<std::int64_t> TargetOf(const Half& half) const {
    const auto all =
        std::accumulate(costs_.begin(), costs_.end(), std::int64_t{0});
    std::int64_t others = all;
    for (const std::size_t job : half.jobs) others -= costs_[job];
    std::vector<std::int64_t> target;
    for (const std::int64_t free : problem_.free) {
      const __int128 parts = static_cast<__int128>(free) * kPartsOfDevice;
      target.push_back(static_cast<std::int64_t>(
          parts * others / std::max<std::int64_t>(all, 1)));
    }
    return target;
  }

  std::int64_t Distance(std::uint64_t left,
                        const std::vector<std::int64_t>& target) const {
    std::int64_t distance = 0;
    for (std::size_t k = 0; k < target.size(); ++k) {
      const std::int64_t off =
          packed_.Unpack(k, left) * kPartsOfDevice - target[k];
      distance += off * off;
    }
    return distance;
  }

  // Returns false if the search is to end.
  bool Extend(const std::vector<Step>& steps, Half* half) {
    // If any packing will do, its loss does not matter, only that the halves
    // meet; and they do near what each should leave on average.
    const std::vector<std::int64_t> target = TargetOf(*half);
    const auto rank = [&](const State& state) {
      return problem_.any ? Distance(state.left, target) : state.loss;
    };
    Layer next;
    const auto& states = half->layers.back().states();
    for (std::size_t s = 0; s < states.size(); ++s) {
      for (const Step& step : steps) {
        const std::int64_t loss = states[s].loss + step.loss;
        if (loss > limit_) break;
        if (!packed_.Fits(step.devices, states[s].left)) continue;
        if (--*nodes_ < 0) return false;
        if (*nodes_ % kNodesBetweenLooks == 0 && stop_.stop_requested()) {
          return false;
        }
        next.Add({states[s].left - step.devices, loss,
                  static_cast<std::uint32_t>(s), step.option});
      }
      // Bounds the memory; what is worse than most goes.
      if (next.states().size() > 2 * most_states_) {
        next.Keep(most_states_, rank);
        complete_ = false;
      }
    }
    if (next.Keep(most_states_, rank)) complete_ = false;
    half->layers.back().Close();
    half->layers.push_back(std::move(next));
    return true;
  }

  // `layers` of `other` are of jobs.
  void Join(const Half& one, const Half& other, std::size_t layers,
            Packing* best) const {
    std::int64_t least = limit_ + 1;
    const State* left = nullptr;
    const State* right = nullptr;
    for (const State& state : one.layers.back().states()) {
      const State* const match = other.layers.back().Find(all_ - state.left);
      if (match == nullptr || state.loss + match->loss >= least) continue;
      least = state.loss + match->loss;
      left = &state;
      right = match;
    }
    if (left == nullptr) return;
    best->value = bound_ - least;
    best->options.assign(problem_.jobs.size(), 0);
    for (std::size_t at = other.layers.size() - 1; at >= layers; --at) {
      right = &other.layers[at - 1].states()[right->parent];
    }
    Trace(one, left, best);
    Trace(other, right, best);
  }

  static void Trace(const Half& half, const State* state, Packing* best) {
    for (std::size_t at = half.jobs.size(); at > 0; --at) {
      best->options[half.jobs[at - 1]] = state->option;
      state = &half.layers[at - 1].states()[state->parent];
    }
  }

  const PackingProblem& problem_;
  std::size_t most_states_;
  std::int64_t* nodes_;
  const std::stop_token& stop_;
  Packed packed_;
  std::uint64_t all_ = 0;
  std::int64_t bound_ = 0;
  std::int64_t limit_ = 0;
  bool complete_ = true;
  std::vector<std::vector<Step>> steps_;  // of each job, least loss first
  std::vector<std::int64_t> costs_;       // of each job's first step
};

}  // namespace

Packing PackHalves(const PackingProblem& problem, std::size_t most_states,
                   std::int64_t* nodes, const std::stop_token& stop) {
  return Meeting(problem, most_states, nodes, stop).Run();
}

}  // namespace ucudnn::allot_internal
