#include "solver/memory/best/best.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "solver/memory/best/sub_batch.h"
#include "solver/memory/bounds.h"
#include "solver/memory/policies.h"

namespace ucudnn {
namespace {

// Tasks in all schedules, and in programs with recomputation, that the search
// of a round may try. The first are for plans that only move activations. All
// that are searched after the estimates share those of programs: up to 5,000 of
// them instead of 240 gained 7.5 % on ResNet-50 (What the gap was in
// docs/results/h100-memory-2026-11-26.md). The others are chosen so that
// ResNet-152 takes seconds (docs/results/memory-best-2026-11-22.md).
constexpr std::int64_t kEffort = 1'500'000;
constexpr std::int64_t kFreeEffort = 150'000;
constexpr std::int64_t kProgramEffort = 1'800'000;
constexpr std::int64_t kLeastPrograms = 240;
constexpr std::int64_t kMostPrograms = 5000;
constexpr std::int64_t kProgramsOfEstimate = 8;
// Of the budget: what plans that only move activations keep free (KeepReserve
// in program.h; Where nothing is computed again on the same page).
constexpr double kReserve = 0.25;
// Sub-batches, with what lives on the host, that are searched after all were
// estimated, at this part of the budget.
constexpr std::size_t kSearched = 4;
constexpr double kShareOfEstimate = 0.97;

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

Result<MemoryPlan> FastestOfPolicies(const TrainingGraph& graph,
                                     const MemoryRequest& request) {
  Result<MemoryPlan> best =
      Fail(Code::kFailedPrecondition, "no plan was found in the budget of {}",
           HumanBytes(request.budget));
  for (const MemoryPolicy& policy : MemoryPolicies()) {
    if (policy.plan == PlanBest) continue;
    Result<MemoryPlan> plan = policy.plan(graph, request);
    if (!plan && plan.error().code != Code::kFailedPrecondition) return plan;
    if (plan && (!best || plan->time < best->time)) {
      best = std::move(plan);
      best->choice = policy.name;
    }
  }
  return best;
}

class BestSearch {
 public:
  BestSearch(const TrainingGraph& graph, const MemoryRequest& request)
      : graph_(graph),
        request_(request),
        sizes_(SubBatches(graph, request)),
        sub_batches_(sizes_.size()) {}

  // The fastest plan of all budgets of the ladder up to this one.
  Result<MemoryPlan> Climb(Bytes budget) {
    Result<MemoryPlan> best = Search(budget, Nanoseconds::max());
    if (!best && best.error().code != Code::kFailedPrecondition) return best;
    if (best && request_.any_plan) return best;
    const Bytes least = LowerBoundBytes(graph_, request_.offload_weights);
    for (Bytes rung = RungBelow(budget);
         rung >= least && !request_.stop.stop_requested();
         rung = RungBelow(rung)) {
      if (best && LeastTimeWithin(rung, FreedomOf(request_)) >= best->time) {
        break;
      }
      Result<MemoryPlan> plan = Search(rung, TimeOf(best));
      if (plan && (!best || plan->time < best->time)) {
        best = std::move(plan);
        best->budget = budget;
      }
    }
    if (request_.stop.stop_requested()) NoteCutOff(budget, &best);
    return best;
  }

 private:
  using Bounds = std::vector<std::optional<SubBatchBound>>;

  // Says that the search was stopped, unless nothing can be faster.
  void NoteCutOff(Bytes budget, Result<MemoryPlan>* best) const {
    if (*best) {
      (*best)->cut_off =
          (*best)->time > LeastTimeWithin(budget, FreedomOf(request_));
    } else {
      best->error().message += "; the search was cut off before it ended";
    }
  }

  // Neither a policy nor a search with this freedom is faster within the
  // budget.
  Nanoseconds LeastTimeWithin(Bytes budget, MemoryFreedom freedom) const {
    freedom.order = MemoryFreedom::Order::kUpdatesAnywhere;
    if (!request_.sub_batch) return LowerBoundTime(graph_, budget, freedom);
    const Bounds bounds =
        LowerBoundsOfSubBatches(graph_, budget, freedom, sizes_);
    return bounds.front() ? bounds.front()->time : Nanoseconds::max();
  }

