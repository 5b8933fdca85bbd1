#include "solver/memory/hmms.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

#include "base/text.h"
#include "solver/memory/finish.h"
#include "solver/memory/round_draft.h"
#include "solver/memory/round_model.h"

namespace ucudnn {
namespace {

using MemoryStream::kCompute;

// A block that leaves and returns, by places in RoundModel::tasks.
struct Trip {
  std::size_t block = 0;
  std::size_t last_forward = 0;    // the last forward task that uses it
  std::size_t first_backward = 0;  // the first backward task that does
  std::size_t freed_after = 0;
  std::size_t fetched_with = 0;
};

// Which objects travel, and when, if no task waits for any.
class TripScheduler {
 public:
  TripScheduler(const RoundModel& round, const std::vector<TaskRun>& runs)
      : round_(round), device_(round.graph->device) {
    Nanoseconds now{0};
    for (const TaskRun& run : runs) {
      starts_.push_back(now);
      now += run.time;
    }
    starts_.push_back(now);
    while (TaskAt(loss_).kind != TaskKind::kLoss) ++loss_;
  }

  // In the order in which they are fetched.
  std::vector<Trip> Plan() const {
    std::vector<Trip> candidates = Candidates();
    while (true) {
      std::vector<Trip> trips = Offloaded(candidates);
      const std::set<std::size_t> late = PlanPrefetches(&trips);
      if (late.empty()) return trips;
      std::erase_if(candidates, [&](const Trip& trip) {
        return late.count(trip.block) > 0;
      });
    }
  }

 private:
  const Task& TaskAt(std::size_t place) const {
    return round_.graph->tasks[round_.tasks[place]];
  }
  Nanoseconds End(std::size_t place) const { return starts_[place + 1]; }

  // Objects that both passes use, with the forward pass done first.
  std::vector<Trip> Candidates() const {
    std::vector<Trip> trips;
    for (std::size_t block = 0; block < round_.size.size(); ++block) {
      if (round_.persistent[block]) continue;
      const std::vector<std::size_t>& uses = round_.uses[block];
      const auto later = std::ranges::lower_bound(uses, loss_);
      if (later == uses.begin() || later == uses.end() || *later == loss_) {
        continue;
      }
      trips.push_back({block, *std::prev(later), *later});
    }
    std::ranges::stable_sort(trips, {}, &Trip::last_forward);
    return trips;
  }

  // Those of the queue that have left before the loss, with freed_after.
  std::vector<Trip> Offloaded(const std::vector<Trip>& queue) const {
    std::vector<Trip> trips;
    Nanoseconds link{0};  // when it is through with the queue so far
    for (Trip trip : queue) {
      trip.freed_after = trip.last_forward;
      if (!round_.IsInput(trip.block)) {
        link = std::max(link, End(trip.last_forward)) +
               device_.OffloadTime(round_.size[trip.block]);
        while (trip.freed_after < loss_ && End(trip.freed_after) < link) {
          ++trip.freed_after;
        }
      }
      if (trip.freed_after < loss_) trips.push_back(trip);
    }
    return trips;
  }

  // Sets fetched_with, and brings the trips into the order in which the link
  // fetches them; returns the blocks that would have to start before the loss
  // ends.
  std::set<std::size_t> PlanPrefetches(std::vector<Trip>* trips) const {
    // Sorted as they are queued, from the end of the iteration backwards.
    std::ranges::stable_sort(*trips, std::ranges::greater(),
                             &Trip::first_backward);
    std::set<std::size_t> late;
    Nanoseconds link = starts_.back();  // when the queue so far begins
    for (Trip& trip : *trips) {
      link = std::min(link, starts_[trip.first_backward]) -
             device_.PrefetchTime(round_.size[trip.block]);
      trip.fetched_with = trip.first_backward - 1;
      while (trip.fetched_with > loss_ && starts_[trip.fetched_with] > link) {
        --trip.fetched_with;
      }
      if (trip.fetched_with <= loss_) late.insert(trip.block);
    }
    std::ranges::reverse(*trips);
    return late;
  }

