#include "solver/check/memory_durations.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "solver/check/memory_violation.h"

namespace ucudnn::memory_check {
namespace {

Status CheckTransfer(const MemoryRound& round, const TrainingGraph& graph,
                     std::size_t i) {
  const MemoryEvent& e = round.events[i];
  const Bytes size = graph.blocks[e.block].SizeAt(round.batch);
  if (e.range.bytes != size) {
    return Violation(7, EventName(round, graph, i),
                     "moves {} bytes of a block of {}", e.range.bytes.count(),
                     size.count());
  }
  const Nanoseconds time = e.op == EventOp::kOffload
                               ? graph.device.OffloadTime(size)
                               : graph.device.PrefetchTime(size);
  if (e.duration == time) return {};
  return Violation(7, EventName(round, graph, i),
                   "takes {} ns; {} bytes take {} ns", e.duration.count(),
                   size.count(), time.count());
}

// The cost of a part, by its algorithm's name, or the fastest.
std::optional<TaskCost> CostOf(const TrainingGraph& graph, const Task& task,
                               const TaskPart& part) {
  std::optional<TaskCost> cost;
  for (const TaskCost& candidate : CostsAt(graph, task, part.batch)) {
    if (part.algorithm.empty() || candidate.algorithm.name == part.algorithm) {
      cost = candidate;
    }
  }
  return cost;
}

Status CheckTask(const MemoryRound& round, const TrainingGraph& graph,
                 std::size_t i) {
  const MemoryEvent& e = round.events[i];
  const Task& task = graph.tasks[e.task];
  std::vector<TaskPart> parts = e.parts;
  if (parts.empty()) parts.push_back({round.batch, 1, ""});
  std::int64_t images = 0;
  Nanoseconds time{0};
  Bytes workspace;
  for (const TaskPart& part : parts) {
    const std::optional<TaskCost> cost = CostOf(graph, task, part);
    if (!cost || part.count < 1) {
      return Violation(6, EventName(round, graph, i),
                       "{} runs of batch {}, algorithm '{}' have no cost",
                       part.count, part.batch.count(), part.algorithm);
    }
    images += part.batch.count() * part.count;
    Add(cost->time, part.count, &time);
    workspace = std::max(workspace, cost->workspace);
  }
  if (images != round.batch.count()) {
    return Violation(6, EventName(round, graph, i),
                     "its parts have {} images, the round {}", images,
                     round.batch.count());
  }
  if (e.duration != time) {
    return Violation(7, EventName(round, graph, i),
                     "takes {} ns, its parts take {} ns", e.duration.count(),
                     time.count());
  }
  if (e.range.bytes < workspace) {
    return Violation(8, EventName(round, graph, i),
                     "has a workspace of {} bytes, its algorithm needs {}",
                     e.range.bytes.count(), workspace.count());
  }
  return {};
}

Status CheckLink(const MemoryRound& round, const TrainingGraph& graph) {
  const std::vector<MemoryEvent>& events = round.events;
  // The last transfer of a direction, or of all; events come by start.
  std::array<std::optional<std::size_t>, 2> last;
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (!IsTransfer(events[i].op)) continue;
    const bool other_way =
        graph.device.duplex && events[i].op == EventOp::kPrefetch;
    std::optional<std::size_t>& previous = last[other_way ? 1 : 0];
    if (previous && events[*previous].end() > events[i].start) {
      return Violation(9, EventName(round, graph, i),
                       "overlaps {} on the same link",
                       EventName(round, graph, *previous));
    }
    if (!previous || events[i].end() >= events[*previous].end()) previous = i;
  }
  return {};
}

}  // namespace

Status CheckDurations(const MemoryRound& round, const TrainingGraph& graph) {
  for (std::size_t i = 0; i < round.events.size(); ++i) {
    const EventOp op = round.events[i].op;
    if (IsTransfer(op)) {
      UCUDNN_RETURN_IF_ERROR(CheckTransfer(round, graph, i));
    } else if (op == EventOp::kCompute) {
      UCUDNN_RETURN_IF_ERROR(CheckTask(round, graph, i));
    }
  }
  return CheckLink(round, graph);
}

}  // namespace ucudnn::memory_check