  // The fastest plan of one budget, if that takes less than `limit`. A lower
  // limit saves time, but never costs a plan below it: so more budget is never
  // slower whatever was found on the rungs above.
  Result<MemoryPlan> Search(Bytes budget, Nanoseconds limit) {
    MemoryRequest request = request_;
    request.budget = budget;
    Result<MemoryPlan> best =
        Fail(Code::kFailedPrecondition, "no plan was found in the budget of {}",
             HumanBytes(budget));
    if (limit == Nanoseconds::max() ||
        LeastTimeWithin(budget, FreedomToMove()) < limit) {
      best = FastestOfPolicies(graph_, request);
      if (!best && best.error().code != Code::kFailedPrecondition) return best;
    }
    const bool free = request.recompute || request.offload_weights;
    if (RecomputesFirst(request)) {
      SearchFreely(request, limit, &best);
      SearchMoves(request, limit, &best);
    } else {
      SearchMoves(request, limit, &best);
      if (free) SearchFreely(request, limit, &best);
    }
    return best;
  }

  // Whether recomputation can be faster than moves alone: what it finds then
  // rules out most of those.
  bool RecomputesFirst(const MemoryRequest& request) const {
    return request.recompute && !request.any_plan &&
           LeastTimeWithin(request.budget, FreedomOf(request)) <
               LeastTimeWithin(request.budget, FreedomToMove());
  }

  // Plans that move activations.
  void SearchMoves(const MemoryRequest& request, Nanoseconds limit,
                   Result<MemoryPlan>* best) {
    const Bounds bounds = LowerBoundsOfSubBatches(graph_, request.budget,
                                                  FreedomToMove(), sizes_);
    SubBatchLimits limits;
    limits.stop = request.stop;
    limits.effort = request.any_plan ? 0 : kEffort;
    limits.reserve = request.any_plan ? 0 : kReserve;
    for (const std::size_t i : ByTime(bounds)) {
      if (bounds[i]->time >= std::min(limit, TimeOf(*best))) return;
      if (Ends(request, *best)) return;
      limits.bound = *bounds[i];
      Try(i, Hosted(), request, limits, limit, best);
    }
  }

  // For all searches of a budget.
  std::int64_t Programs(const MemoryRequest& request) const {
    if (!request.recompute) return 0;
    if (request.any_plan) return kLeastPrograms;
    const auto tasks = std::max<std::int64_t>(1, std::ssize(graph_.tasks));
    return std::clamp(kProgramEffort / tasks, kLeastPrograms, kMostPrograms);
  }

  // Plans that also compute again, or have weights on the host.
  void SearchFreely(const MemoryRequest& request, Nanoseconds limit,
                    Result<MemoryPlan>* best) {
    const Bounds bounds = LowerBoundsOfSubBatches(graph_, request.budget,
                                                  FreedomOf(request), sizes_);
    struct Start {
      Nanoseconds time{0};
      std::size_t sub_batch = 0;
      Hosted hosted;
    };
    std::vector<Start> starts;  // by time
    const auto slowest = [&] {
      return starts.size() < kSearched ? Nanoseconds::max()
                                       : starts.back().time;
    };
    SubBatchLimits limits;
    limits.stop = request.stop;
    limits.programs = request.recompute ? kProgramsOfEstimate : 0;
    const auto capacity = static_cast<std::int64_t>(
        static_cast<double>(request.budget.count()) * kShareOfEstimate);
    for (const std::size_t i : ByTime(bounds)) {
      if (bounds[i]->time >= std::min(limit, TimeOf(*best))) break;
      if (bounds[i]->time >= slowest()) break;  // its estimates are no less
      if (Ends(request, *best)) return;
      const SubBatch* sub_batch = Get(i);
      if (sub_batch == nullptr) continue;
      limits.bound = *bounds[i];
      std::vector<Hosted> choices = sub_batch->HostedChoices();
      if (!request.offload_weights) choices.resize(1);
      for (Hosted& hosted : choices) {
        const std::optional<Nanoseconds> time =
            sub_batch->Estimate(hosted, capacity, limits, slowest());
        if (!time) continue;
        const auto later =
            std::ranges::upper_bound(starts, *time, {}, &Start::time);
        starts.insert(later, {*time, i, std::move(hosted)});
        starts.resize(std::min(starts.size(), kSearched));
      }
    }
    if (starts.empty()) return;
    limits.effort = request.any_plan ? 0 : kFreeEffort;
    limits.programs = Programs(request) / std::ssize(starts);
    for (const Start& start : starts) {
      if (Ends(request, *best)) return;
      if (bounds[start.sub_batch]->time >= std::min(limit, TimeOf(*best))) {
        continue;
      }
      limits.bound = *bounds[start.sub_batch];
      Try(start.sub_batch, start.hosted, request, limits, limit, best);
    }
  }

