#include "solver/memory/best/round_search.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

namespace ucudnn {
namespace {

bool Better(const RoundSchedule& a, const RoundSchedule& b) {
  return std::tie(a.time, a.moved) < std::tie(b.time, b.moved);
}

// Blocks smaller than this part of the largest are left as they are.
constexpr std::int64_t kLeastShare = 256;

class Improver {
 public:
  Improver(Scheduler& scheduler, std::int64_t capacity, std::int64_t enough,
           const std::stop_token& stop, std::int64_t* effort, GapChoice* choice)
      : scheduler_(scheduler),
        gaps_(scheduler.program().gaps),
        capacity_(capacity),
        enough_(enough),
        stop_(stop),
        effort_(effort),
        choice_(choice) {
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
    std::stable_sort(free_.begin(), free_.end(),
                     [&](std::size_t a, std::size_t b) {
                       return size[gaps_[a].block] > size[gaps_[b].block];
                     });
  }

  void Run() {
    while (!Done()) {
      if (!TryFlips() && !TryExchanges()) return;
    }
  }

 private:
  bool Done() const {
    return *effort_ <= 0 || choice_->schedule.time <= enough_ ||
           stop_.stop_requested();
  }

  // Keeps what has been changed in `moved` if that is better.
  bool Keep() {
    --*effort_;
    scheduler_.Schedule(choice_->moved, capacity_, &trial_);
    if (!trial_.fits || !Better(trial_, choice_->schedule)) return false;
    std::swap(trial_, choice_->schedule);
    return true;
  }

  void Flip(std::size_t g) { choice_->moved[g] = !choice_->moved[g]; }

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
      if (!choice_->moved[g]) continue;
      for (const std::size_t h : free_) {
        if (Done()) return any;
        if (choice_->moved[h] || gaps_[h].after >= gaps_[g].until ||
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

  Scheduler& scheduler_;
  const std::vector<BlockGap>& gaps_;
  const std::int64_t capacity_;
  const std::int64_t enough_;
  const std::stop_token& stop_;
  std::int64_t* effort_;
  GapChoice* choice_;
  std::vector<std::size_t> free_;  // gaps that are a choice, largest first
  RoundSchedule trial_;
};

}  // namespace

GapChoice CoverExcess(Scheduler& scheduler, std::int64_t capacity,
                      std::vector<char> moved) {
  const RoundProgram& program = scheduler.program();
  GapChoice choice;
  choice.moved = std::move(moved);
  choice.moved.resize(program.gaps.size());
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
    choice.moved[g] = true;
  };
  for (std::size_t g = 0; g < program.gaps.size(); ++g) {
    if (program.gaps[g].forced || choice.moved[g]) leave(g);
  }
  while (true) {
    const auto worst = std::max_element(excess.begin(), excess.end());
    if (worst == excess.end() || *worst <= 0) break;
    const int place = static_cast<int>(worst - excess.begin());
    std::size_t best = program.gaps.size();
    for (std::size_t g = 0; g < program.gaps.size(); ++g) {
      const BlockGap& gap = program.gaps[g];
      if (choice.moved[g] || gap.after >= place || gap.until <= place ||
          program.size[gap.block] == 0) {
        continue;
      }
      if (best == program.gaps.size() || gap.until > program.gaps[best].until) {
        best = g;
      }
    }
    if (best == program.gaps.size()) return choice;
    leave(best);
  }
  scheduler.Schedule(choice.moved, capacity, &choice.schedule);
  return choice;
}

void ImproveChoice(Scheduler& scheduler, std::int64_t capacity,
                   std::int64_t enough, const std::stop_token& stop,
                   std::int64_t* effort, GapChoice* choice) {
  Improver(scheduler, capacity, enough, stop, effort, choice).Run();
}

}  // namespace ucudnn
