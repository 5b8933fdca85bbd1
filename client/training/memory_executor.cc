#include "client/training/memory_executor.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <utility>

#include "base/text.h"
#include "solver/check/memory_plan.h"

namespace ucudnn {
namespace {

constexpr std::int64_t kHostAlignment = 256;

// What a wait of the compute stream is called.
std::string CauseOf(const MemoryRound& round, const MemoryEvent& event,
                    const std::vector<std::size_t>& waits) {
  if (event.op == EventOp::kSync) return "sync";
  for (const std::size_t wait : waits) {
    if (round.events[wait].op == EventOp::kPrefetch) return "prefetch";
  }
  return "offload";
}

}  // namespace

Result<std::unique_ptr<MemoryExecutor>> MemoryExecutor::Create(
    Device& device, Operators& operators, const Graph& graph,
    const TrainingGraph& training, const MemoryPlan& plan,
    const Parameters& parameters, const ExecutionOptions& options,
    DeviceBuffer* host) {
  std::unique_ptr<MemoryExecutor> executor(
      new MemoryExecutor(device, operators, training, plan, options));
  UCUDNN_ASSIGN_OR_RETURN(executor->operations_, OperationsOf(graph, training));
  UCUDNN_RETURN_IF_ERROR(executor->Check());
  executor->runner_.emplace(device, operators, training, executor->operations_);
  UCUDNN_RETURN_IF_ERROR(executor->AllocateArenas(host));
  UCUDNN_RETURN_IF_ERROR(executor->MakeQueues());
  UCUDNN_RETURN_IF_ERROR(executor->PrepareRounds());
  UCUDNN_RETURN_IF_ERROR(executor->UploadParameters(parameters));
  return executor;
}

Status MemoryExecutor::Check() const {
  if (const Status valid = ValidateMemoryPlan(plan_, training_); !valid) {
    return Fail(Code::kInvalidArgument, "the plan breaks a rule: {}",
                valid.error().message);
  }
  std::int64_t rounds = 0;
  for (const MemoryRound& round : plan_.rounds) {
    rounds += round.count;
    for (const MemoryEvent& event : round.events) {
      if (event.stream == MemoryStream::kHost) {
        return Fail(Code::kInvalidArgument,
                    "the plan is for {} GPUs; one for a single GPU is accepted",
                    plan_.gpus);
      }
    }
  }
  const bool normalises = std::any_of(
      operations_.begin(), operations_.end(), [](const TaskOperation& o) {
        return o.what == TaskOperator::kNormalise;
      });
  if (rounds > 1 && normalises && !options_.allow_sub_batch_statistics) {
    return Fail(Code::kFailedPrecondition,
                "the plan trains {} images in {} rounds, and {} normalises "
                "over the images of a round; --allow-sub-batch-statistics "
                "accepts statistics of sub-batches",
                training_.batch.count(), rounds, Excerpt(training_.network));
  }
  std::int64_t inputs = 0;
  for (const MemoryBlock& block : training_.blocks) {
    if (block.kind == BlockKind::kInput) ++inputs;
  }
  if (inputs != 2) {
    return Fail(Code::kUnimplemented,
                "the model has {} inputs; one, besides the labels, is accepted",
                inputs - 1);
  }
  return {};
}

Status MemoryExecutor::AllocateArenas(DeviceBuffer* host) {
  auto arena = device_.Allocate(plan_.peak);
  if (!arena) {
    return Within(fmt::format("the plan's arena of {} ({} bytes)",
                              HumanBytes(plan_.peak), plan_.peak.count()),
                  std::move(arena).error());
  }
  arena_ = *std::move(arena);
  host_offsets_.resize(training_.blocks.size());
  std::vector<bool> moves(training_.blocks.size());
  std::vector<bool> resident(training_.blocks.size());
  BatchSize largest(1);
  for (const ResidentBlock& block : plan_.resident) {
    resident[block.block] = true;
  }
  for (const MemoryRound& round : plan_.rounds) {
    largest = std::max(largest, round.batch);
    for (const MemoryEvent& event : round.events) {
      if (event.op == EventOp::kOffload || event.op == EventOp::kPrefetch) {
        moves[event.block] = true;
      }
    }
  }
  std::int64_t end = 0;
  Bytes largest_block;
  for (std::size_t i = 0; i < training_.blocks.size(); ++i) {
    const MemoryBlock& block = training_.blocks[i];
    largest_block = std::max(largest_block, block.SizeAt(largest));
    // Inputs are copied from where the caller has them.
    if (block.kind == BlockKind::kInput) continue;
    if (!moves[i] && (!block.persistent || resident[i])) continue;
    host_offsets_[i] = end;
    end += RoundUp(block.SizeAt(largest), Bytes(kHostAlignment)).count();
  }
  host_bytes_ = Bytes(end);
  DeviceBuffer* const used = host != nullptr ? host : &own_host_;
  if (end > 0 && used->size() < host_bytes_) {
    used->Reset();
    auto memory = device_.AllocateHost(host_bytes_);
    if (!memory) {
      return Within(
          fmt::format("the plan's {} of host memory", HumanBytes(host_bytes_)),
          std::move(memory).error());
    }
    *used = *std::move(memory);
  }
  host_ = static_cast<char*>(used->data());
  for (const TaskOperation& operation : operations_) {
    if (operation.labels) labels_block_ = *operation.labels;
  }
  labels_per_image_ = training_.blocks[labels_block_].bytes_per_image.count() /
                      std::int64_t{sizeof(std::int32_t)};
  UCUDNN_ASSIGN_OR_RETURN(
      probabilities_,
      device_.Allocate(Bytes(largest.count() * labels_per_image_ *
                             std::int64_t{sizeof(float)})));
  if (!options_.poison) return {};
  UCUDNN_ASSIGN_OR_RETURN(poison_, device_.AllocateHost(largest_block));
  std::memset(poison_.data(), 0xff,
              static_cast<std::size_t>(poison_.size().count()));
  return device_.Fill(arena_.data(), 0xff, arena_.size());
}

Status MemoryExecutor::MakeQueues() {
  UCUDNN_ASSIGN_OR_RETURN(start_, device_.MakeEvent());
  UCUDNN_ASSIGN_OR_RETURN(stop_, device_.MakeEvent());
  for (const MemoryRound& round : plan_.rounds) {
    for (const MemoryEvent& event : round.events) {
      if (event.stream == MemoryStream::kCompute ||
          queues_.contains(event.stream)) {
        continue;
      }
      UCUDNN_ASSIGN_OR_RETURN(queues_[event.stream], device_.MakeCopyQueue());
      UCUDNN_ASSIGN_OR_RETURN(ends_[event.stream], device_.MakeEvent());
    }
  }
  if (host_ == nullptr) return {};
  // A link that does not work shows here.
  const Bytes size = std::min(Bytes(kHostAlignment), host_bytes_);
  for (const auto& [stream, queue] : queues_) {
    const auto copy = [&, q = queue.get()]() -> Status {
      UCUDNN_RETURN_IF_ERROR(q->Download(host_, arena_.data(), size));
      UCUDNN_RETURN_IF_ERROR(q->Upload(arena_.data(), host_, size));
      return q->Synchronize();
    };
    if (Status copied = copy(); !copied) {
      return Within(fmt::format("a first copy in stream {}", Name(stream)),
                    std::move(copied).error());
    }
  }
  return {};
}

std::vector<char*> MemoryExecutor::ResidentPlaces() const {
  std::vector<char*> places(training_.blocks.size());
  for (const ResidentBlock& resident : plan_.resident) {
    places[resident.block] =
        static_cast<char*>(arena_.data()) + resident.range.offset.count();
  }
  return places;
}

Status MemoryExecutor::PrepareRounds() {
  for (const MemoryRound& planned : plan_.rounds) {
    Round& round = rounds_.emplace_back();
    round.planned = &planned;
    std::vector<char*> places = ResidentPlaces();
    for (std::size_t i = 0; i < planned.events.size(); ++i) {
      const MemoryEvent& event = planned.events[i];
      Command& command = round.commands.emplace_back();
      command.event = &event;
      for (const std::size_t after : event.after) {
        if (planned.events[after].stream == event.stream) continue;
        command.waits.push_back(after);
        round.commands[after].signals = true;
      }
      switch (event.op) {
        case EventOp::kAlloc:
          places[event.block] =
              static_cast<char*>(arena_.data()) + event.range.offset.count();
          command.bytes = event.range.bytes;
          command.device = places[event.block];
          break;
        case EventOp::kFree:
          command.bytes = training_.blocks[event.block].SizeAt(planned.batch);
          command.device = std::exchange(places[event.block], nullptr);
          break;
        case EventOp::kOffload:
        case EventOp::kPrefetch:
          command.bytes = event.range.bytes;
          command.device = places[event.block];
          if (host_offsets_[event.block]) {
            command.host = host_ + *host_offsets_[event.block];
          }
          break;
        case EventOp::kCompute:
          UCUDNN_RETURN_IF_ERROR(
              PrepareCompute(places, planned.batch, &command));
          break;
        case EventOp::kSync:
          break;
      }
      if (event.stream == MemoryStream::kCompute && !command.waits.empty()) {
        command.cause = CauseOf(planned, event, command.waits);
        UCUDNN_ASSIGN_OR_RETURN(command.idle, device_.MakeEvent());
        UCUDNN_ASSIGN_OR_RETURN(command.busy, device_.MakeEvent());
      }
    }
    for (Command& command : round.commands) {
      if (!command.signals) continue;
      UCUDNN_ASSIGN_OR_RETURN(command.done, device_.MakeEvent());
    }
  }
  return {};
}

Status MemoryExecutor::PrepareCompute(const std::vector<char*>& places,
                                      BatchSize batch, Command* command) {
  const MemoryEvent& event = *command->event;
  const Task& task = training_.tasks[event.task];
  command->blocks.resize(training_.blocks.size());
  for (const auto* blocks : {&task.reads, &task.writes}) {
    for (const std::size_t block : *blocks) {
      // The validator has seen that it is there.
      UCUDNN_CHECK(places[block] != nullptr);
      command->blocks[block] = reinterpret_cast<float*>(places[block]);
    }
  }
  UCUDNN_ASSIGN_OR_RETURN(command->parts,
                          runner_->Prepare(event.task, batch, event.parts));
  if (command->parts.workspace > event.range.bytes) {
    return Fail(Code::kFailedPrecondition,
                "task '{}' now needs a workspace of {} bytes, and the plan "
                "leaves it {}",
                Excerpt(task.name, 200), command->parts.workspace.count(),
                event.range.bytes.count());
  }
  command->device =
      static_cast<char*>(arena_.data()) + event.range.offset.count();
  command->bytes = event.range.bytes;
  return {};
}

Status MemoryExecutor::UploadParameters(const Parameters& parameters) {
  const std::vector<char*> places = ResidentPlaces();
  for (const auto& [block, values] : parameters) {
    const Bytes bytes(std::ssize(values) * std::int64_t{sizeof(float)});
    if (bytes != training_.blocks[block].SizeAt(training_.batch)) {
      return Fail(Code::kInvalidArgument,
                  "'{}' has {} bytes of parameters; {} are accepted",
                  Excerpt(training_.blocks[block].name), bytes.count(),
                  training_.blocks[block].SizeAt(training_.batch).count());
    }
    if (places[block] != nullptr) {
      UCUDNN_RETURN_IF_ERROR(
          device_.Upload(places[block], values.data(), bytes));
    } else {
      std::memcpy(host_ + *host_offsets_[block], values.data(),
                  static_cast<std::size_t>(bytes.count()));
    }
  }
  return {};
}

Result<Parameters> MemoryExecutor::Download() {
  const std::vector<char*> places = ResidentPlaces();
  Parameters parameters;
  for (std::size_t i = 0; i < training_.blocks.size(); ++i) {
    const MemoryBlock& block = training_.blocks[i];
    if (block.kind != BlockKind::kWeight) continue;
    const Bytes bytes = block.SizeAt(training_.batch);
    std::vector<float>& values = parameters[i];
    values.resize(static_cast<std::size_t>(bytes.count()) / sizeof(float));
    if (places[i] != nullptr) {
      UCUDNN_RETURN_IF_ERROR(device_.Download(values.data(), places[i], bytes));
    } else {
      std::memcpy(values.data(), host_ + *host_offsets_[i],
                  static_cast<std::size_t>(bytes.count()));
    }
  }
  return parameters;
}

Result<StepReport> MemoryExecutor::Step(std::span<const float> images,
                                        std::span<const std::int32_t> labels) {
  images_ = images;
  labels_ = labels;
  fresh_.assign(training_.blocks.size(), true);
  StepReport report;
  std::int64_t first = 0;
  double loss = 0;
  for (Round& round : rounds_) {
    for (std::int64_t i = 0; i < round.planned->count; ++i) {
      UCUDNN_RETURN_IF_ERROR(RunRound(round, first, &report, &loss));
      first += round.planned->batch.count();
    }
  }
  ++steps_;
  report.loss =
      loss / static_cast<double>(training_.batch.count() * labels_per_image_);
  return report;
}

const char* MemoryExecutor::InputOf(std::size_t block,
                                    std::int64_t first) const {
  const auto* const data = block == labels_block_
                               ? reinterpret_cast<const char*>(labels_.data())
                               : reinterpret_cast<const char*>(images_.data());
  return data + first * training_.blocks[block].bytes_per_image.count();
}

Status MemoryExecutor::LoadInputs(const Round& round, std::int64_t first) {
  for (const ResidentBlock& resident : plan_.resident) {
    const MemoryBlock& block = training_.blocks[resident.block];
    if (block.kind != BlockKind::kInput) continue;
    UCUDNN_RETURN_IF_ERROR(device_.Upload(
        static_cast<char*>(arena_.data()) + resident.range.offset.count(),
        InputOf(resident.block, first), block.SizeAt(round.planned->batch)));
  }
  return {};
}

Status MemoryExecutor::RunRound(Round& round, std::int64_t first,
                                StepReport* report, double* loss) {
  UCUDNN_RETURN_IF_ERROR(LoadInputs(round, first));
  RoundState state;
  state.batch = round.planned->batch;
  state.first = first;
  state.step = steps_;
  state.loss_scale =
      1.0F / static_cast<float>(training_.batch.count() * labels_per_image_);
  state.rate = options_.rate;
  state.probabilities = static_cast<float*>(probabilities_.data());
  state.fresh = std::move(fresh_);
  UCUDNN_RETURN_IF_ERROR(start_->Set());
  for (Command& command : round.commands) {
    UCUDNN_RETURN_IF_ERROR(RunCommand(round, command, &state));
  }
  fresh_ = std::move(state.fresh);
  UCUDNN_RETURN_IF_ERROR(Finish(round, report));
  UCUDNN_ASSIGN_OR_RETURN(
      const double sum,
      LossOf(round.planned->batch.count() * labels_per_image_));
  *loss += sum;
  return {};
}

Status MemoryExecutor::RunCommand(Round& round, Command& command,
                                  RoundState* state) {
  const MemoryEvent& event = *command.event;
  UCUDNN_RETURN_IF_ERROR(Await(round, command));
  switch (event.op) {
    case EventOp::kAlloc:
    case EventOp::kFree:
      if (options_.poison) {
        UCUDNN_RETURN_IF_ERROR(
            Poison(event.stream, command.device, command.bytes));
      }
      break;
    case EventOp::kCompute:
      UCUDNN_RETURN_IF_ERROR(runner_->Run(event.task, command.blocks,
                                          command.parts, command.device,
                                          command.bytes, state));
      if (options_.poison && command.bytes > Bytes()) {
        UCUDNN_RETURN_IF_ERROR(
            Poison(event.stream, command.device, command.bytes));
      }
      break;
    case EventOp::kOffload:
    case EventOp::kPrefetch:
      UCUDNN_RETURN_IF_ERROR(Copy(command, state->first));
      break;
    case EventOp::kSync:
      break;
  }
  if (!command.signals) return {};
  return event.stream == MemoryStream::kCompute
             ? command.done->Set()
             : queues_.at(event.stream)->Set(*command.done);
}

Status MemoryExecutor::Await(const Round& round, const Command& command) {
  if (command.waits.empty()) return {};
  const MemoryStream stream = command.event->stream;
  if (command.idle) UCUDNN_RETURN_IF_ERROR(command.idle->Set());
  for (const std::size_t wait : command.waits) {
    Event& event = *round.commands[wait].done;
    UCUDNN_RETURN_IF_ERROR(stream == MemoryStream::kCompute
                               ? device_.WaitFor(event)
                               : queues_.at(stream)->WaitFor(event));
  }
  return command.busy ? command.busy->Set() : Status();
}

Status MemoryExecutor::Copy(const Command& command, std::int64_t first) {
  const MemoryEvent& event = *command.event;
  CopyQueue& queue = *queues_.at(event.stream);
  if (event.op == EventOp::kOffload) {
    // The host has the inputs.
    if (command.host == nullptr) return {};
    return queue.Download(command.host, command.device, command.bytes);
  }
  const void* const from =
      command.host != nullptr ? command.host : InputOf(event.block, first);
  return queue.Upload(command.device, from, command.bytes);
}

Status MemoryExecutor::Poison(MemoryStream stream, char* data, Bytes bytes) {
  if (stream == MemoryStream::kCompute) return device_.Fill(data, 0xff, bytes);
  return queues_.at(stream)->Upload(data, poison_.data(), bytes);
}

Status MemoryExecutor::Finish(Round& round, StepReport* report) {
  for (const auto& [stream, queue] : queues_) {
    UCUDNN_RETURN_IF_ERROR(queue->Set(*ends_.at(stream)));
    UCUDNN_RETURN_IF_ERROR(device_.WaitFor(*ends_.at(stream)));
  }
  UCUDNN_RETURN_IF_ERROR(stop_->Set());
  UCUDNN_RETURN_IF_ERROR(device_.Synchronize());
  for (const auto& [stream, queue] : queues_) {
    UCUDNN_RETURN_IF_ERROR(queue->Synchronize());
  }
  UCUDNN_ASSIGN_OR_RETURN(const Nanoseconds time, stop_->Since(*start_));
  report->time += time;
  for (const Command& command : round.commands) {
    if (!command.idle) continue;
    UCUDNN_ASSIGN_OR_RETURN(const Nanoseconds waited,
                            command.busy->Since(*command.idle));
    report->stalls[command.cause] += waited;
  }
  return {};
}

Result<double> MemoryExecutor::LossOf(std::int64_t labels) {
  std::vector<float> probabilities(static_cast<std::size_t>(labels));
  UCUDNN_RETURN_IF_ERROR(
      device_.Download(probabilities.data(), probabilities_.data(),
                       Bytes(labels * std::int64_t{sizeof(float)})));
  double loss = 0;
  for (const float p : probabilities) {
    // At least about the smallest float, so that no loss is infinite; NaN
    // stays.
    loss -= std::log(p < 1e-30F ? 1e-30 : double{p});
  }
  return loss;
}

}  // namespace ucudnn
