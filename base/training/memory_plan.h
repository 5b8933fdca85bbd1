#ifndef UCUDNN_BASE_TRAINING_MEMORY_PLAN_H_
#define UCUDNN_BASE_TRAINING_MEMORY_PLAN_H_

// A memory plan: one training iteration within a budget of device memory, as
// events on streams. Blocks and tasks are indices into the TrainingGraph that
// the plan is about.
//
// Times follow from order: an event starts when the event before it on its
// stream and all that it waits for have ended, and events are listed by start.
// So the times are what an executor gets that enqueues every stream in list
// order, records an event where another stream's `after` names one, and waits
// there. That a plan is safe follows from order alone; docs/memory.md says how
// it is checked.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/training/graph.h"
#include "base/units.h"

namespace ucudnn {

// Events of one stream run one after the other. Tasks run on kCompute, except
// kHostUpdate, which runs on kHost; transfers run on any other stream.
enum class MemoryStream { kCompute, kHost, kD2h, kH2d, kCopy };
inline constexpr std::array kMemoryStreams = {
    MemoryStream::kCompute, MemoryStream::kHost, MemoryStream::kD2h,
    MemoryStream::kH2d, MemoryStream::kCopy};
// "compute", "host", "d2h", "h2d", "copy".
constexpr std::string_view Name(MemoryStream stream) {
  constexpr std::array<std::string_view, 5> kNames = {"compute", "host", "d2h",
                                                      "h2d", "copy"};
  return kNames[static_cast<std::size_t>(stream)];
}

enum class EventOp {
  kAlloc,     // an instant: the block owns the range from here on
  kFree,      // an instant: the block owned the range until here
  kSync,      // an instant that only waits
  kCompute,   // runs a task
  kOffload,   // copies a block to the host
  kPrefetch,  // copies it back
};
inline constexpr std::array kEventOps = {EventOp::kAlloc,   EventOp::kFree,
                                         EventOp::kSync,    EventOp::kCompute,
                                         EventOp::kOffload, EventOp::kPrefetch};
constexpr std::string_view Name(EventOp op) {
  constexpr std::array<std::string_view, 6> kNames = {
      "alloc", "free", "sync", "compute", "offload", "prefetch"};
  return kNames[static_cast<std::size_t>(op)];
}

// A range of the device's memory, from the start of the plan's pool.
struct MemoryRange {
  Bytes offset;
  Bytes bytes;

  friend bool operator==(const MemoryRange&, const MemoryRange&) = default;
};

// `count` runs, one after the other, of a task's algorithm on a micro-batch.
struct TaskPart {
  BatchSize batch;
  std::int64_t count = 1;
  std::string algorithm;  // as CostsAt or PointsOf names it; may be empty

  friend bool operator==(const TaskPart&, const TaskPart&) = default;
};

struct MemoryEvent {
  EventOp op = EventOp::kSync;
  MemoryStream stream = MemoryStream::kCompute;
  Nanoseconds start{0};
  Nanoseconds duration{0};         // of compute and transfers
  std::vector<std::size_t> after;  // earlier events of the round, ascending
  std::size_t block = 0;           // all but compute and sync
  std::size_t task = 0;            // compute
  // For alloc, the block's range; for compute, the workspace, live while it
  // runs (0 bytes if there is none); for a transfer, bytes only.
  MemoryRange range = {};
  // How compute runs the round's batch; empty if there is only one way.
  std::vector<TaskPart> parts = {};

  Nanoseconds end() const { return start + duration; }

  friend bool operator==(const MemoryEvent&, const MemoryEvent&) = default;
};

// A part of the mini-batch that is trained at once.
struct MemoryRound {
  BatchSize batch;
  std::int64_t count = 1;  // repetitions, one after the other
  Nanoseconds time{0};     // of one repetition
  std::vector<MemoryEvent> events;

  friend bool operator==(const MemoryRound&, const MemoryRound&) = default;
};

struct ResidentBlock {
  std::size_t block = 0;
  MemoryRange range;

  friend bool operator==(const ResidentBlock&, const ResidentBlock&) = default;
};

struct MemoryPlan {
  std::string policy;  // as requested
  std::string choice;  // what the policy chose, if it had a choice
  BatchSize sub_batch;
  Bytes budget;
  Bytes alignment{256};
  int gpus = 1;
  // On the device when a round starts: persistent blocks that stay, and inputs.
  // A persistent block that is not listed lives on the host.
  std::vector<ResidentBlock> resident;
  // Their images add up to the mini-batch. The last one has count 1 and is the
  // only one with updates.
  std::vector<MemoryRound> rounds;

  // Sums over the iteration.
  Nanoseconds time{0};
  Nanoseconds stall{0};  // time without a task on kCompute
  Bytes peak;            // the largest offset + bytes
  Bytes load;            // the largest sum of live bytes
  Bytes host;            // of all blocks with a copy on the host, except inputs
  Bytes offloaded;
  Bytes prefetched;
  // With all blocks on the device at once, and every task at its fastest
  // without a pause. The time is absent if a task was not measured at the
  // mini-batch.
  std::optional<Nanoseconds> ideal_time;
  std::optional<Bytes> ideal_bytes;
  // No plan of this kind within the budget takes less.
  Nanoseconds lower_bound{0};
  Bytes lower_bound_bytes;
  // A time limit or a stop ended the search, so another search for the same may
  // find a faster plan.
  bool cut_off = false;

  friend bool operator==(const MemoryPlan&, const MemoryPlan&) = default;
};

}  // namespace ucudnn

#endif  // UCUDNN_BASE_TRAINING_MEMORY_PLAN_H_
