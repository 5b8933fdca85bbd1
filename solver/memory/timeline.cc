#include "solver/memory/timeline.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "base/result.h"

namespace ucudnn {
namespace {

std::size_t Index(MemoryStream stream) {
  return static_cast<std::size_t>(stream);
}

}  // namespace

TaskRun Undivided(const TaskCost& cost, BatchSize batch) {
  TaskRun run;
  if (!cost.algorithm.name.empty()) {
    run.parts.push_back({batch, 1, cost.algorithm.name});
  }
  run.workspace = cost.workspace;
  run.time = cost.time;
  return run;
}

Timeline::Timeline(const RoundModel& round)
    : round_(round), blocks_(round.size.size()) {
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    blocks_[i].on_host = round.IsInput(i) || round.persistent[i];
  }
}

void Timeline::Resident(std::size_t block, std::optional<MemoryRange> range) {
  UCUDNN_CHECK(events_.empty());
  UCUDNN_CHECK(round_.persistent[block] || round_.IsInput(block));
  BlockState& state = blocks_[block];
  UCUDNN_CHECK(!state.residency);
  state.residency = released_.size();
  released_.emplace_back();
  state.written = true;
  // What the host updates it has from the beginning.
  state.on_host = round_.IsInput(block) ||
                  std::ranges::any_of(round_.tasks, [&](std::size_t i) {
                    const Task& task = round_.graph->tasks[i];
                    return task.kind == TaskKind::kHostUpdate &&
                           std::ranges::count(task.writes, block) > 0;
                  });
  if (range) {
    Events none;
    Claim(*state.residency, *range, &none);
  }
}

Timeline::Event Timeline::Alloc(std::size_t block, MemoryStream stream,
                                std::optional<Bytes> offset, Events after) {
  BlockState& state = blocks_[block];
  UCUDNN_CHECK(!state.residency);
  MemoryEvent event;
  event.op = EventOp::kAlloc;
  event.stream = stream;
  event.block = block;
  event.range = {offset.value_or(Bytes(0)), round_.size[block]};
  Add(state.freed, &after);
  state.residency = released_.size();
  released_.emplace_back();
  if (offset) Claim(*state.residency, event.range, &after);
  state.written = false;
  state.writer.reset();
  state.readers.clear();
  state.allocated = Append(std::move(event), std::move(after));
  return *state.allocated;
}

Timeline::Event Timeline::Free(std::size_t block, MemoryStream stream,
                               Events after) {
  BlockState& state = blocks_[block];
  UCUDNN_CHECK(state.residency.has_value());
  MemoryEvent event;
  event.op = EventOp::kFree;
  event.stream = stream;
  event.block = block;
  Add(state.allocated, &after);
  Add(state.writer, &after);
  after.insert(after.end(), state.readers.begin(), state.readers.end());
  const Event freed = Append(std::move(event), std::move(after));
  released_[*state.residency] = freed;
  state.residency.reset();
  state.allocated.reset();
  state.freed = freed;
  state.written = false;
  return freed;
}

Timeline::Event Timeline::Sync(MemoryStream stream, Events after) {
  MemoryEvent event;
  event.op = EventOp::kSync;
  event.stream = stream;
  return Append(std::move(event), std::move(after));
}

Timeline::Event Timeline::Compute(std::size_t task, const TaskRun& run,
                                  std::optional<Bytes> workspace_offset,
                                  Events after) {
  const Task& t = round_.graph->tasks[task];
  const bool by_host = t.kind == TaskKind::kHostUpdate;
  MemoryEvent event;
  event.op = EventOp::kCompute;
  event.stream = by_host ? MemoryStream::kHost : MemoryStream::kCompute;
  event.task = task;
  event.duration = run.time;
  event.parts = run.parts;
  if (by_host) {
    for (const std::size_t block : round_.BlocksOf(task)) {
      BlockState& state = blocks_[block];
      UCUDNN_CHECK(state.on_host);
      Add(state.host_writer, &after);
    }
    for (const std::size_t block : t.writes) {
      BlockState& state = blocks_[block];
      after.insert(after.end(), state.host_readers.begin(),
                   state.host_readers.end());
    }
    const Event done = Append(std::move(event), std::move(after));
    for (const std::size_t block : t.writes) {
      blocks_[block].host_writer = done;
      blocks_[block].host_readers.clear();
    }
    return done;
  }
  for (const std::size_t block : round_.reads[task]) {
    const BlockState& state = blocks_[block];
    UCUDNN_CHECK(state.residency.has_value() && state.written);
    Add(state.allocated, &after);
    Add(state.writer, &after);
  }
  for (const std::size_t block : t.writes) {
    const BlockState& state = blocks_[block];
    UCUDNN_CHECK(state.residency.has_value());
    Add(state.allocated, &after);
    Add(state.writer, &after);
    after.insert(after.end(), state.readers.begin(), state.readers.end());
  }
  if (run.workspace > Bytes(0)) {
    event.range = {workspace_offset.value_or(Bytes(0)), run.workspace};
    // The workspace is released when the event itself ends.
    released_.emplace_back(events_.size());
    if (workspace_offset) Claim(released_.size() - 1, event.range, &after);
  }
  const Event done = Append(std::move(event), std::move(after));
  for (const std::size_t block : round_.reads[task]) {
    blocks_[block].readers.push_back(done);
  }
  for (const std::size_t block : t.writes) {
    BlockState& state = blocks_[block];
    state.writer = done;
    state.readers.clear();
    state.written = true;
    state.on_host = false;
  }
  return done;
}

