#include "solver/memory/best/gap_search.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

namespace ucudnn {
namespace {

bool Better(const RoundSchedule& a, const RoundSchedule& b) {
  return std::tie(a.time, a.moved) < std::tie(b.time, b.moved);
}

}  // namespace

bool Better(const GapChoice& a, const GapChoice& b) {
  if (a.missing != b.missing) return a.missing < b.missing;
  return a.missing == 0 && Better(a.schedule, b.schedule);
}

namespace {

// Blocks smaller than this part of the largest are left as they are.
constexpr std::int64_t kLeastShare = 256;
// Where nothing is better, a few choices change at random; each so many times
// all are made anew.
constexpr int kMostChanges = 3;
constexpr std::uint64_t kJumpsAStart = 4;

using Random = std::mt19937_64;

// While some task does not fit, adds a gap across the worst one: the one that
// ends last or, given `random`, any.
GapChoice Cover(Scheduler& scheduler, std::int64_t capacity, Random* random) {
  const RoundProgram& program = scheduler.program();
  GapChoice choice;
  choice.choices = scheduler.NoChoices();
  std::vector<char>& moved = choice.choices.moved;
  std::vector<std::int64_t> excess = program.live;
  for (std::size_t place = 0; place < excess.size(); ++place) {
    excess[place] +=
        program.resident + scheduler.LeastWorkspace(place) - capacity;
  }
  const auto leave = [&](std::size_t g) {
    const BlockGap& gap = program.gaps[g];
    for (int place = gap.after + 1; place < gap.until; ++place) {
      excess[static_cast<std::size_t>(place)] -= program.size[gap.block];
    }
    moved[g] = true;
  };
  for (std::size_t g = 0; g < program.gaps.size(); ++g) {
    if (program.gaps[g].forced) leave(g);
  }
  const std::vector<std::size_t>& by_until = scheduler.by_until();
  while (true) {
    const auto worst = std::ranges::max_element(excess);
    if (worst == excess.end() || *worst <= 0) break;
    const int place = static_cast<int>(worst - excess.begin());
    const auto helps = [&](std::size_t g) {
      const BlockGap& gap = program.gaps[g];
      return !moved[g] && gap.after < place && place < gap.until &&
             program.size[gap.block] > 0;
    };
    auto chosen = std::find_if(by_until.rbegin(), by_until.rend(), helps);
    if (chosen == by_until.rend()) {
      choice.missing = *worst;
      return choice;
    }
    if (random != nullptr) {
      const auto count = std::count_if(chosen, by_until.rend(), helps);
      for (auto skip = (*random)() % static_cast<std::uint64_t>(count);
           skip > 0; --skip) {
        chosen = std::find_if(std::next(chosen), by_until.rend(), helps);
      }
    }
    leave(*chosen);
  }
  scheduler.Schedule(choice.choices, capacity, &choice.schedule);
  return choice;
}

class Improver {
 public:
  Improver(Scheduler& scheduler, const GapLimits& limits, GapChoice* choice)
      : scheduler_(scheduler),
        gaps_(scheduler.program().gaps),
        limits_(limits),
        effort_(limits.effort),
        current_(choice) {
    const std::vector<std::int64_t>& size = scheduler.program().size;
    std::int64_t largest = 0;
    for (const BlockGap& gap : gaps_) {
      largest = std::max(largest, size[gap.block]);
    }
    for (std::size_t g = 0; g < gaps_.size(); ++g) {
      if (gaps_[g].forced || size[gaps_[g].block] < largest / kLeastShare) {
        continue;
      }
      free_.push_back(g);
    }
    std::ranges::stable_sort(free_, std::ranges::greater(), [&](std::size_t g) {
      return size[gaps_[g].block];
    });
    for (std::size_t place = 0; place < scheduler.program().tasks.size();
         ++place) {
      if (scheduler.OptionsAt(place) > 1) places_.push_back(place);
    }
  }

  void Run() {
    Descend(true);
    if (free_.empty() && places_.empty()) return;
    while (!Done()) {
      GapChoice best = *current_;
      if (random_() % kJumpsAStart == 0 ? Restart() : Jump()) Descend(false);
      if (!Better(*current_, best)) {
        *current_ = std::move(best);
      }
    }
  }

 private:
  static constexpr std::uint32_t kNoLimit =
      std::numeric_limits<std::uint32_t>::max();

  bool Done() const {
    return effort_ <= 0 || current_->schedule.time <= limits_.enough ||
           limits_.stop.stop_requested();
  }

  std::vector<char>& moved() { return current_->choices.moved; }
  std::vector<std::uint32_t>& most() { return current_->choices.most; }

  void Descend(bool exchanges) {
    while (!Done()) {
      const bool any = TryFlips() || TryOptions() || TryOrders();
      if (!any && (!exchanges || !TryExchanges())) return;
    }
  }