  void Try(std::size_t i, const Hosted& hosted, const MemoryRequest& request,
           const SubBatchLimits& limits, Nanoseconds limit,
           Result<MemoryPlan>* best) {
    const SubBatch* sub_batch = Get(i);
    if (sub_batch == nullptr) return;
    std::optional<MemoryPlan> plan = sub_batch->Plan(
        hosted, request, limits, std::min(limit, TimeOf(*best)));
    if (plan && plan->time < TimeOf(*best)) *best = *std::move(plan);
  }

  // The sub-batches that have a bound, by rising bound.
  static std::vector<std::size_t> ByTime(const Bounds& bounds) {
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < bounds.size(); ++i) {
      if (bounds[i]) order.push_back(i);
    }
    std::ranges::stable_sort(order, {},
                             [&](std::size_t i) { return bounds[i]->time; });
    return order;
  }

  static Nanoseconds TimeOf(const Result<MemoryPlan>& plan) {
    return plan ? plan->time : Nanoseconds::max();
  }

  static bool Ends(const MemoryRequest& request,
                   const Result<MemoryPlan>& best) {
    return request.stop.stop_requested() || (best && request.any_plan);
  }

  // Of plans that move activations, and nothing else.
  MemoryFreedom FreedomToMove() const {
    MemoryFreedom freedom;
    // Neither the policies nor the search divide what has one algorithm.
    freedom.divides_estimates = !graph_.device.algorithms.empty();
    return freedom;
  }

  MemoryFreedom FreedomOf(const MemoryRequest& request) const {
    MemoryFreedom freedom = FreedomToMove();
    freedom.offloads_weights = request.offload_weights;
    freedom.recomputes = request.recompute;
    return freedom;
  }

  // Null if it was not measured.
  const SubBatch* Get(std::size_t i) {
    if (!sub_batches_[i]) sub_batches_[i] = SubBatch::Make(graph_, sizes_[i]);
    return sub_batches_[i].get();
  }

  const TrainingGraph& graph_;
  const MemoryRequest& request_;
  const std::vector<BatchSize> sizes_;
  std::vector<std::unique_ptr<SubBatch>> sub_batches_;  // by size
};

}  // namespace

Result<MemoryPlan> PlanBest(const TrainingGraph& graph,
                            const MemoryRequest& request) {
  Result<MemoryPlan> best = BestSearch(graph, request).Climb(request.budget);
  if (!best && !request.any_plan) {
    // What names the least budget (SmallestBudget): so that is accepted.
    MemoryRequest any = request;
    any.any_plan = true;
    best = PlanBest(graph, any);
  }
  if (!request.recompute || !request.offload_weights) return best;
  // A search by both ways shares its effort between them, so one by either may
  // find what it does not.
  for (bool MemoryRequest::*const way :
       {&MemoryRequest::recompute, &MemoryRequest::offload_weights}) {
    if (best ? request.any_plan
             : best.error().code != Code::kFailedPrecondition) {
      break;
    }
    MemoryRequest fewer = request;
    fewer.*way = false;
    Result<MemoryPlan> plan = BestSearch(graph, fewer).Climb(request.budget);
    if (!plan || (best && best->time <= plan->time)) continue;
    const bool cut_off = best && best->cut_off;
    best = std::move(plan);
    best->cut_off |= cut_off;
  }
  return best;
}

}  // namespace ucudnn
