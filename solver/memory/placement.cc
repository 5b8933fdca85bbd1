#include "solver/memory/placement.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "solver/arena/allocation.h"
#include "solver/memory/lanes.h"
#include "solver/memory/range_owners.h"

namespace ucudnn {
namespace {

constexpr std::size_t kResident = static_cast<std::size_t>(-1);

// A range that a round takes: by an allocation, a workspace, or from its start.
struct Taken {
  std::size_t event = kResident;
  std::size_t resident = 0;  // in plan->resident
  std::size_t from = 0;      // the first event that it must be there for
  std::size_t until = 0;     // the first event at which it is free again
};

// For each event the first and the last one that may run at the same time:
// itself, unless it runs a task.
struct Overlaps {
  std::vector<std::size_t> first;
  std::vector<std::size_t> last;
};

// Without further streams.
Overlaps NoOverlaps(const MemoryRound& round) {
  Overlaps overlaps;
  for (std::size_t i = 0; i < round.events.size(); ++i) {
    overlaps.first.push_back(i);
    overlaps.last.push_back(i);
  }
  return overlaps;
}

// If tasks run at once in so many lanes, and those that are `window` tasks
// apart do not.
Overlaps OverlapsOf(const TrainingGraph& graph, const MemoryRound& round,
                    int streams, std::size_t window) {
  Overlaps overlaps = NoOverlaps(round);
  const std::vector<std::size_t> lanes = LanesOf(graph, round, streams);
  TaskOrder order;
  std::vector<std::size_t> events;  // that run tasks
  const auto task = [&](std::size_t event) -> const Task& {
    return graph.tasks[round.events[event].task];
  };
  for (std::size_t i = 0; i < round.events.size(); ++i) {
    if (round.events[i].op != EventOp::kCompute) continue;
    const std::size_t place = events.size();
    order.Add([&](std::size_t other) {
      const std::size_t earlier = events[other];
      return place - other >= window || lanes[earlier] == lanes[i] ||
             Conflict(task(earlier), task(i));
    });
    events.push_back(i);
    for (std::size_t other = place; other-- > 0;) {
      if (place - other >= window) break;
      if (order.Before(other, place)) continue;
      const std::size_t earlier = events[other];
      overlaps.last[earlier] = i;
      overlaps.first[i] = earlier;
    }
  }
  return overlaps;
}

// Everything that the round places, with lifetimes in places of its list.
std::vector<Taken> TakenBy(const TrainingGraph& graph, const MemoryRound& round,
                           const MemoryPlan& plan,
                           const std::vector<bool>& fixed,
                           const Overlaps& overlaps) {
  const std::size_t end = round.events.size();
  std::vector<Taken> list;
  // A block's, in `list`.
  std::vector<std::optional<std::size_t>> of(graph.blocks.size());
  for (std::size_t i = 0; i < plan.resident.size(); ++i) {
    if (fixed[i]) continue;
    of[plan.resident[i].block] = list.size();
    list.push_back({kResident, i, 0, end});
  }
  // The events at which blocks are free, if tasks that run at once with those
  // that use them have ended.
  std::vector<std::size_t> released(graph.blocks.size());
  for (std::size_t i = 0; i < end; ++i) {
    const MemoryEvent& event = round.events[i];
    if (event.op == EventOp::kAlloc) {
      of[event.block] = list.size();
      list.push_back({i, 0, i, end});
      released[event.block] = 0;
    } else if (event.op == EventOp::kFree && of[event.block]) {
      list[*of[event.block]].until = std::max(i, released[event.block]);
    }
    if (event.op != EventOp::kCompute) continue;
    const Task& task = graph.tasks[event.task];
    for (const auto* blocks : {&task.reads, &task.writes}) {
      for (const std::size_t block : *blocks) {
        released[block] = std::max(released[block], overlaps.last[i] + 1);
        if (!of[block]) continue;
        std::size_t& from = list[*of[block]].from;
        from = std::min(from, overlaps.first[i]);
      }
    }
    if (event.range.bytes == Bytes(0)) continue;
    std::size_t until = overlaps.last[i] + 1;
    while (until < end && round.events[until].start < event.end()) ++until;
    list.push_back({i, 0, overlaps.first[i], until});
  }
  return list;
}

// Adds the waits that the addresses need.
class WaitAdder {
 public:
  WaitAdder(const MemoryPlan& plan, std::size_t blocks) : of_(blocks) {
    for (const ResidentBlock& resident : plan.resident) {
      of_[resident.block] = Own(resident.range);
    }
  }

  void Add(MemoryRound* round) {
    std::array<std::optional<std::size_t>, kMemoryStreams.size()> last;
    clocks_.resize(round->events.size());
    positions_.resize(round->events.size());
    for (std::size_t i = 0; i < round->events.size(); ++i) {
      MemoryEvent& event = round->events[i];
      const auto stream = static_cast<std::size_t>(event.stream);
      Clock& clock = clocks_[i];
      if (last[stream]) {
        clock = clocks_[*last[stream]];
        positions_[i] = positions_[*last[stream]] + 1;
        clock[stream] = positions_[i];
      }
      last[stream] = i;
      for (const std::size_t after : event.after) {
        Merge(round->events[after], after, &clock);
      }
      const bool takes =
          event.op == EventOp::kAlloc ||
          (event.op == EventOp::kCompute && event.range.bytes > Bytes(0));
      if (takes) {
        std::vector<std::size_t> waits;
        const std::size_t own = Own(event.range, &waits);
        if (event.op == EventOp::kAlloc) {
          of_[event.block] = own;
        } else {
          released_[own] = i;
        }
        std::sort(waits.rbegin(), waits.rend());
        for (const std::size_t wait : waits) {
          const MemoryEvent& other = round->events[wait];
          const auto theirs = static_cast<std::size_t>(other.stream);
          if (clock[theirs] > positions_[wait]) continue;
          event.after.push_back(wait);
          Merge(other, wait, &clock);
        }
        std::ranges::sort(event.after);
      } else if (event.op == EventOp::kFree) {
        released_[*of_[event.block]] = i;
      }
    }
  }

