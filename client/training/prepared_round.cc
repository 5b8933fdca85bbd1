#include "client/training/prepared_round.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/text.h"

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
    for (Command& command : round_.commands) {
      if (!command.signals) continue;
      UCUDNN_ASSIGN_OR_RETURN(command.done, context_.device.MakeEvent());
    }
    FindStretches();
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

  void FindStretches() {
    bool open = false;
    for (std::size_t i = 0; i < round_.commands.size(); ++i) {
      Command& command = round_.commands[i];
      if (command.event->stream != MemoryStream::kCompute) continue;
      if (!command.waits.empty() || context_.time_tasks) open = false;
      if (command.event->op == EventOp::kCompute) {
        // What differs from step to step cannot be replayed.
        const bool repeats = context_.runner.Repeats(command.event->task);
        if (repeats) {
          if (!open) round_.stretches.emplace_back();
          command.stretch = round_.stretches.size() - 1;
          round_.stretches.back().commands.push_back(i);
        }
        open = repeats;
      }
      if (command.signals) open = false;
    }
  }

  const RoundContext& context_;
  const MemoryRound& planned_;
  PreparedRound round_;
  std::vector<char*> places_;
  std::set<std::size_t> written_;  // weight gradients
};

}  // namespace

Result<PreparedRound> PrepareRound(const RoundContext& context,
                                   const MemoryRound& planned) {
  return RoundBuilder(context, planned).Build();
}

}  // namespace ucudnn