  const RoundModel& round_;
  const DeviceModel& device_;
  std::vector<Nanoseconds> starts_;  // by place; the last is the end
  std::size_t loss_ = 0;
};

// The round as planned, in the budget's addresses.
class HmmsRound {
 public:
  HmmsRound(const RoundModel& round,
            const std::vector<ResidentBlock>& residents, Bytes budget,
            MemoryPool::Fit fit, bool fastest)
      : round_(round), draft_(round, residents, budget, fit, kPlanAlignment) {
    for (const std::size_t task : round.tasks) {
      const std::vector<TaskCost>& costs = round.costs[task];
      runs_.push_back(
          Undivided(fastest ? costs.back() : costs.front(), round.batch));
    }
    offloads_.resize(runs_.size());
    frees_.resize(runs_.size());
    fetches_.resize(runs_.size());
    for (const Trip& trip : TripScheduler(round, runs_).Plan()) {
      if (!round.IsInput(trip.block)) {
        offloads_[trip.last_forward].push_back(trip.block);
      }
      frees_[trip.freed_after].push_back(trip.block);
      fetches_[trip.fetched_with].push_back(trip.block);
    }
    // As Candidates() queues those of one task.
    for (Blocks& blocks : offloads_) std::ranges::sort(blocks);
  }

  Result<MemoryRound> Plan() {
    for (std::size_t place = 0; place < runs_.size(); ++place) {
      UCUDNN_RETURN_IF_ERROR(RunTask(place));
    }
    return draft_.timeline().Finish();
  }

 private:
  using Blocks = std::vector<std::size_t>;

  Status RunTask(std::size_t place) {
    const std::size_t task = round_.tasks[place];
    Timeline& timeline = draft_.timeline();
    for (const std::size_t block : fetches_[place]) {
      if (!draft_.Alloc(block, kCompute)) {
        return draft_.NoRoomFor(round_.graph->blocks[block].name);
      }
      timeline.Prefetch(block, MemoryStream::kH2d);
    }
    UCUDNN_RETURN_IF_ERROR(draft_.AllocOutputs(task, false));
    const auto workspace = draft_.TakeWorkspace(runs_[place].workspace);
    if (!workspace) {
      return draft_.NoRoomFor("the workspace of " +
                              round_.graph->tasks[task].name);
    }
    const Timeline::Event done = draft_.Compute(task, runs_[place], *workspace);
    draft_.ReturnWorkspace(*workspace);
    for (const std::size_t block : offloads_[place]) {
      timeline.Offload(block, MemoryStream::kD2h, {done});
    }
    for (const std::size_t block : frees_[place]) {
      draft_.Free(block, kCompute);
    }
    draft_.FreeDead(place + 1);
    return {};
  }

  const RoundModel& round_;
  RoundDraft draft_;
  std::vector<TaskRun> runs_;  // by place, as all below
  std::vector<Blocks> offloads_;
  std::vector<Blocks> frees_;
  std::vector<Blocks> fetches_;
};

Result<MemoryPlan> PlanWith(const Rounds& rounds, const MemoryRequest& request,
                            bool fastest) {
  const bool counts = request.allocator == MemoryAllocator::kStatic;
  MemoryPlan plan = NewPlan(rounds, request, kPlanAlignment);
  plan.choice = fastest ? "p" : "m";
  const std::vector<ResidentBlock> residents = plan.resident;
  const auto fit = counts ? MemoryPool::Fit::kCount : MemoryPool::Fit::kFirst;
  return PlanEachRound(
      rounds, request, std::move(plan), [&](const RoundModel& round) {
        return HmmsRound(round, residents, request.budget, fit, fastest).Plan();
      });
}

}  // namespace

Result<MemoryPlan> PlanHmms(const TrainingGraph& graph,
                            const MemoryRequest& request) {
  UCUDNN_ASSIGN_OR_RETURN(
      const Rounds rounds,
      ModelRounds(graph, request.sub_batch.value_or(graph.batch)));
  Result<MemoryPlan> plan = PlanWith(rounds, request, true);
  if (plan || plan.error().code != Code::kFailedPrecondition) return plan;
  return PlanWith(rounds, request, false);
}

}  // namespace ucudnn