  // Takes what has been changed in the choices if that is better.
  bool Keep() {
    --effort_;
    scheduler_.Schedule(current_->choices, limits_.capacity, &trial_);
    if (!trial_.fits || !Better(trial_, current_->schedule)) return false;
    std::swap(trial_, current_->schedule);
    return true;
  }

  void Flip(std::size_t g) { moved()[g] = !moved()[g]; }

  bool TryFlips() {
    bool any = false;
    for (const std::size_t g : free_) {
      if (Done()) break;
      Flip(g);
      if (Keep()) {
        any = true;
      } else {
        Flip(g);
      }
    }
    return any;
  }

  bool TryExchanges() {
    bool any = false;
    for (const std::size_t g : free_) {
      if (!moved()[g]) continue;
      for (const std::size_t h : free_) {
        if (Done()) return any;
        if (moved()[h] || gaps_[h].after >= gaps_[g].until ||
            gaps_[g].after >= gaps_[h].until) {
          continue;
        }
        Flip(g);
        Flip(h);
        if (Keep()) {
          any = true;
          break;
        }
        Flip(g);
        Flip(h);
      }
    }
    return any;
  }

  // Less workspace for a task, or as much as there is.
  bool TryOptions() {
    bool any = false;
    for (const std::size_t place : places_) {
      const std::uint32_t before = most()[place];
      const std::uint32_t option = current_->schedule.option[place];
      for (const std::uint32_t changed :
           {kNoLimit, option > 0 ? option - 1 : option}) {
        if (Done()) return any;
        if (changed == before || changed == option) continue;
        most()[place] = changed;
        if (Keep()) {
          any = true;
          break;
        }
        most()[place] = before;
      }
    }
    return any;
  }

  // Other orders of transfers.
  bool TryOrders() {
    bool any = false;
    for (const std::size_t g : free_) {
      if (!moved()[g]) continue;
      char& overtaking = current_->choices.overtaking[g];
      int& deferred = current_->choices.deferred[g];
      const int before = deferred;
      for (const int changed : {0, 1, 2, MostDeferred(g)}) {
        if (Done()) return any;
        if (changed == before || changed > MostDeferred(g)) continue;
        deferred = changed;
        if (Keep()) {
          any = true;
          break;
        }
        deferred = before;
      }
      if (Done()) return any;
      overtaking = !overtaking;
      if (Keep()) {
        any = true;
      } else {
        overtaking = !overtaking;
      }
    }
    return any;
  }

  int MostDeferred(std::size_t g) const {
    return gaps_[g].after - gaps_[g].written;
  }

  // Starts again from another random cover; false if that does not fit.
  bool Restart() {
    --effort_;
    *current_ = Cover(scheduler_, limits_.capacity, &random_);
    return current_->missing == 0;
  }

  // Up to kMostChanges changes at random; false if that does not fit.
  bool Jump() {
    const std::size_t choices = free_.size() + places_.size();
    const int changes = 1 + static_cast<int>(random_() % kMostChanges);
    for (int i = 0; i < changes; ++i) {
      const std::size_t chosen = random_() % choices;
      if (chosen < free_.size()) {
        const std::size_t g = free_[chosen];
        switch (random_() % 4) {
          case 0:
            current_->choices.deferred[g] = static_cast<int>(
                random_() % static_cast<std::uint64_t>(MostDeferred(g) + 1));
            break;
          case 1:
            current_->choices.overtaking[g] = !current_->choices.overtaking[g];
            break;
          default:
            Flip(g);
        }
      } else {
        const std::size_t place = places_[chosen - free_.size()];
        most()[place] =
            static_cast<std::uint32_t>(random_() % scheduler_.OptionsAt(place));
      }
    }
    --effort_;
    scheduler_.Schedule(current_->choices, limits_.capacity,
                        &current_->schedule);
    if (current_->schedule.fits) return true;
    current_->schedule.time = std::numeric_limits<std::int64_t>::max();
    return false;
  }

  Scheduler& scheduler_;
  const std::vector<BlockGap>& gaps_;
  const GapLimits& limits_;
  std::int64_t effort_;
  GapChoice* current_;
  std::vector<std::size_t> free_;    // gaps that are a choice, largest first
  std::vector<std::size_t> places_;  // of tasks with several options
  RoundSchedule trial_;
  Random random_;  // the same numbers each time
};

}  // namespace

GapChoice CoverExcess(Scheduler& scheduler, std::int64_t capacity) {
  return Cover(scheduler, capacity, nullptr);
}

void ImproveChoice(Scheduler& scheduler, const GapLimits& limits,
                   GapChoice* choice) {
  Improver(scheduler, limits, choice).Run();
}

}  // namespace ucudnn
