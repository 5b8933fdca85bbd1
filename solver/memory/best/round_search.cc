#include "solver/memory/best/round_search.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace ucudnn {
namespace {

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
    trial.choice = CoverExcess(*trial.scheduler, limits_.gaps.capacity);
    if (!Better(trial.choice, best_->choice)) return false;
    *best_ = std::move(trial);
    return true;
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
  std::vector<std::size_t> cheapest_;  // blocks, by time per byte
};

}  // namespace

PlannedRound SearchRound(const RoundModel& round, const TaskOptions& options,
                         const ProgramChoices& choices,
                         const RoundLimits& limits) {
  PlannedRound best;
  best.program =
      std::make_unique<RoundProgram>(MakeProgram(round, choices).value());
  best.scheduler = std::make_unique<Scheduler>(*best.program, options);
  best.choice = CoverExcess(*best.scheduler, limits.gaps.capacity);
  const auto improve = [&] {
    if (best.choice.missing > 0) return;
    ImproveChoice(*best.scheduler, limits.gaps, &best.choice);
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
