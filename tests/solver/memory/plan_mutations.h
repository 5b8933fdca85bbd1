#ifndef UCUDNN_TESTS_SOLVER_MEMORY_PLAN_MUTATIONS_H_
#define UCUDNN_TESTS_SOLVER_MEMORY_PLAN_MUTATIONS_H_

// Memory plans changed on purpose, and executed at timings that nobody
// predicted.

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/training/memory_plan.h"
#include "solver/memory/summary.h"

namespace ucudnn::test {

// Times and order that follow from the waits as they are now.
inline void Retime(MemoryRound* round) {
  std::vector<MemoryEvent>& events = round->events;
  std::array<std::optional<std::size_t>, kMemoryStreams.size()> last;
  round->time = Nanoseconds(0);
  for (std::size_t i = 0; i < events.size(); ++i) {
    MemoryEvent& event = events[i];
    event.start = Nanoseconds(0);
    auto& before = last[static_cast<std::size_t>(event.stream)];
    if (before) event.start = events[*before].end();
    for (const std::size_t after : event.after) {
      event.start = std::max(event.start, events[after].end());
    }
    before = i;
    round->time = std::max(round->time, event.end());
  }
  std::vector<std::size_t> order(events.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) {
                     return events[a].start < events[b].start;
                   });
  std::vector<std::size_t> place(events.size());
  for (std::size_t i = 0; i < order.size(); ++i) place[order[i]] = i;
  std::vector<MemoryEvent> sorted;
  for (const std::size_t i : order) {
    MemoryEvent event = std::move(events[i]);
    for (std::size_t& after : event.after) after = place[after];
    std::sort(event.after.begin(), event.after.end());
    sorted.push_back(std::move(event));
  }
  events = std::move(sorted);
}

// Takes away up to three waits at random, if there are any.
template <class Random>
MemoryPlan WithoutSomeWaits(MemoryPlan plan, const TrainingGraph& graph,
                            Random& random) {
  MemoryRound& round = plan.rounds.back();
  const int count = std::uniform_int_distribution(0, 3)(random);
  for (int n = 0; n < count; ++n) {
    std::vector<std::size_t> waiting;
    for (std::size_t i = 0; i < round.events.size(); ++i) {
      if (!round.events[i].after.empty()) waiting.push_back(i);
    }
    if (waiting.empty()) break;
    const auto pick = [&](std::size_t size) {
      return std::uniform_int_distribution<std::size_t>(0, size - 1)(random);
    };
    std::vector<std::size_t>& after =
        round.events[waiting[pick(waiting.size())]].after;
    after.erase(after.begin() +
                static_cast<std::ptrdiff_t>(pick(after.size())));
  }
  Retime(&round);
  Summarise(graph, &plan);
  return plan;
}

// Executes the last round with random durations, without any reasoning about
// order, and looks for a collision at the times that come out. A plan that is
// safe survives every timing.
template <class Random>
std::optional<std::string> Hazard(const MemoryPlan& plan,
                                  const TrainingGraph& graph, Random& random) {
  constexpr Nanoseconds kForever = Nanoseconds::max();
  constexpr std::array<double, 6> kFactors = {0.01, 0.1, 1, 1, 10, 100};
  struct Use {
    Nanoseconds from, until;
    bool writes;
  };
  struct Area {
    std::int64_t low, high;
    Nanoseconds from, until;
    std::string whose;
    std::vector<Use> uses;
  };
  const MemoryRound& round = plan.rounds.back();
  std::vector<Nanoseconds> start;
  std::vector<Nanoseconds> end;
  std::array<Nanoseconds, kMemoryStreams.size()> last{};
  for (const MemoryEvent& event : round.events) {
    Nanoseconds& stream = last[static_cast<std::size_t>(event.stream)];
    Nanoseconds at = stream;
    for (const std::size_t after : event.after) at = std::max(at, end[after]);
    const double factor = kFactors[std::uniform_int_distribution<std::size_t>(
        0, kFactors.size() - 1)(random)];
    start.push_back(at);
    end.push_back(at +
                  Nanoseconds(static_cast<std::int64_t>(
                      static_cast<double>(event.duration.count()) * factor)));
    stream = end.back();
  }
  std::vector<Area> areas;
  std::vector<std::optional<std::size_t>> live(graph.blocks.size());
  const auto add = [&](MemoryRange range, Nanoseconds from, std::string whose) {
    areas.push_back({range.offset.count(),
                     (range.offset + range.bytes).count(),
                     from,
                     kForever,
                     std::move(whose),
                     {}});
    return areas.size() - 1;
  };
  for (const ResidentBlock& resident : plan.resident) {
    live[resident.block] =
        add(resident.range, Nanoseconds(-1), graph.blocks[resident.block].name);
  }
  for (std::size_t i = 0; i < round.events.size(); ++i) {
    const MemoryEvent& event = round.events[i];
    const auto use = [&](std::size_t block, bool writes) {
      if (!live[block]) return false;
      areas[*live[block]].uses.push_back({start[i], end[i], writes});
      return true;
    };
    bool there = true;
    switch (event.op) {
      case EventOp::kAlloc:
        live[event.block] =
            add(event.range, start[i], graph.blocks[event.block].name);
        break;
      case EventOp::kFree:
        there = live[event.block].has_value();
        if (there) areas[*live[event.block]].until = start[i];
        live[event.block].reset();
        break;
      case EventOp::kSync:
        break;
      case EventOp::kOffload:
        there = use(event.block, false);
        break;
      case EventOp::kPrefetch:
        there = use(event.block, true);
        break;
      case EventOp::kCompute: {
        const Task& task = graph.tasks[event.task];
        for (const std::size_t block : task.reads) {
          const bool writes =
              std::count(task.writes.begin(), task.writes.end(), block) > 0;
          there = there && (writes || use(block, false));
        }
        for (const std::size_t block : task.writes) {
          there = there && use(block, true);
        }
        if (event.range.bytes > Bytes(0)) {
          areas[add(event.range, start[i], "a workspace")].until = end[i];
        }
        break;
      }
    }
    if (!there) return "a block is used where it is not on the device";
  }
  for (std::size_t i = 0; i < areas.size(); ++i) {
    const Area& a = areas[i];
    for (std::size_t j = 0; j < i; ++j) {
      const Area& b = areas[j];
      if (a.low < b.high && b.low < a.high && a.from < b.until &&
          b.from < a.until) {
        return a.whose + " and " + b.whose + " overlap";
      }
    }
    for (std::size_t u = 0; u < a.uses.size(); ++u) {
      if (a.uses[u].from < a.from || a.uses[u].until > a.until) {
        return a.whose + " is used while it is not there";
      }
      for (std::size_t v = 0; v < u; ++v) {
        if ((a.uses[u].writes || a.uses[v].writes) &&
            a.uses[u].from < a.uses[v].until &&
            a.uses[v].from < a.uses[u].until) {
          return a.whose + " is written while it is used";
        }
      }
    }
  }
  return std::nullopt;
}

}  // namespace ucudnn::test

#endif  // UCUDNN_TESTS_SOLVER_MEMORY_PLAN_MUTATIONS_H_
