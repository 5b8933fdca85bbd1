#include "solver/memory/summary.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace ucudnn {
namespace {

// The largest sum of live bytes of a round; intervals are half open.
Bytes LoadOf(const MemoryPlan& plan, const MemoryRound& round) {
  std::vector<std::pair<Nanoseconds, std::int64_t>> changes;
  std::map<std::size_t, std::pair<Nanoseconds, std::int64_t>> live;
  const auto end = [&](std::pair<Nanoseconds, std::int64_t> from,
                       Nanoseconds until) {
    if (until <= from.first) return;
    changes.emplace_back(from.first, from.second);
    changes.emplace_back(until, -from.second);
  };
  for (const ResidentBlock& resident : plan.resident) {
    live[resident.block] = {Nanoseconds(0), resident.range.bytes.count()};
  }
  for (const MemoryEvent& event : round.events) {
    const std::int64_t bytes = event.range.bytes.count();
    if (event.op == EventOp::kAlloc) {
      live[event.block] = {event.start, bytes};
    } else if (event.op == EventOp::kFree) {
      end(live[event.block], event.start);
      live.erase(event.block);
    } else if (event.op == EventOp::kCompute && bytes > 0) {
      end({event.start, bytes}, event.end());
    }
  }
  for (const auto& [block, from] : live) end(from, round.time);
  std::ranges::sort(changes);
  std::int64_t sum = 0;
  std::int64_t load = 0;
  for (const auto& [time, change] : changes) {
    sum += change;
    load = std::max(load, sum);
  }
  return Bytes(load);
}

}  // namespace

void Summarise(const TrainingGraph& graph, MemoryPlan* plan) {
  plan->time = plan->stall = Nanoseconds(0);
  plan->peak = plan->load = plan->offloaded = plan->prefetched = Bytes(0);
  std::vector<Bytes> host(graph.blocks.size());
  std::vector<bool> resident(graph.blocks.size());
  const auto reach = [&](MemoryRange range) {
    plan->peak = std::max(plan->peak, range.offset + range.bytes);
  };
  for (const ResidentBlock& block : plan->resident) {
    reach(block.range);
    resident[block.block] = true;
  }
  std::int64_t count = 0;
  for (const MemoryRound& round : plan->rounds) count += round.count;
  for (const MemoryRound& round : plan->rounds) {
    Nanoseconds computing{0};
    Bytes offloaded;
    Bytes prefetched;
    for (std::size_t i = 0; i < graph.blocks.size(); ++i) {
      const MemoryBlock& block = graph.blocks[i];
      const bool persistent =
          block.persistent ||
          (count > 1 && block.kind == BlockKind::kWeightGradient);
      if (persistent && !resident[i]) host[i] = block.SizeAt(round.batch);
    }
    for (const Task& task : graph.tasks) {
      if (task.kind != TaskKind::kHostUpdate) continue;
      if (&round != &plan->rounds.back()) continue;
      for (const std::size_t i : task.writes) {
        host[i] = graph.blocks[i].SizeAt(round.batch);
      }
    }
    for (const MemoryEvent& event : round.events) {
      if (event.op == EventOp::kCompute &&
          event.stream == MemoryStream::kCompute) {
        computing += event.duration;
      } else if (event.op == EventOp::kOffload) {
        offloaded += event.range.bytes;
        if (graph.blocks[event.block].kind != BlockKind::kInput) {
          host[event.block] = std::max(host[event.block], event.range.bytes);
        }
      } else if (event.op == EventOp::kPrefetch) {
        prefetched += event.range.bytes;
      }
      if (event.op == EventOp::kAlloc || event.op == EventOp::kCompute) {
        if (event.range.bytes > Bytes(0)) reach(event.range);
      }
    }
    plan->time += round.time * round.count;
    plan->stall += (round.time - computing) * round.count;
    plan->offloaded += offloaded * round.count;
    plan->prefetched += prefetched * round.count;
    plan->load = std::max(plan->load, LoadOf(*plan, round));
  }
  plan->host = Bytes(0);
  for (const Bytes bytes : host) plan->host += bytes;
}

std::vector<Stall> StallsOf(const MemoryPlan& plan) {
  std::vector<Stall> stalls;
  for (std::size_t r = 0; r < plan.rounds.size(); ++r) {
    const MemoryRound& round = plan.rounds[r];
    // What each event had to wait for longest, and the last task's end.
    Nanoseconds until{0};
    std::size_t previous = 0;
    bool any = false;
    for (std::size_t i = 0; i < round.events.size(); ++i) {
      const MemoryEvent& event = round.events[i];
      if (event.stream != MemoryStream::kCompute) continue;
      if (event.start > until) {
        std::size_t cause = any ? previous : i;
        for (const std::size_t after : event.after) {
          if (round.events[after].end() == event.start) cause = after;
        }
        stalls.push_back({r, until, event.start - until, cause});
      }
      until = std::max(until, event.end());
      previous = i;
      any = true;
    }
    if (round.time > until) {
      std::size_t cause = 0;
      for (std::size_t i = 0; i < round.events.size(); ++i) {
        if (round.events[i].end() == round.time) cause = i;
      }
      stalls.push_back({r, until, round.time - until, cause});
    }
  }
  return stalls;
}

}  // namespace ucudnn