Timeline::Event Timeline::Offload(std::size_t block, MemoryStream stream,
                                  Events after) {
  BlockState& state = blocks_[block];
  UCUDNN_CHECK(state.residency.has_value() && state.written);
  MemoryEvent event;
  event.op = EventOp::kOffload;
  event.stream = stream;
  event.block = block;
  event.range.bytes = round_.size[block];
  event.duration = round_.graph->device.OffloadTime(round_.size[block]);
  Add(state.allocated, &after);
  Add(state.writer, &after);
  Add(state.host_writer, &after);
  after.insert(after.end(), state.host_readers.begin(),
               state.host_readers.end());
  const Event done = Append(std::move(event), std::move(after));
  state.readers.push_back(done);
  state.on_host = true;
  state.host_writer = done;
  state.host_readers.clear();
  return done;
}

Timeline::Event Timeline::Prefetch(std::size_t block, MemoryStream stream,
                                   Events after) {
  BlockState& state = blocks_[block];
  UCUDNN_CHECK(state.residency.has_value() && state.on_host);
  MemoryEvent event;
  event.op = EventOp::kPrefetch;
  event.stream = stream;
  event.block = block;
  event.range.bytes = round_.size[block];
  event.duration = round_.graph->device.PrefetchTime(round_.size[block]);
  Add(state.allocated, &after);
  Add(state.writer, &after);
  after.insert(after.end(), state.readers.begin(), state.readers.end());
  Add(state.host_writer, &after);
  const Event done = Append(std::move(event), std::move(after));
  state.writer = done;
  state.readers.clear();
  state.written = true;
  state.host_readers.push_back(done);
  return done;
}

Nanoseconds Timeline::Now(MemoryStream stream) const {
  const std::optional<Event>& last = last_[Index(stream)];
  return last ? events_[*last].end() : Nanoseconds(0);
}

Timeline::Events Timeline::Last(MemoryStream stream) const {
  Events list;
  Add(last_[Index(stream)], &list);
  return list;
}

Timeline::Events Timeline::Writer(std::size_t block) const {
  Events list;
  Add(blocks_[block].writer, &list);
  return list;
}

Nanoseconds Timeline::StartAfter(MemoryStream stream,
                                 const Events& after) const {
  Nanoseconds start = Now(stream);
  for (const Event event : after) {
    start = std::max(start, events_[event].end());
  }
  return start;
}

Nanoseconds Timeline::End() const {
  Nanoseconds end{0};
  for (const MemoryStream stream : kMemoryStreams) {
    end = std::max(end, Now(stream));
  }
  return end;
}

bool Timeline::Covers(const Clock& clock, Event event) const {
  return clock[Index(events_[event].stream)] > positions_[event];
}

void Timeline::Claim(std::size_t residency, MemoryRange range, Events* after) {
  const std::vector<std::size_t> previous = owners_.Claim(
      range.offset.count(), (range.offset + range.bytes).count(), residency);
  for (const std::size_t other : previous) {
    UCUDNN_CHECK(released_[other].has_value());  // else it is live
    after->push_back(*released_[other]);
  }
}

Timeline::Event Timeline::Append(MemoryEvent event, Events after) {
  const std::size_t stream = Index(event.stream);
  Clock clock{};
  event.start = Nanoseconds(0);
  if (last_[stream]) {
    clock = clocks_[*last_[stream]];
    clock[stream] = positions_[*last_[stream]] + 1;
    event.start = events_[*last_[stream]].end();
  }
  // Later events first: they may imply earlier ones.
  std::ranges::sort(after, std::greater<>());
  for (const Event other : after) {
    if (Covers(clock, other)) continue;
    const Clock& theirs = clocks_[other];
    for (std::size_t i = 0; i < clock.size(); ++i) {
      clock[i] = std::max(clock[i], theirs[i]);
    }
    int& own = clock[Index(events_[other].stream)];
    own = std::max(own, positions_[other] + 1);
    event.start = std::max(event.start, events_[other].end());
    event.after.push_back(other);
  }
  const Event number = events_.size();
  positions_.push_back(last_[stream] ? positions_[*last_[stream]] + 1 : 0);
  clocks_.push_back(clock);
  last_[stream] = number;
  events_.push_back(std::move(event));
  return number;
}

MemoryRound Timeline::Finish() {
  std::vector<Event> order(events_.size());
  std::iota(order.begin(), order.end(), Event{0});
  // An event is issued after all that it waits for, and starts no earlier.
  std::ranges::stable_sort(order, {},
                           [&](Event event) { return events_[event].start; });
  std::vector<std::size_t> place(events_.size());
  for (std::size_t i = 0; i < order.size(); ++i) place[order[i]] = i;
  MemoryRound round;
  round.batch = round_.batch;
  round.time = End();
  for (const Event event : order) {
    MemoryEvent& moved = events_[event];
    for (std::size_t& after : moved.after) after = place[after];
    std::ranges::sort(moved.after);
    round.events.push_back(std::move(moved));
  }
  events_.clear();
  return round;
}

}  // namespace ucudnn
