#include "solver/memory/best/sub_batch.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "solver/memory/best/emit.h"
#include "solver/memory/finish.h"
#include "solver/memory/placement.h"
#include "solver/memory/round_draft.h"
#include "solver/memory/summary.h"

namespace ucudnn {
namespace {

// A round within a 5000th of its bound is not searched further.
constexpr std::int64_t kCloseEnough = 5000;
// Addresses leave gaps, so plans are made for these parts of the budget, one
// after the other until one can be placed. ResNet-50 needed the steps between
// 0.96 and 0.93 (docs/results/h100-memory-2026-11-26.md).
constexpr double kCapacities[] = {1,    0.995, 0.99, 0.98, 0.97, 0.96,
                                  0.95, 0.94,  0.93, 0.9,  0.86, 0.8};
// Plans with a reserve are those that can be placed, so they get most effort:
// it gained up to 2 %, and nothing without a reserve (the same page).
constexpr std::int64_t kReserveEffort = 4;
// The most schedules that a search tries, even for a round of few tasks.
constexpr std::int64_t kMostSchedules = 3'000;
// A fifth of them made ResNet-152 take 12 s instead of 20.6, but plans up to
// 0.4 % slower (docs/results/memory-best-2026-11-22.md).
constexpr std::int64_t kPlacementNodes = 100'000;

}  // namespace

std::unique_ptr<SubBatch> SubBatch::Make(const TrainingGraph& graph,
                                         BatchSize size) {
  Result<Rounds> rounds = ModelRounds(graph, size, TaskRuns::kInParts);
  if (!rounds) return nullptr;
  std::unique_ptr<SubBatch> made(new SubBatch(*std::move(rounds)));
  for (std::size_t i = 0; i < made->options_.size(); ++i) {
    for (const std::size_t task : made->rounds_.models[i].tasks) {
      if (made->options_[i].Of(task).empty()) return nullptr;
    }
  }
  return made;
}

SubBatch::SubBatch(Rounds rounds) : rounds_(std::move(rounds)) {
  for (const RoundModel& round : rounds_.models) options_.emplace_back(round);
}

std::vector<Hosted> SubBatch::HostedChoices() const {
  const RoundModel& round = rounds_.models.front();
  Hosted hosted(round.size.size());
  std::vector<Hosted> choices = {hosted};
  std::vector<std::size_t> weights;
  for (std::size_t block = 0; block < hosted.size(); ++block) {
    if (round.persistent[block]) weights.push_back(block);
  }
  std::ranges::stable_sort(
      weights, std::ranges::greater(),
      [&](std::size_t block) { return round.size[block]; });
  std::size_t next = 0;
  for (std::size_t count = 1; next < weights.size(); count *= 2) {
    for (; next < std::min(count, weights.size()); ++next) {
      hosted[weights[next]] = true;
    }
    choices.push_back(hosted);
  }
  return choices;
}

std::optional<Nanoseconds> SubBatch::Estimate(const Hosted& hosted,
                                              std::int64_t capacity,
                                              const SubBatchLimits& limits,
                                              Nanoseconds limit) const {
  const std::optional<Found> found =
      Search(hosted, {.bytes = capacity}, limits, limit, nullptr);
  if (!found) return std::nullopt;
  return found->time;
}

std::optional<MemoryPlan> SubBatch::Plan(const Hosted& hosted,
                                         const MemoryRequest& request,
                                         const SubBatchLimits& limits,
                                         Nanoseconds limit) const {
  std::vector<Found> unplaced;
  std::optional<MemoryPlan> placed;
  const auto search = [&](double reserve) {
    for (const double share : kCapacities) {
      const Capacity capacity{
          static_cast<std::int64_t>(
              static_cast<double>(request.budget.count()) * share),
          reserve};
      std::optional<Found> found =
          Search(hosted, capacity, limits, limit,
                 unplaced.empty() ? nullptr : &unplaced.back());
      if (!found) return;
      std::optional<MemoryPlan> plan = Place(*found, request, 0);
      if (plan) {
        limit = plan->time;
        placed = std::move(plan);
        return;
      }
      unplaced.push_back(*std::move(found));
    }
  };
  if (limits.reserve > 0) search(limits.reserve);
  search(0);
  if (placed && request.any_plan) return placed;
  // Where less memory cost time, a search for addresses may save it.
  std::ranges::stable_sort(
      unplaced, [](const Found& a, const Found& b) { return a.time < b.time; });
  for (const Found& found : unplaced) {
    if (placed && found.time >= placed->time) break;
    std::optional<MemoryPlan> plan = Place(found, request, kPlacementNodes);
    if (plan) return plan;
  }
  return placed;
}

std::optional<SubBatch::Found> SubBatch::Search(const Hosted& hosted,
                                                const Capacity& capacity,
                                                const SubBatchLimits& limits,
                                                Nanoseconds limit,
                                                const Found* start) const {
  Found found;
  for (std::size_t i = 0; i < rounds_.models.size(); ++i) {
    ProgramChoices choices;
    if (start != nullptr) {
      choices = start->rounds[i].program->choices;
    } else {
      choices.hosted = hosted;
      choices.inputs_leave = rounds_.models.size() == 1;
    }
    const bool last = i + 1 == rounds_.models.size();
    const Nanoseconds bound = last ? limits.bound.last : limits.bound.earlier;
    RoundLimits of_round;
    of_round.gaps.capacity = capacity.bytes;
    of_round.gaps.enough = (bound + bound / kCloseEnough).count();
    of_round.gaps.effort = std::min(
        kMostSchedules, limits.effort / static_cast<std::int64_t>(
                                            rounds_.models[i].tasks.size()));
    if (capacity.reserve > 0) of_round.gaps.effort *= kReserveEffort;
    of_round.gaps.stop = limits.stop;
    of_round.programs = limits.programs;
    of_round.reserve = capacity.reserve;
    found.rounds.push_back(
        SearchRound(rounds_.models[i], options_[i], choices, of_round));
    const GapChoice& choice = found.rounds.back().choice;
    if (choice.missing > 0) return std::nullopt;
    found.time += Nanoseconds(choice.schedule.time) * rounds_.counts[i];
    const Nanoseconds rest = last ? Nanoseconds(0) : limits.bound.last;
    if (found.time >= limit - rest) return std::nullopt;
  }
  return found;
}

std::optional<MemoryPlan> SubBatch::Place(const Found& found,
                                          const MemoryRequest& request,
                                          std::int64_t nodes) const {
  MemoryPlan plan = NewPlan(rounds_, request, kPlanAlignment);
  const Hosted& hosted = found.rounds.front().program->choices.hosted;
  std::erase_if(plan.resident, [&](const ResidentBlock& resident) {
    return hosted[resident.block];
  });
  Bytes end;
  for (ResidentBlock& resident : plan.resident) {
    resident.range.offset = end;
    end += Aligned(resident.range.bytes);
  }
  for (std::size_t i = 0; i < found.rounds.size(); ++i) {
    const FoundRound& round = found.rounds[i];
    plan.rounds.push_back(EmitRound(*round.scheduler, options_[i],
                                    plan.resident, round.choice.choices.moved,
                                    round.choice.schedule));
    plan.rounds.back().count = rounds_.counts[i];
  }
  Limits limits;
  limits.stop = request.stop;
  limits.max_nodes = nodes;
  const TrainingGraph& graph = *rounds_.models.front().graph;
  if (!PlaceStatically(graph, limits, &plan)) return std::nullopt;
  Summarise(graph, &plan);
  return plan;
}

}  // namespace ucudnn
