#include "client/training/prepared_round.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/text.h"
#include "client/training/stretch_order.h"
#include "solver/memory/lanes.h"

namespace ucudnn {
namespace {

// What a wait of the compute stream is called.
std::string CauseOf(const MemoryRound& round, const MemoryEvent& event,
                    const std::vector<std::size_t>& waits) {
  if (event.op == EventOp::kSync) return "sync";
  for (const std::size_t wait : waits) {
    if (round.events[wait].op == EventOp::kPrefetch) return "prefetch";
  }
  return "offload";
}

class RoundBuilder {
 public:
  RoundBuilder(const RoundContext& context, const MemoryRound& planned)
      : context_(context),
        planned_(planned),
        places_(context.arenas.ResidentPlaces(context.plan)) {
    round_.planned = &planned;
  }

  Result<PreparedRound> Build() {
    for (const MemoryEvent& event : planned_.events) {
      UCUDNN_RETURN_IF_ERROR(Add(event));
    }
    if (!context_.buckets.empty()) UCUDNN_RETURN_IF_ERROR(FindBuckets());
    for (Command& command : round_.commands) {
      if (!command.signals) continue;
      UCUDNN_ASSIGN_OR_RETURN(command.done, context_.device.MakeEvent());
    }
    for (std::size_t i = 0; i < ready_.size(); ++i) {
      for (const std::size_t command : ready_[i]) {
        round_.buckets[i].ready.push_back(round_.commands[command].done.get());
      }
    }
    FindStretches();
    if (context_.streams > 1) OrderStretches();
    return std::move(round_);
  }

 private:
  Status Add(const MemoryEvent& event) {
    Command& command = round_.commands.emplace_back();
    command.event = &event;
    for (const std::size_t after : event.after) {
      if (planned_.events[after].stream == event.stream) continue;
      command.waits.push_back(after);
      round_.commands[after].signals = true;
    }
    switch (event.op) {
      case EventOp::kAlloc:
        places_[event.block] = context_.arenas.At(event.range.offset);
        command.bytes = event.range.bytes;
        command.device = places_[event.block];
        break;
      case EventOp::kFree:
        command.bytes =
            context_.training.blocks[event.block].SizeAt(planned_.batch);
        command.device = std::exchange(places_[event.block], nullptr);
        break;
      case EventOp::kOffload:
      case EventOp::kPrefetch:
        command.bytes = event.range.bytes;
        command.device = places_[event.block];
        command.host = context_.arenas.HostPlaceOf(event.block);
        if (event.op == EventOp::kPrefetch || command.host != nullptr) {
          UCUDNN_RETURN_IF_ERROR(AddTimer(&command));
        }
        break;
      case EventOp::kCompute:
        UCUDNN_RETURN_IF_ERROR(AddCompute(&command));
        break;
      case EventOp::kSync:
        break;
    }
    if (event.stream == MemoryStream::kCompute && !command.waits.empty()) {
      command.cause = CauseOf(planned_, event, command.waits);
      UCUDNN_ASSIGN_OR_RETURN(command.idle, context_.device.MakeEvent());
      UCUDNN_ASSIGN_OR_RETURN(command.busy, context_.device.MakeEvent());
    }
    return {};
  }

  Status AddCompute(Command* command) {
    const MemoryEvent& event = *command->event;
    const Task& task = context_.training.tasks[event.task];
    command->blocks.resize(context_.training.blocks.size());
    for (const auto* blocks : {&task.reads, &task.writes}) {
      for (const std::size_t block : *blocks) {
        // The validator has seen that it is there.
        UCUDNN_CHECK(places_[block] != nullptr);
        command->blocks[block] = reinterpret_cast<float*>(places_[block]);
      }
    }
    for (const std::size_t block : task.writes) {
      if (context_.training.blocks[block].kind != BlockKind::kWeightGradient) {
        continue;
      }
      command->adds = !written_.insert(block).second;
    }
    command->reruns = !ran_.insert(event.task).second;
    UCUDNN_ASSIGN_OR_RETURN(
        command->parts,
        context_.runner.Prepare(event.task, planned_.batch, event.parts));
    if (command->parts.workspace > event.range.bytes) {
      return Fail(Code::kFailedPrecondition,
                  "task '{}' now needs a workspace of {} bytes, and the plan "
                  "leaves it {}",
                  Excerpt(task.name, 200), command->parts.workspace.count(),
                  event.range.bytes.count());
    }
    command->device = context_.arenas.At(event.range.offset);
    command->bytes = event.range.bytes;
    return context_.time_tasks ? AddTimer(command) : Status();
  }

  Status AddTimer(Command* command) {
    UCUDNN_ASSIGN_OR_RETURN(command->begin, context_.device.MakeEvent());
    UCUDNN_ASSIGN_OR_RETURN(command->end, context_.device.MakeEvent());
    return {};
  }

  // What the round's tasks leave of a gradient: the last command that put it
  // there, and where.
  struct Place {
    std::size_t ready = 0;
    char* data = nullptr;
  };

