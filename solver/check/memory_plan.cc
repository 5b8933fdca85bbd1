#include "solver/check/memory_plan.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "solver/check/memory_durations.h"
#include "solver/check/memory_order.h"
#include "solver/check/memory_replay.h"
#include "solver/check/memory_violation.h"

namespace ucudnn {
namespace {

using memory_check::Add;
using memory_check::EventOrder;
using memory_check::ReplayedRound;
using memory_check::RoundPlace;
using memory_check::Violation;

// R1. Returns how many rounds there are.
Result<std::int64_t> CheckRounds(const MemoryPlan& plan,
                                 const TrainingGraph& graph) {
  if (plan.rounds.empty() || plan.alignment < Bytes(1)) {
    return Violation(1, "plan", "it has no rounds or no alignment");
  }
  std::int64_t images = 0;
  std::int64_t count = 0;
  for (const MemoryRound& round : plan.rounds) {
    if (round.count < 1 || round.batch < BatchSize(1) ||
        round.count > graph.batch.count() || round.batch > graph.batch) {
      return Violation(1, "plan", "a round of {} images runs {} times",
                       round.batch.count(), round.count);
    }
    images += round.batch.count() * round.count;
    count += round.count;
  }
  if (images != graph.batch.count()) {
    return Violation(1, "plan", "its rounds have {} images, the mini-batch {}",
                     images, graph.batch.count());
  }
  if (plan.rounds.back().count != 1) {
    return Violation(1, "plan",
                     "the last round, which updates weights, runs {} times",
                     plan.rounds.back().count);
  }
  return count;
}

Result<ReplayedRound> CheckRound(const MemoryPlan& plan,
                                 const MemoryRound& round, RoundPlace place,
                                 const TrainingGraph& graph) {
  UCUDNN_ASSIGN_OR_RETURN(const EventOrder order, EventOrder::Of(round, graph));
  UCUDNN_RETURN_IF_ERROR(memory_check::CheckDurations(round, graph));
  return memory_check::ReplayRound(plan, round, place, graph, order);
}

// Unless a task has no cost at the mini-batch.
void SetIdeals(const TrainingGraph& graph, MemoryPlan* found) {
  Nanoseconds time{0};
  Bytes size;
  Bytes workspace;
  for (const Task& task : graph.tasks) {
    if (task.kind == TaskKind::kHostUpdate) continue;
    const std::vector<TaskCost> costs = CostsAt(graph, task, graph.batch);
    if (costs.empty()) return;
    Add(costs.back().time, 1, &time);
    workspace = std::max(workspace, costs.back().workspace);
  }
  for (const MemoryBlock& block : graph.blocks) {
    Add(block.SizeAt(graph.batch), 1, &size);
  }
  Add(workspace, 1, &size);
  found->ideal_time = time;
  found->ideal_bytes = size;
}

Status CheckTotals(const MemoryPlan& plan, const MemoryPlan& found) {
  const auto check = [&](const char* field, auto stated, auto given) -> Status {
    if (stated == given) return {};
    return Violation(23, "plan", "{} is {}, the events give {}", field,
                     stated.count(), given.count());
  };
  UCUDNN_RETURN_IF_ERROR(check("time", plan.time, found.time));
  UCUDNN_RETURN_IF_ERROR(check("stall", plan.stall, found.stall));
  UCUDNN_RETURN_IF_ERROR(check("peak", plan.peak, found.peak));
  UCUDNN_RETURN_IF_ERROR(check("load", plan.load, found.load));
  UCUDNN_RETURN_IF_ERROR(check("host", plan.host, found.host));
  UCUDNN_RETURN_IF_ERROR(check("offloaded", plan.offloaded, found.offloaded));
  UCUDNN_RETURN_IF_ERROR(
      check("prefetched", plan.prefetched, found.prefetched));
  if (plan.ideal_time && found.ideal_time) {
    UCUDNN_RETURN_IF_ERROR(
        check("ideal time", *plan.ideal_time, *found.ideal_time));
  }
  if (plan.ideal_bytes && found.ideal_bytes) {
    UCUDNN_RETURN_IF_ERROR(
        check("ideal size", *plan.ideal_bytes, *found.ideal_bytes));
  }
  if (plan.lower_bound > plan.time) {
    return Violation(24, "plan", "the lower bound of {} ns exceeds {} ns",
                     plan.lower_bound.count(), plan.time.count());
  }
  if (plan.lower_bound_bytes > plan.peak) {
    return Violation(24, "plan", "the lower bound of {} bytes exceeds {}",
                     plan.lower_bound_bytes.count(), plan.peak.count());
  }
  return {};
}

}  // namespace

Status ValidateMemoryPlan(const MemoryPlan& plan, const TrainingGraph& graph) {
  UCUDNN_ASSIGN_OR_RETURN(const std::int64_t count, CheckRounds(plan, graph));
  MemoryPlan found;
  std::map<std::size_t, Bytes> host;
  for (std::size_t i = 0; i < plan.rounds.size(); ++i) {
    const MemoryRound& round = plan.rounds[i];
    const Result<ReplayedRound> replayed = CheckRound(
        plan, round, {i + 1 == plan.rounds.size(), count > 1}, graph);
    if (!replayed) {
      // The rule comes first whatever the round.
      Error error = replayed.error();
      if (plan.rounds.size() > 1) {
        error.message += fmt::format(" (round {})", i);
      }
      return tl::unexpected<Error>(std::move(error));
    }
    found.peak = std::max(found.peak, replayed->peak);
    found.load = std::max(found.load, replayed->load);
    Add(round.time, round.count, &found.time);
    Add(round.time - replayed->computing, round.count, &found.stall);
    Add(replayed->offloaded, round.count, &found.offloaded);
    Add(replayed->prefetched, round.count, &found.prefetched);
    for (const auto& [block, bytes] : replayed->on_host) {
      host[block] = std::max(host[block], bytes);
    }
  }
  for (const auto& [block, bytes] : host) Add(bytes, 1, &found.host);
  SetIdeals(graph, &found);
  return CheckTotals(plan, found);
}

}  // namespace ucudnn
