#include "solver/memory/best/best.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "solver/memory/best/emit.h"
#include "solver/memory/best/round_search.h"
#include "solver/memory/bounds.h"
#include "solver/memory/finish.h"
#include "solver/memory/placement.h"
#include "solver/memory/policies.h"
#include "solver/memory/summary.h"

namespace ucudnn {
namespace {

// Schedules of a round that a search may try.
constexpr std::int64_t kEffort = 3000;
// A round within a 5000th of its bound is not searched further.
constexpr std::int64_t kCloseEnough = 5000;
// Addresses leave gaps, so plans are made for these parts of the budget, one
// after the other until one can be placed.
constexpr double kCapacities[] = {1,    0.995, 0.99, 0.98, 0.97,
                                  0.95, 0.93,  0.9,  0.86, 0.8};

// What a search for addresses must save to be worth its time: a 2000th.
constexpr std::int64_t kWorthPlacing = 2000;
constexpr std::int64_t kPlacementNodes = 100'000;

// The rounds of one sub-batch, with what does not depend on the budget.
struct Candidate {
  Rounds rounds;
  std::deque<TaskOptions> options;
  std::deque<RoundProgram> programs;
  std::deque<Scheduler> schedulers;
};

std::unique_ptr<Candidate> MakeCandidate(const TrainingGraph& graph,
                                         BatchSize sub_batch) {
  Result<Rounds> rounds = ModelRounds(graph, sub_batch);
  if (!rounds) return nullptr;
  auto candidate = std::make_unique<Candidate>();
  candidate->rounds = *std::move(rounds);
  for (const RoundModel& round : candidate->rounds.models) {
    candidate->options.emplace_back(round);
    ProgramChoices choices;
    choices.inputs_leave = candidate->rounds.models.size() == 1;
    candidate->programs.push_back(*MakeProgram(round, choices));
    candidate->schedulers.emplace_back(candidate->programs.back(),
                                       candidate->options.back());
  }
  return candidate;
}

struct Found {
  std::vector<GapChoice> choices;  // by round
  std::int64_t time = 0;
};

std::optional<MemoryPlan> Emit(Candidate& c, const Found& found,
                               const MemoryRequest& request,
                               std::int64_t placement_nodes) {
  MemoryPlan plan = NewPlan(c.rounds, request, kPlanAlignment);
  for (std::size_t i = 0; i < c.schedulers.size(); ++i) {
    plan.rounds.push_back(EmitRound(c.schedulers[i], c.options[i],
                                    plan.resident, found.choices[i].moved,
                                    found.choices[i].schedule));
    UCUDNN_CHECK(plan.rounds.back().time.count() ==
                 found.choices[i].schedule.time);
    plan.rounds.back().count = c.rounds.counts[i];
  }
  Limits limits;
  limits.stop = request.stop;
  limits.max_nodes = placement_nodes;
  if (!PlaceStatically(c.rounds, limits, &plan)) return std::nullopt;
  Summarise(*c.rounds.models.front().graph, &plan);
  return plan;
}

// Sub-batches that cut the mini-batch into rounds of equal size, the last
// perhaps smaller: those of 1, 2, 3, ... rounds.
std::vector<BatchSize> SubBatches(const TrainingGraph& graph,
                                  const MemoryRequest& request) {
  if (request.sub_batch) return {*request.sub_batch};
  std::vector<BatchSize> sub_batches;
  const std::int64_t batch = graph.batch.count();
  for (std::int64_t rounds = 1; rounds <= batch; ++rounds) {
    const BatchSize size((batch + rounds - 1) / rounds);
    if (sub_batches.empty() || size < sub_batches.back()) {
      sub_batches.push_back(size);
    }
  }
  return sub_batches;
}

// Rungs lie a quarter of an octave apart.
Bytes RungBelow(Bytes budget) {
  auto rung = static_cast<std::int64_t>(
      std::floor(std::log2(static_cast<double>(budget.count())) * 4));
  const auto at = [](std::int64_t r) {
    return Bytes(
        static_cast<std::int64_t>(std::exp2(static_cast<double>(r) / 4)));
  };
  while (at(rung) >= budget) --rung;
  return at(rung);
}

class BestSearch {
 public:
  BestSearch(const TrainingGraph& graph, const MemoryRequest& request)
      : graph_(graph),
        request_(request),
        sub_batches_(SubBatches(graph, request)),
        candidates_(sub_batches_.size()) {}

  // The fastest plan of all budgets of the ladder up to this one.
  Result<MemoryPlan> Climb(Bytes budget) {
    Result<MemoryPlan> best = Search(budget);
    if (!best && best.error().code != Code::kFailedPrecondition) return best;
    if (best && request_.any_plan) return best;
    for (Bytes rung = RungBelow(budget);
         rung >= LowerBoundBytes(graph_, request_.offload_weights) &&
         !request_.stop.stop_requested();
         rung = RungBelow(rung)) {
      PlanFreedom freedom = Freedom();
      freedom.order = PlanFreedom::Order::kUpdatesAnywhere;
      if (best && LowerBoundTime(graph_, rung, freedom) >= best->time) break;
      Result<MemoryPlan> plan = Search(rung);
      if (plan && (!best || plan->time < best->time)) {
        best = std::move(plan);
        best->budget = budget;
      }
    }
    return best;
  }

