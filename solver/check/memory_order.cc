#include "solver/check/memory_order.h"

#include <algorithm>
#include <string>

#include "solver/check/memory_violation.h"

namespace ucudnn::memory_check {
namespace {

// R2.
Status CheckForm(const MemoryRound& round, const TrainingGraph& graph,
                 std::size_t i) {
  const MemoryEvent& e = round.events[i];
  const std::string where = fmt::format("event {}", i);
  if (static_cast<std::size_t>(e.stream) >= kMemoryStreams.size() ||
      static_cast<std::size_t>(e.op) > 5) {
    return Violation(2, where, "its operation or stream does not exist");
  }
  const bool computes = e.op == EventOp::kCompute;
  if (computes ? e.task >= graph.tasks.size()
               : e.op != EventOp::kSync && e.block >= graph.blocks.size()) {
    return Violation(2, where, "its task or block is not in the graph");
  }
  bool right_stream = true;
  if (computes) {
    right_stream =
        e.stream == (graph.tasks[e.task].kind == TaskKind::kHostUpdate
                         ? MemoryStream::kHost
                         : MemoryStream::kCompute);
  } else if (IsTransfer(e.op)) {
    right_stream =
        e.stream != MemoryStream::kCompute && e.stream != MemoryStream::kHost;
  }
  if (!right_stream) {
    return Violation(2, EventName(round, graph, i), "runs on the wrong stream");
  }
  const bool instant = !computes && !IsTransfer(e.op);
  if (e.duration < Nanoseconds(0) ||
      (instant && e.duration != Nanoseconds(0))) {
    return Violation(2, EventName(round, graph, i), "takes {} ns",
                     e.duration.count());
  }
  return {};
}

}  // namespace

Result<EventOrder> EventOrder::Of(const MemoryRound& round,
                                  const TrainingGraph& graph) {
  EventOrder order;
  for (std::size_t i = 0; i < round.events.size(); ++i) {
    UCUDNN_RETURN_IF_ERROR(CheckForm(round, graph, i));
    UCUDNN_RETURN_IF_ERROR(order.Add(round, graph));
  }
  if (round.time != order.finish_) {
    return Violation(23, "round", "takes {} ns, its events end at {} ns",
                     round.time.count(), order.finish_.count());
  }
  return order;
}

// The next event: R3 to R5.
Status EventOrder::Add(const MemoryRound& round, const TrainingGraph& graph) {
  const std::size_t i = places_.size();
  const MemoryEvent& e = round.events[i];
  const auto stream = static_cast<std::size_t>(e.stream);
  std::vector<std::size_t> before = e.after;
  if (last_[stream]) before.push_back(*last_[stream]);
  Clock clock{};
  Nanoseconds earliest{0};
  for (const std::size_t other : before) {
    if (other >= i) {
      return Violation(3, EventName(round, graph, i),
                       "waits for event {}, which does not come before it",
                       other);
    }
    earliest = std::max(earliest, round.events[other].end());
    for (std::size_t s = 0; s < clock.size(); ++s) {
      clock[s] = std::max(clock[s], ended_[other][s]);
    }
    std::size_t& theirs = clock[streams_[other]];
    theirs = std::max(theirs, places_[other] + 1);
  }
  if (e.start != earliest) {
    return Violation(4, EventName(round, graph, i),
                     "starts at {} ns; its stream and what it waits for allow "
                     "{} ns",
                     e.start.count(), earliest.count());
  }
  if (i > 0 && e.start < round.events[i - 1].start) {
    return Violation(5, EventName(round, graph, i),
                     "starts at {} ns, before the event ahead of it",
                     e.start.count());
  }
  ended_.push_back(clock);
  streams_.push_back(stream);
  places_.push_back(last_[stream] ? places_[*last_[stream]] + 1 : 0);
  last_[stream] = i;
  finish_ = std::max(finish_, e.end());
  return {};
}

}  // namespace ucudnn::memory_check