  // Where each gradient lies when the first update runs, and which command put
  // it there. One that has left for the host, and comes back for its update, is
  // summed there.
  Status FindBuckets() {
    std::map<std::size_t, Place> on_device;
    std::map<std::size_t, Place> on_host;
    for (std::size_t i = 0; i < round_.commands.size(); ++i) {
      const Command& command = round_.commands[i];
      const MemoryEvent& event = *command.event;
      if (event.op == EventOp::kCompute) {
        const Task& task = context_.training.tasks[event.task];
        if (IsUpdate(task.kind) && !round_.first_update) {
          round_.first_update = i;
        }
        for (const std::size_t block : task.writes) {
          if (!IsGradient(block)) continue;
          UCUDNN_RETURN_IF_ERROR(CheckBeforeUpdates(task));
          on_device[block] = {i,
                              reinterpret_cast<char*>(command.blocks[block])};
          on_host.erase(block);
        }
      } else if (event.op == EventOp::kOffload && IsGradient(event.block)) {
        if (!round_.first_update) on_host[event.block] = {i, command.host};
      } else if (event.op == EventOp::kPrefetch && IsGradient(event.block)) {
        const auto left = on_host.find(event.block);
        if (!round_.first_update) {
          on_device[event.block] = {i, command.device};
          on_host.erase(event.block);
        } else if (left != on_host.end()) {
          on_device[event.block] = left->second;
        }
      }
    }
    if (!round_.first_update) return {};  // not the last round
    for (const GradientBucket& bucket : context_.buckets) {
      AddBucket(bucket, on_device);
    }
    return {};
  }

  void AddBucket(const GradientBucket& bucket,
                 const std::map<std::size_t, Place>& places) {
    ReadyBucket& prepared = round_.buckets.emplace_back();
    std::vector<std::size_t>& completing = ready_.emplace_back();
    std::optional<std::size_t> computed;
    for (const std::size_t block : bucket.blocks) {
      const Place& place = places.at(block);
      prepared.gradients.emplace_back(
          reinterpret_cast<float*>(place.data),
          static_cast<std::size_t>(
              context_.training.blocks[block].bytes.count()) /
              sizeof(float));
      if (round_.commands[place.ready].event->op == EventOp::kCompute) {
        // The last of them comes after the others.
        computed = std::max(computed.value_or(0), place.ready);
      } else {
        completing.push_back(place.ready);
      }
    }
    if (computed) completing.push_back(*computed);
    for (const std::size_t ready : completing) {
      round_.commands[ready].signals = true;
    }
  }

  bool IsGradient(std::size_t block) const {
    return context_.training.blocks[block].kind == BlockKind::kWeightGradient;
  }

  Status CheckBeforeUpdates(const Task& task) const {
    if (!round_.first_update) return {};
    return Fail(Code::kFailedPrecondition,
                "task '{}' computes a gradient after the first update; ranks "
                "that sum gradients need a graph with its updates at the end",
                Excerpt(task.name, 200));
  }

  // Whether the command does the same in every step, and enqueues it all.
  bool CanBeCaptured(const Command& command) const {
    const std::size_t task = command.event->task;
    if (context_.waits_for_statistics && !command.reruns &&
        context_.runner.Normalises(task)) {
      return false;
    }
    return context_.runner.Repeats(task);
  }

  void FindStretches() {
    bool open = false;
    for (std::size_t i = 0; i < round_.commands.size(); ++i) {
      Command& command = round_.commands[i];
      if (command.event->stream != MemoryStream::kCompute) continue;
      if (!command.waits.empty() || context_.time_tasks) open = false;
      if (command.event->op == EventOp::kCompute) {
        const bool captures = CanBeCaptured(command);
        if (captures) {
          if (!open) round_.stretches.emplace_back();
          command.stretch = round_.stretches.size() - 1;
          round_.stretches.back().commands.push_back(i);
        }
        open = captures;
      }
      if (command.signals) open = false;
    }
  }

  void OrderStretches() {
    const std::vector<std::size_t> lanes =
        LanesOf(context_.training, planned_, context_.streams);
    for (Stretch& stretch : round_.stretches) {
      std::vector<UsedMemory> used;
      std::vector<std::size_t> lane_of;
      for (const std::size_t index : stretch.commands) {
        used.push_back(UsedBy(round_.commands[index]));
        lane_of.push_back(lanes[index]);
      }
      auto after = OrderOf(used, lane_of);
      bool forks = false;
      for (std::size_t i = 1; i < after.size(); ++i) {
        forks = forks || after[i] != std::vector<std::size_t>{i - 1};
      }
      if (forks) stretch.after = std::move(after);
    }
  }

  UsedMemory UsedBy(const Command& command) const {
    UsedMemory used;
    const std::size_t number = command.event->task;
    const Task& task = context_.training.tasks[number];
    const auto range = [&](std::size_t block) -> UsedMemory::Range {
      return {reinterpret_cast<const char*>(command.blocks[block]),
              context_.training.blocks[block].SizeAt(planned_.batch)};
    };
    for (const std::size_t block : task.reads) {
      used.reads.push_back(range(block));
    }
    for (const std::size_t block : task.writes) {
      used.writes.push_back(range(block));
    }
    used.writes.push_back({command.device, command.bytes});
    // The probabilities of labels, and sums that ranks exchange in one order.
    used.shares =
        task.kind == TaskKind::kLoss ||
        (context_.exchanges_statistics && context_.runner.Normalises(number));
    return used;
  }

  const RoundContext& context_;
  const MemoryRound& planned_;
  PreparedRound round_;
  std::vector<std::vector<std::size_t>> ready_;  // commands, of each bucket
  std::vector<char*> places_;
  std::set<std::size_t> written_;  // weight gradients
  std::set<std::size_t> ran_;      // tasks
};

}  // namespace

Result<PreparedRound> PrepareRound(const RoundContext& context,
                                   const MemoryRound& planned) {
  return RoundBuilder(context, planned).Build();
}

}  // namespace ucudnn
