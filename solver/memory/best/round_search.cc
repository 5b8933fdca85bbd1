#include "solver/memory/best/round_search.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <random>
#include <utility>

namespace ucudnn {
namespace {

// Random changes are at most so many for each block. What they make slower by
// up to this part of the time is accepted at first. (What the gap was in
// docs/results/h100-memory-2026-11-26.md.)
constexpr std::int64_t kStepsABlock = 30;
constexpr std::int64_t kThreshold = 400;
// If at most so many blocks have this part of the bytes that can be computed
// again, all choices of these blocks are tried: VGG-16 takes 71.6 ms instead of
// 75.0 (VGG-16 on the same page).
constexpr std::size_t kMostLarge = 9;
constexpr double kLargeShare = 0.75;
// The schedules that improve the gaps of each such choice.
constexpr std::int64_t kSchedulesOfLarge = 100;

// Chooses what is computed again.
class Recomputer {
 public:
  Recomputer(const RoundModel& round, const TaskOptions& options,
             const RoundLimits& limits,
             const std::vector<ProgramChoices>& starts, FoundRound* best)
      : round_(round),
        maker_(round),
        options_(options),
        limits_(limits),
        starts_(starts),
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
    std::ranges::sort(ranked);
    for (const auto& [time, block] : ranked) cheapest_.push_back(block);
  }

  void Run() {
    Search();
    if (best_->choice.missing == 0 || cheapest_.empty()) return;
    repeats_all_ = true;
    tries_ = limits_.programs;
    Try(best_->program->choices);
    Search();
  }

 private:
  void Search() {
    const std::vector<bool>& recomputed = best_->program->choices.recomputed;
    if (std::ranges::count(recomputed, true) == 0) {
      TryCheapest();
      TryLargest();
    }
    TryStarts();
    while (TryEach()) {
    }
    Wander();
  }

  bool Done() const {
    return tries_ <= 0 || limits_.gaps.stop.stop_requested() ||
           (best_->choice.missing == 0 &&
            best_->choice.schedule.time <= limits_.gaps.enough);
  }

  double TimeToCompute(std::size_t block) const {
    double time = 0;
    for (const std::size_t place : round_.uses[block]) {
      const std::size_t i = round_.tasks[place];
      const Task& task = round_.graph->tasks[i];
      if (task.kind != TaskKind::kForward) break;
      if (std::ranges::count(task.writes, block) == 0) {
        continue;
      }
      time += static_cast<double>(options_.OfRerun(i).back().time);
    }
    return time;
  }

  // Without a program if the choices allow none. Blocks that would be computed
  // again and then be moved are repeated instead, if that is better.
  FoundRound Make(ProgramChoices choices) {
    --tries_;
    choices.repeated.assign(round_.size.size(), false);
    if (repeats_all_) choices.repeated = choices.recomputed;
    FoundRound made = MakeOnce(choices);
    while (made.program && AddRepeated(made, &choices.repeated)) {
      FoundRound trial = MakeOnce(choices);
      if (!trial.program || !Better(trial.choice, made.choice)) break;
      made = std::move(trial);
    }
    return made;
  }

  // Repeats the blocks that are computed again and moved; false if there are
  // none.
  static bool AddRepeated(const FoundRound& made, std::vector<bool>* repeated) {
    const RoundProgram& program = *made.program;
    bool any = false;
    for (std::size_t g = 0; g < program.gaps.size(); ++g) {
      const std::size_t block = program.gaps[g].block;
      if (!program.choices.recomputed[block] || (*repeated)[block] ||
          !made.choice.choices.moved[g]) {
        continue;
      }
      (*repeated)[block] = any = true;
    }
    return any;
  }

  FoundRound MakeOnce(const ProgramChoices& choices) {
    FoundRound made;
    std::optional<RoundProgram> program = maker_.Make(choices);
    if (!program) return made;
    made.program = std::make_unique<RoundProgram>(*std::move(program));
    made.scheduler = std::make_unique<Scheduler>(*made.program, options_);
    made.choice = CoverExcess(*made.scheduler, limits_.gaps.capacity);
    return made;
  }

  // Keeps these choices if they are better.
  bool Try(const ProgramChoices& choices) {
    FoundRound trial = Make(choices);
    if (!trial.program || !Better(trial.choice, best_->choice)) return false;
    *best_ = std::move(trial);
    return true;
  }

  // With the freedom of this search, and blocks repeated as there.
  void TryStarts() {
    for (ProgramChoices start : starts_) {
      start.inputs_leave = best_->program->choices.inputs_leave;
      start.activations_leave = best_->program->choices.activations_leave;
      FoundRound trial = MakeOnce(start);
      if (trial.program && Better(trial.choice, best_->choice)) {
        *best_ = std::move(trial);
      }
    }
  }

