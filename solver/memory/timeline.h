#ifndef UCUDNN_SOLVER_MEMORY_TIMELINE_H_
#define UCUDNN_SOLVER_MEMORY_TIMELINE_H_

// Puts together one round of a memory plan, event by event, in the order in
// which an executor would issue them, and computes when each starts.
//
// Whoever builds a plan says what happens and on which stream; the timeline
// adds every wait that safety needs, and leaves out those that follow from
// others:
//   - a task waits for the allocation and the arrival of its blocks, and before
//     it writes one for those that read it, offloads among them;
//   - an offload waits for the last writer, a prefetch for the copy on the
//   host;
//   - a release waits for every use;
//   - an allocation, or a workspace, waits for the release of whatever lay at
//     its addresses before, and of an earlier place of the block.
// So a round is safe by construction as long as each block is on the device
// when it is used: what remains for the builder is when things happen, by
// `after`. Broken preconditions abort.
//
//   Timeline t(round);
//   t.Resident(weights, Bytes(0));
//   t.Alloc(y, kCompute, Bytes(4096));
//   t.Compute(task, {.parts = ..., .time = ...});
//   const auto off = t.Offload(x, kD2h, {t.Last(kCompute)});
//   t.Free(x, kD2h);
//   MemoryRound round = t.Finish();
//
// Addresses may be left open (nullopt) and given later, all at once, by
// PlaceStatically (solver/memory/placement.h).

#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "base/training/memory_plan.h"
#include "base/units.h"
#include "solver/memory/range_owners.h"
#include "solver/memory/round_model.h"

namespace ucudnn {

// How a task runs.
struct TaskRun {
  std::vector<TaskPart> parts;  // empty where there is one way only
  Bytes workspace;              // at least what the parts need
  Nanoseconds time{0};          // of all parts
};

// The task's batch undivided, as `cost` says.
TaskRun Undivided(const TaskCost& cost, BatchSize batch);

class Timeline {
 public:
  // An event, numbered in the order of issue.
  using Event = std::size_t;
  using Events = std::vector<Event>;

  // `round` must outlive the timeline.
  explicit Timeline(const RoundModel& round);

  // The block is on the device when the round starts; before any event. Not for
  // blocks that are neither persistent nor inputs. Inputs, and persistent
  // blocks that are not resident, have a valid copy on the host.
  void Resident(std::size_t block, std::optional<MemoryRange> range);

  // An instant on `stream`, after all events of `after` and what safety needs.
  // Alloc: the block is not on the device. `bytes` is its size unless given.
  Event Alloc(std::size_t block, MemoryStream stream,
              std::optional<Bytes> offset, Events after = {});
  // The block is on the device.
  Event Free(std::size_t block, MemoryStream stream, Events after = {});
  Event Sync(MemoryStream stream, Events after);

  // Runs a task of the round on kCompute (host updates: on kHost, on copies on
  // the host). All blocks it touches are on the device; those that it reads
  // hold something. `workspace_offset` as for Alloc.
  Event Compute(std::size_t task, const TaskRun& run,
                std::optional<Bytes> workspace_offset = std::nullopt,
                Events after = {});

  // Copies the block, which is on the device and holds something, to the host;
  // it stays on the device.
  Event Offload(std::size_t block, MemoryStream stream, Events after = {});
  // Copies it back; it is allocated and has a copy on the host.
  Event Prefetch(std::size_t block, MemoryStream stream, Events after = {});

  // When the stream's last event ends; 0 if there is none.
  Nanoseconds Now(MemoryStream stream) const;
  // The stream's last event, as a list for `after`; empty if there is none.
  Events Last(MemoryStream stream) const;
  // What last wrote the block on the device, a task or a prefetch, as a list
  // for `after`; empty if nothing did since the round began.
  Events Writer(std::size_t block) const;
  // When an event with these waits would start on the stream.
  Nanoseconds StartAfter(MemoryStream stream, const Events& after) const;
  Nanoseconds Start(Event event) const { return events_[event].start; }
  Nanoseconds End(Event event) const { return events_[event].end(); }
  // The end of the last event.
  Nanoseconds End() const;

  bool OnDevice(std::size_t block) const {
    return blocks_[block].residency.has_value();
  }
  // Whether the device's contents are those of the last writer: something was
  // computed into it or fetched.
  bool HoldsData(std::size_t block) const { return blocks_[block].written; }
  // Whether the host has a copy (of the block's latest contents: a task that
  // writes the block makes it invalid).
  bool OnHost(std::size_t block) const { return blocks_[block].on_host; }

  // The events, sorted by start. The timeline is then empty.
  MemoryRound Finish();

 private:
  // The place of an event in the order that streams and waits prove: for each
  // stream, how many of its events have ended before it starts.
  using Clock = std::array<int, kMemoryStreams.size()>;

  struct BlockState {
    std::optional<std::size_t> residency;
    std::optional<Event> allocated;
    std::optional<Event> writer;  // of the contents on the device
    std::vector<Event> readers;   // since then
    std::optional<Event> freed;   // the last time
    bool written = false;
    bool on_host = false;
    std::optional<Event> host_writer;
    std::vector<Event> host_readers;
  };

  // Appends the event after `after` and those that are there already.
  Event Append(MemoryEvent event, Events after);
  bool Covers(const Clock& clock, Event event) const;
  void Claim(std::size_t residency, MemoryRange range, Events* after);
  static void Add(const std::optional<Event>& event, Events* list) {
    if (event) list->push_back(*event);
  }

  const RoundModel& round_;
  std::vector<MemoryEvent> events_;
  std::vector<Clock> clocks_;   // by event
  std::vector<int> positions_;  // in its stream
  std::array<std::optional<Event>, kMemoryStreams.size()> last_;
  std::vector<BlockState> blocks_;
  // Of every range that was ever taken the event that released it.
  std::vector<std::optional<Event>> released_;
  RangeOwners owners_;
};

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_MEMORY_TIMELINE_H_
