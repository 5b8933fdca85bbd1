#include "solver/memory/best/round_search.h"

#include <algorithm>
#include <optional>
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
           std::int64_t effort, const std::stop_token& stop, GapChoice* choice)
      : scheduler_(scheduler),
        gaps_(scheduler.program().gaps),
        capacity_(capacity),
        enough_(enough),
        effort_(effort),
        stop_(stop),
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
    return effort_ <= 0 || choice_->schedule.time <= enough_ ||
           stop_.stop_requested();
  }

  // Keeps what has been changed in `moved` if that is better.
  bool Keep() {
    --effort_;
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
  std::int64_t effort_;
  const std::stop_token& stop_;
  GapChoice* choice_;
  std::vector<std::size_t> free_;  // gaps that are a choice, largest first
  RoundSchedule trial_;
};

// Whether a choice is better: what fits, then what is faster.
bool Better(const GapChoice& a, const GapChoice& b) {
  if (a.missing != b.missing) return a.missing < b.missing;
  return a.missing == 0 && Better(a.schedule, b.schedule);
}

// Chooses what is computed again.
class Recomputer {
 public:
  Recomputer(const RoundModel& round, const TaskOptions& options,
             const RoundLimits& limits, PlannedRound* best)
      : round_(round),
        options_(options),
        limits_(limits),
        best_(best),
        tries_(limits.programs) {
    const std::vector<bool> can = RecomputableBlocks(round);
    std::vector<std::pair<double, std::size_t>> ranked;
    for (std::size_t block = 0; block < can.size(); ++block) {
      if (!can[block] || round.size[block] == Bytes(0)) continue;
      ranked.emplace_back(
          TimeToCompute(block) / static_cast<double>(round.size[block].count()),
          block);
    }
    std::sort(ranked.begin(), ranked.end());
    for (const auto& [time, block] : ranked) cheapest_.push_back(block);
  }

  void Run() {
    const std::vector<bool>& recomputed = best_->program->choices.recomputed;
    if (std::count(recomputed.begin(), recomputed.end(), true) == 0) {
      TryCheapest();
    }
    while (TryEach()) {
    }
  }

 private:
  bool Done() const {
    return tries_ <= 0 || limits_.stop.stop_requested() ||
           (best_->choice.missing == 0 &&
            best_->choice.schedule.time <= limits_.enough);
  }

  double TimeToCompute(std::size_t block) const {
    double time = 0;
    for (const std::size_t place : round_.uses[block]) {
      const std::size_t i = round_.tasks[place];
      const Task& task = round_.graph->tasks[i];
      if (task.kind != TaskKind::kForward) break;
      if (std::count(task.writes.begin(), task.writes.end(), block) == 0) {
        continue;
      }
      time += static_cast<double>(options_.Of(i).back().time);
    }
    return time;
  }

  // Keeps these choices if they are better.
  bool Try(const ProgramChoices& choices) {
    --tries_;
    std::optional<RoundProgram> program = MakeProgram(round_, choices);
    if (!program) return false;
    PlannedRound trial;
    trial.program = std::make_unique<RoundProgram>(*std::move(program));
    trial.scheduler = std::make_unique<Scheduler>(*trial.program, options_);
    trial.choice = CoverExcess(*trial.scheduler, limits_.capacity);
    if (!Better(trial.choice, best_->choice)) return false;
    *best_ = std::move(trial);
    return true;
  }

  // Several numbers of the cheapest, with half of the tries.
  void TryCheapest() {
    ProgramChoices choices = best_->program->choices;
    const std::size_t steps =
        static_cast<std::size_t>(std::max<std::int64_t>(1, tries_ / 2));
    std::size_t next = 0;
    for (std::size_t step = 1; step <= steps && !Done(); ++step) {
      const std::size_t count = cheapest_.size() * step / steps;
      if (count == next) continue;
      for (; next < count; ++next) choices.recomputed[cheapest_[next]] = true;
      Try(choices);
    }
  }

  bool TryEach() {
    bool any = false;
    for (const std::size_t block : cheapest_) {
      if (Done()) return false;
      ProgramChoices choices = best_->program->choices;
      choices.recomputed[block] = !choices.recomputed[block];
      any = Try(choices) || any;
    }
    return any;
  }

  const RoundModel& round_;
  const TaskOptions& options_;
  const RoundLimits& limits_;
  PlannedRound* best_;
  std::int64_t tries_;
  std::vector<std::size_t> cheapest_;  // blocks, by time a byte
};

}  // namespace

GapChoice CoverExcess(Scheduler& scheduler, std::int64_t capacity) {
  const RoundProgram& program = scheduler.program();
  GapChoice choice;
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
    if (program.gaps[g].forced) leave(g);
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
    if (best == program.gaps.size()) {
      choice.missing = *worst;
      return choice;
    }
    leave(best);
  }
  scheduler.Schedule(choice.moved, capacity, &choice.schedule);
  return choice;
}

void ImproveChoice(Scheduler& scheduler, std::int64_t capacity,
                   std::int64_t enough, std::int64_t effort,
                   const std::stop_token& stop, GapChoice* choice) {
  Improver(scheduler, capacity, enough, effort, stop, choice).Run();
}

PlannedRound SearchRound(const RoundModel& round, const TaskOptions& options,
                         const ProgramChoices& choices,
                         const RoundLimits& limits) {
  PlannedRound best;
  best.program =
      std::make_unique<RoundProgram>(MakeProgram(round, choices).value());
  best.scheduler = std::make_unique<Scheduler>(*best.program, options);
  best.choice = CoverExcess(*best.scheduler, limits.capacity);
  const auto improve = [&] {
    if (best.choice.missing > 0) return;
    ImproveChoice(*best.scheduler, limits.capacity, limits.enough,
                  limits.effort, limits.stop, &best.choice);
  };
  if (limits.programs > 0) {
    // Recomputation must be better than the best without it.
    improve();
    Recomputer(round, options, limits, &best).Run();
  }
  improve();
  return best;
}

}  // namespace ucudnn