  // Recomputes the k cheapest blocks, for several k up to all of them. Spends
  // at most half of the tries.
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

  // Few large blocks: whether one is moved or computed again decides what is
  // best for the others, so no change of one or two helps. Each choice has its
  // gaps improved.
  void TryLargest() {
    const std::vector<std::size_t> large = Largest();
    if (large.empty() || tries_ < std::int64_t{1} << large.size()) return;
    GapLimits limits = limits_.gaps;
    limits.effort = std::min(limits.effort, kSchedulesOfLarge);
    ProgramChoices choices = best_->program->choices;
    for (std::uint64_t set = 0; set >> large.size() == 0 && !Done(); ++set) {
      for (std::size_t i = 0; i < large.size(); ++i) {
        choices.recomputed[large[i]] = (set >> i & 1) != 0;
      }
      FoundRound trial = Make(choices);
      if (!trial.program || trial.choice.missing > 0) continue;
      ImproveChoice(*trial.scheduler, limits, &trial.choice);
      if (Better(trial.choice, best_->choice)) *best_ = std::move(trial);
    }
  }

  // The largest blocks, as many as have kLargeShare of the bytes; none if these
  // are more than kMostLarge.
  std::vector<std::size_t> Largest() const {
    std::vector<std::size_t> large = cheapest_;
    std::ranges::stable_sort(
        large, std::ranges::greater(),
        [&](std::size_t block) { return round_.size[block]; });
    Bytes all;
    for (const std::size_t block : large) all += round_.size[block];
    Bytes sum;
    std::size_t count = 0;
    while (count < large.size() &&
           static_cast<double>(sum.count()) <
               kLargeShare * static_cast<double>(all.count())) {
      sum += round_.size[large[count++]];
    }
    large.resize(count <= kMostLarge ? count : 0);
    return large;
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

  // Threshold accepting. Blocks that are computed again and those that are
  // moved depend on each other, so what one change costs, the next may win
  // back.
  void Wander() {
    if (best_->choice.missing > 0 || cheapest_.empty()) return;
    ProgramChoices current = best_->program->choices;
    std::int64_t time = best_->choice.schedule.time;
    const std::int64_t most = time / kThreshold;
    const std::int64_t steps =
        std::min(tries_, kStepsABlock * std::ssize(cheapest_));
    for (std::int64_t left = steps; left > 0 && !Done(); --left) {
      ProgramChoices changed = current;
      for (std::uint64_t flips = 1 + random_() % 2; flips > 0; --flips) {
        const std::size_t block = cheapest_[random_() % cheapest_.size()];
        changed.recomputed[block] = !changed.recomputed[block];
      }
      FoundRound trial = Make(changed);
      if (!trial.program || trial.choice.missing > 0 ||
          trial.choice.schedule.time > time + most * left / steps) {
        continue;
      }
      current = std::move(changed);
      time = trial.choice.schedule.time;
      if (Better(trial.choice, best_->choice)) *best_ = std::move(trial);
    }
  }

  const RoundModel& round_;
  ProgramMaker maker_;
  const TaskOptions& options_;
  const RoundLimits& limits_;
  const std::vector<ProgramChoices>& starts_;
  FoundRound* best_;
  std::int64_t tries_;
  bool repeats_all_ = false;           // since nothing fits otherwise
  std::vector<std::size_t> cheapest_;  // blocks, by time per byte
  std::mt19937_64 random_;             // the same numbers each time
};

}  // namespace

FoundRound SearchRound(const RoundModel& round, const TaskOptions& options,
                       const ProgramChoices& choices, const RoundLimits& limits,
                       const std::vector<ProgramChoices>& starts) {
  FoundRound best;
  best.program =
      std::make_unique<RoundProgram>(MakeProgram(round, choices).value());
  KeepReserve(limits.reserve, limits.gaps.capacity, best.program.get());
  best.scheduler = std::make_unique<Scheduler>(*best.program, options);
  best.choice = CoverExcess(*best.scheduler, limits.gaps.capacity);
  const auto improve = [&] {
    if (best.choice.missing > 0) return;
    ImproveChoice(*best.scheduler, limits.gaps, &best.choice);
  };
  if (limits.programs > 0) {
    // Recomputation must be better than the best without it.
    improve();
    Recomputer(round, options, limits, starts, &best).Run();
  }
  improve();
  return best;
}

Bytes RungBelow(Bytes budget) {
  if (budget < Bytes(1)) return Bytes(0);
  auto rung = static_cast<std::int64_t>(
      std::floor(std::log2(static_cast<double>(budget.count())) * 4));
  const auto at = [](std::int64_t r) {
    return Bytes(
        static_cast<std::int64_t>(std::exp2(static_cast<double>(r) / 4)));
  };
  while (at(rung) >= budget) --rung;
  return at(rung);
}

}  // namespace ucudnn
