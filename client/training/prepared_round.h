#ifndef UCUDNN_CLIENT_TRAINING_PREPARED_ROUND_H_
#define UCUDNN_CLIENT_TRAINING_PREPARED_ROUND_H_

// A round of a memory plan, ready to run: its events with their addresses,
// convolutions and device events.

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/training/graph.h"
#include "base/training/memory_plan.h"
#include "client/training/memory_arenas.h"
#include "device/device.h"
#include "device/training/rank_exchange.h"
#include "device/training/task_runner.h"

namespace ucudnn {

// An event of the plan, ready to run.
struct Command {
  const MemoryEvent* event = nullptr;
  std::vector<std::size_t> waits;  // commands of other streams
  bool signals = false;            // another stream waits for it
  std::vector<float*> blocks;      // of compute, where its task's blocks lie
  char* device = nullptr;          // alloc, free, transfers, workspace
  Bytes bytes;
  char* host = nullptr;  // transfers; null: of the round's input
  PreparedParts parts;
  std::optional<std::size_t> stretch;  // of compute, unless it runs by itself
  bool adds = false;    // of compute: to a weight gradient of the same round
  bool reruns = false;  // of compute: its task has run before in this round
  std::unique_ptr<Event> done;
  // Before and after the waits of the compute stream.
  std::unique_ptr<Event> idle;
  std::unique_ptr<Event> busy;
  std::string cause;
  // Before and after a transfer, unless it offloads an input, which the host
  // has; and before and after a task, if tasks are timed.
  std::unique_ptr<Event> begin;
  std::unique_ptr<Event> end;
};

// Tasks that follow each other on the compute stream without a wait before any
// but the first, and without a signal after any but the last: they can be
// enqueued at once.
struct Stretch {
  std::vector<std::size_t> commands;
  // For each command those that it follows if several streams are asked for, by
  // their places in the stretch; empty if no two may run at once.
  std::vector<std::vector<std::size_t>> after;
  // The tasks as captured work, in the iteration's first round, which begins
  // the weight gradients, and in others, which add to them. Null: enqueued one
  // by one.
  using Captured = std::array<std::unique_ptr<CapturedWork>, 2>;
  // By whether it is in the order that `after` gives, or else one by one.
  std::array<Captured, 2> captured;
};

struct PreparedRound {
  const MemoryRound* planned = nullptr;
  std::vector<Command> commands;  // one for each event
  std::vector<Stretch> stretches;
  // Of a round with updates, if ranks sum gradients: the buckets, where they
  // lie when the first update runs, and that update.
  std::vector<ReadyBucket> buckets;
  std::optional<std::size_t> first_update;
};

struct RoundContext {
  Device& device;
  TaskRunner& runner;
  const TrainingGraph& training;
  const MemoryPlan& plan;
  const MemoryArenas& arenas;
  bool time_tasks = false;  // each task is a stretch of its own, with events
  std::span<const GradientBucket> buckets = {};  // that ranks sum
  // Normalisations are exchanged, and by more than what they enqueue.
  bool exchanges_statistics = false;
  bool waits_for_statistics = false;
  int streams = 1;  // how many tasks may run at once
};

// Both plan and round must outlive the result. kFailedPrecondition if a task
// needs more workspace than the plan leaves it, or a gradient that ranks sum is
// computed after the first update; errors of TaskRunner::Prepare
// and of the device.
Result<PreparedRound> PrepareRound(const RoundContext& context,
                                   const MemoryRound& planned);

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_TRAINING_PREPARED_ROUND_H_