 private:
  using Clock = std::array<std::size_t, kMemoryStreams.size()>;

  void Merge(const MemoryEvent& other, std::size_t index, Clock* clock) const {
    for (std::size_t s = 0; s < clock->size(); ++s) {
      (*clock)[s] = std::max((*clock)[s], clocks_[index][s]);
    }
    std::size_t& own = (*clock)[static_cast<std::size_t>(other.stream)];
    own = std::max(own, positions_[index] + 1);
  }

  std::size_t Own(MemoryRange range,
                  std::vector<std::size_t>* waits = nullptr) {
    const std::size_t own = released_.size();
    released_.emplace_back();
    for (const std::size_t other : owners_.Claim(
             range.offset.count(), (range.offset + range.bytes).count(), own)) {
      UCUDNN_CHECK(waits != nullptr && released_[other].has_value());
      waits->push_back(*released_[other]);
    }
    return own;
  }

  RangeOwners owners_;
  std::vector<std::optional<std::size_t>> released_;  // by owner
  std::vector<std::optional<std::size_t>> of_;        // owner by block
  std::vector<Clock> clocks_;
  std::vector<std::size_t> positions_;
};

// Gives each round's buffers their places, by the events that may run at once
// with each.
Status Place(const TrainingGraph& graph, const Limits& limits,
             const std::vector<Overlaps>& overlaps, MemoryPlan* plan) {
  const bool one_round =
      plan->rounds.size() == 1 && plan->rounds.front().count == 1;
  std::vector<bool> fixed;
  Bytes base;
  for (const ResidentBlock& resident : plan->resident) {
    fixed.push_back(!one_round ||
                    graph.blocks[resident.block].kind != BlockKind::kInput);
    if (fixed.back()) {
      base = std::max(base, resident.range.offset + resident.range.bytes);
    }
  }
  base = RoundUp(base, plan->alignment);
  const Bytes room = plan->budget - base;
  if (room <= Bytes(0)) {
    return Fail(Code::kFailedPrecondition,
                "the blocks that stay take {} of the budget of {}",
                HumanBytes(base), HumanBytes(plan->budget));
  }
  for (std::size_t r = 0; r < plan->rounds.size(); ++r) {
    MemoryRound& round = plan->rounds[r];
    const std::vector<Taken> taken =
        TakenBy(graph, round, *plan, fixed, overlaps[r]);
    std::vector<Buffer> buffers;
    for (const Taken& t : taken) {
      buffers.push_back(
          {t.event == kResident ? 0 : static_cast<std::int64_t>(t.from) + 1,
           static_cast<std::int64_t>(t.until) + 1,
           t.event == kResident ? plan->resident[t.resident].range.bytes
                                : round.events[t.event].range.bytes});
    }
    AllocationOptions options;
    options.alignment = plan->alignment;
    options.capacity = room;
    UCUDNN_ASSIGN_OR_RETURN(const Allocation allocation,
                            Allocate(buffers, options, limits));
    for (std::size_t i = 0; i < taken.size(); ++i) {
      MemoryRange& range = taken[i].event == kResident
                               ? plan->resident[taken[i].resident].range
                               : round.events[taken[i].event].range;
      range.offset = base + allocation.offsets[i];
    }
  }
  return {};
}

}  // namespace

Status PlaceStatically(const TrainingGraph& graph, const Limits& limits,
                       MemoryPlan* plan) {
  std::vector<Overlaps> overlaps;
  for (const MemoryRound& round : plan->rounds) {
    overlaps.push_back(NoOverlaps(round));
  }
  UCUDNN_RETURN_IF_ERROR(Place(graph, limits, overlaps, plan));
  for (MemoryRound& round : plan->rounds) {
    WaitAdder(*plan, graph.blocks.size()).Add(&round);
  }
  return {};
}

void PlaceForStreams(const TrainingGraph& graph, int streams,
                     const Limits& limits, MemoryPlan* plan) {
  for (const MemoryRound& round : plan->rounds) {
    for (const MemoryEvent& event : round.events) {
      if (event.stream != MemoryStream::kCompute) return;
    }
  }
  // The backward pass of an Inception block has some thirty tasks.
  for (const std::size_t window : {64, 32, 16, 8, 4}) {
    std::vector<Overlaps> overlaps;
    for (const MemoryRound& round : plan->rounds) {
      overlaps.push_back(OverlapsOf(graph, round, streams, window));
    }
    MemoryPlan placed = *plan;
    if (!Place(graph, limits, overlaps, &placed)) continue;
    *plan = std::move(placed);
    return;
  }
}

}  // namespace ucudnn