 private:
  Result<MemoryPlan> Search(Bytes budget) {
    MemoryRequest request = request_;
    request.budget = budget;
    Result<MemoryPlan> best = FastestOfPolicies(request);
    if (!best && best.error().code != Code::kFailedPrecondition) return best;
    const std::vector<std::optional<SubBatchBound>> bounds =
        LowerBoundsOfSubBatches(graph_, budget, Freedom(), sub_batches_);
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < bounds.size(); ++i) {
      if (bounds[i]) order.push_back(i);
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) {
                       return bounds[a]->time < bounds[b]->time;
                     });
    for (const std::size_t i : order) {
      if (best && bounds[i]->time >= best->time) break;
      if (request.stop.stop_requested()) break;
      if (best && request.any_plan) break;
      std::optional<MemoryPlan> plan =
          SearchSubBatch(i, *bounds[i], request, best ? &*best : nullptr);
      if (plan) best = *std::move(plan);
    }
    return best;
  }

  PlanFreedom Freedom() const {
    PlanFreedom freedom;
    freedom.offloads_weights = request_.offload_weights;
    freedom.recomputes = request_.recompute;
    // Neither the policies nor the search divide what has one algorithm.
    freedom.divides_estimates = !graph_.device.algorithms.empty();
    return freedom;
  }

  Result<MemoryPlan> FastestOfPolicies(const MemoryRequest& request) const {
    Result<MemoryPlan> best =
        Fail(Code::kFailedPrecondition, "no plan was found in the budget of {}",
             HumanBytes(request.budget));
    for (const MemoryPolicy& policy : MemoryPolicies()) {
      if (policy.plan == PlanBest) continue;
      Result<MemoryPlan> plan = policy.plan(graph_, request);
      if (!plan && plan.error().code != Code::kFailedPrecondition) return plan;
      if (plan && (!best || plan->time < best->time)) {
        best = std::move(plan);
        best->choice = policy.name;
      }
    }
    return best;
  }

  // A plan of this sub-batch that is faster than `best`.
  std::optional<MemoryPlan> SearchSubBatch(std::size_t index,
                                           const SubBatchBound& bound,
                                           const MemoryRequest& request,
                                           const MemoryPlan* best) {
    std::unique_ptr<Candidate>& candidate = candidates_[index];
    if (!candidate) candidate = MakeCandidate(graph_, sub_batches_[index]);
    if (!candidate) return std::nullopt;
    // Of each part of the budget, the largest first.
    std::vector<Found> unplaced;
    std::optional<MemoryPlan> placed;
    for (const double share : kCapacities) {
      std::optional<Found> found =
          ChooseGaps(*candidate, bound, request, share);
      if (!found) break;
      if (best != nullptr && found->time >= best->time.count()) break;
      placed = Emit(*candidate, *found, request, 0);
      if (placed || request.any_plan) break;
      unplaced.push_back(*std::move(found));
    }
    // Where that cost time, a search for addresses may save it.
    for (; !unplaced.empty(); unplaced.pop_back()) {
      const Found& found = unplaced.back();
      if (placed &&
          found.time + found.time / kWorthPlacing > placed->time.count()) {
        continue;
      }
      std::optional<MemoryPlan> plan =
          Emit(*candidate, found, request, kPlacementNodes);
      if (!plan) break;
      placed = std::move(plan);
    }
    return placed;
  }

  std::optional<Found> ChooseGaps(Candidate& candidate,
                                  const SubBatchBound& bound,
                                  const MemoryRequest& request,
                                  double share) const {
    const auto capacity = static_cast<std::int64_t>(
        static_cast<double>(request.budget.count()) * share);
    Found found;
    for (std::size_t i = 0; i < candidate.schedulers.size(); ++i) {
      Scheduler& scheduler = candidate.schedulers[i];
      GapChoice choice = CoverExcess(scheduler, capacity, {});
      if (!choice.schedule.fits) return std::nullopt;
      const bool last = i + 1 == candidate.schedulers.size();
      const std::int64_t least = (last ? bound.last : bound.earlier).count();
      std::int64_t effort = request.any_plan ? 0 : kEffort;
      ImproveChoice(scheduler, capacity, least + least / kCloseEnough,
                    request.stop, &effort, &choice);
      found.time += choice.schedule.time * candidate.rounds.counts[i];
      found.choices.push_back(std::move(choice));
    }
    return found;
  }

  const TrainingGraph& graph_;
  const MemoryRequest& request_;
  const std::vector<BatchSize> sub_batches_;
  std::vector<std::unique_ptr<Candidate>> candidates_;  // by sub-batch
};

}  // namespace

Result<MemoryPlan> PlanBest(const TrainingGraph& graph,
                            const MemoryRequest& request) {
  return BestSearch(graph, request).Climb(request.budget);
}

}  // namespace ucudnn
