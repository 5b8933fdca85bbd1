// How a MemoryExecutor trains a mini-batch.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "base/median.h"
#include "base/text.h"
#include "client/training/memory_executor.h"

namespace ucudnn {

Result<StepReport> MemoryExecutor::Step(const TrainingBatch& batch) {
  batch_ = &batch;
  // All that is captured has run once, so that its code is loaded.
  if (steps_ == 1) {
    UCUDNN_RETURN_IF_ERROR(CaptureRounds(false, &graph_problem_));
    if (tries_) {
      UCUDNN_RETURN_IF_ERROR(CaptureRounds(true, &streams_.why));
      tries_ = captured_forks();
    }
  }
  const bool tries = tries_ && steps_ > 1;
  if (tries) forks_ = steps_ % 2 == 1;
  StepReport report;
  std::int64_t first = 0;
  double loss = 0;
  for (PreparedRound& round : rounds_) {
    for (std::int64_t i = 0; i < round.planned->count; ++i) {
      UCUDNN_RETURN_IF_ERROR(RunRound(round, first, &report, &loss));
      first += round.planned->batch.count();
    }
  }
  ++steps_;
  report.loss =
      loss / static_cast<double>(mini_batch().count() * labels_per_image_);
  if (tries) {
    trials_[forks_].push_back(report.passes);
    if (std::ssize(trials_[1]) == kStreamTrials) EndTrial();
  }
  return report;
}

Result<Evaluation> MemoryExecutor::Evaluate(const TrainingBatch& batch,
                                            BatchSize images) {
  batch_ = &batch;
  Evaluation evaluation;
  std::int64_t first = 0;
  for (PreparedRound& round : rounds_) {
    for (std::int64_t i = 0; i < round.planned->count && first < images.count();
         ++i) {
      UCUDNN_ASSIGN_OR_RETURN(const Command* const loss,
                              RunForward(round, first));
      const std::int64_t count =
          std::min(round.planned->batch.count(), images.count() - first);
      UCUDNN_ASSIGN_OR_RETURN(const double sum,
                              LossOf(count * labels_per_image_));
      UCUDNN_ASSIGN_OR_RETURN(const std::int64_t correct,
                              Correct(*loss, first, count));
      evaluation.loss += sum;
      evaluation.labels += count * labels_per_image_;
      evaluation.correct += correct;
      first += round.planned->batch.count();
    }
  }
  return evaluation;
}

Result<const Command*> MemoryExecutor::RunForward(PreparedRound& round,
                                                  std::int64_t first) {
  UCUDNN_RETURN_IF_ERROR(LoadInputs(round, first));
  RoundState state = StateOf(round, first);
  state.infers = true;
  const std::vector<char*> resident = arenas_.ResidentPlaces(plan_);
  for (std::size_t i = 0; i < round.commands.size(); ++i) {
    const Command& command = round.commands[i];
    if (command.event->op == EventOp::kFree &&
        resident[command.event->block] != nullptr &&
        training_.blocks[command.event->block].persistent) {
      return Fail(Code::kUnimplemented,
                  "the plan moves '{}', which is resident, in its forward "
                  "pass; one whose resident weights stay is accepted",
                  Excerpt(training_.blocks[command.event->block].name, 200));
    }
    UCUDNN_RETURN_IF_ERROR(RunCommand(round, i, state));
    if (command.event->op != EventOp::kCompute ||
        operations_[command.event->task].what != TaskOperator::kLoss) {
      continue;
    }
    UCUDNN_RETURN_IF_ERROR(device_.Synchronize());
    for (const auto& [stream, queue] : queues_) {
      UCUDNN_RETURN_IF_ERROR(queue->Synchronize());
    }
    return &command;
  }
  return Fail(Code::kInvalidArgument, "the plan's round has no loss");
}

Result<std::int64_t> MemoryExecutor::Correct(const Command& loss,
                                             std::int64_t first,
                                             std::int64_t images) {
  const TaskOperation& operation = operations_[loss.event->task];
  const ImageExtent& extent = operation.input;
  std::vector<float> values(
      static_cast<std::size_t>(images * extent.elements()));
  UCUDNN_RETURN_IF_ERROR(device_.Download(
      values.data(), loss.blocks[operation.x.at(0)],
      Bytes(std::ssize(values) * std::int64_t{sizeof(float)})));
  const auto* const labels =
      reinterpret_cast<const std::int32_t*>(InputOf(labels_block_, first));
  std::int64_t correct = 0;
  for (std::int64_t i = 0; i < images * extent.pixels(); ++i) {
    const float* const pixel = values.data() +
                               i / extent.pixels() * extent.elements() +
                               i % extent.pixels();
    std::int64_t best = 0;
    for (std::int64_t c = 1; c < extent.channels; ++c) {
      if (pixel[c * extent.pixels()] > pixel[best * extent.pixels()]) best = c;
    }
    if (best == labels[i]) ++correct;
  }
  return correct;
}

const char* MemoryExecutor::InputOf(std::size_t block,
                                    std::int64_t first) const {
  if (block == labels_block_) {
    return reinterpret_cast<const char*>(batch_->labels.data() +
                                         first * labels_per_image_);
  }
  const Input& input = inputs_.at(block);
  return reinterpret_cast<const char*>(batch_->images.data()) +
         input.first.count() + first * input.each.count();
}

Status MemoryExecutor::LoadInputs(const PreparedRound& round,
                                  std::int64_t first) {
  for (const ResidentBlock& resident : plan_.resident) {
    const MemoryBlock& block = training_.blocks[resident.block];
    if (block.kind != BlockKind::kInput) continue;
    UCUDNN_RETURN_IF_ERROR(device_.Upload(arenas_.At(resident.range.offset),
                                          InputOf(resident.block, first),
                                          block.SizeAt(round.planned->batch)));
  }
  return {};
}

RoundState MemoryExecutor::StateOf(const PreparedRound& round,
                                   std::int64_t first) {
  RoundState state;
  state.batch = round.planned->batch;
  state.first = first;
  state.before = options_.first_image.count();
  state.step = options_.first_step + steps_;
  state.loss_scale =
      1.0F / static_cast<float>(mini_batch().count() * labels_per_image_);
  state.rate = options_.rate;
  state.momentum = options_.momentum;
  state.shared = shared_ ? &*shared_ : nullptr;
  state.probabilities = static_cast<float*>(probabilities_.data());
  state.adds = first > 0;
  return state;
}

Status MemoryExecutor::RunRound(PreparedRound& round, std::int64_t first,
                                StepReport* report, double* loss) {
  UCUDNN_RETURN_IF_ERROR(LoadInputs(round, first));
  const RoundState state = StateOf(round, first);
  const auto begun = std::chrono::steady_clock::now();
  UCUDNN_RETURN_IF_ERROR(start_->Set());
  for (std::size_t i = 0; i < round.commands.size(); ++i) {
    if (i == round.first_update) {
      UCUDNN_RETURN_IF_ERROR(passed_->Set());
      UCUDNN_RETURN_IF_ERROR(options_.exchange->SumGradients(round.buckets));
    }
    UCUDNN_RETURN_IF_ERROR(RunCommand(round, i, state));
  }
  report->enqueue += std::chrono::steady_clock::now() - begun;
  UCUDNN_RETURN_IF_ERROR(Finish(round, report));
  UCUDNN_ASSIGN_OR_RETURN(
      const double sum,
      LossOf(round.planned->batch.count() * labels_per_image_));
  *loss += sum;
  return {};
}

Status MemoryExecutor::RunCommand(PreparedRound& round, std::size_t index,
                                  const RoundState& state) {
  Command& command = round.commands[index];
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
      UCUDNN_RETURN_IF_ERROR(RunCompute(round, index, state));
      break;
    case EventOp::kOffload:
    case EventOp::kPrefetch:
      UCUDNN_RETURN_IF_ERROR(Copy(command, state.first));
      break;
    case EventOp::kSync:
      break;
  }
  if (!command.signals) return {};
  return event.stream == MemoryStream::kCompute
             ? command.done->Set()
             : queues_.at(event.stream)->Set(*command.done);
}

Status MemoryExecutor::RunCompute(PreparedRound& round, std::size_t index,
                                  const RoundState& state) {
  const Command& command = round.commands[index];
  if (command.begin) UCUDNN_RETURN_IF_ERROR(command.begin->Set());
  UCUDNN_ASSIGN_OR_RETURN(const bool replayed, Replay(round, index, state));
  if (!replayed) UCUDNN_RETURN_IF_ERROR(EnqueueTask(command, state));
  if (options_.poison && command.bytes > Bytes()) {
    UCUDNN_RETURN_IF_ERROR(
        Poison(command.event->stream, command.device, command.bytes));
  }
  return command.end ? command.end->Set() : Status();
}

Result<bool> MemoryExecutor::Replay(PreparedRound& round, std::size_t index,
                                    const RoundState& state) {
  const Command& command = round.commands[index];
  if (!command.stretch || state.infers) return false;
  Stretch& stretch = round.stretches[*command.stretch];
  for (const bool forked : {true, false}) {
    auto& work = stretch.captured[forked][state.adds];
    if (work == nullptr || (forked && !forks_)) continue;
    // The first of its tasks enqueued them all.
    if (stretch.commands.front() != index) return true;
    const Status enqueued = work->Enqueue();
    if (enqueued) return true;
    if (enqueued.error().code == Code::kDataLoss) {
      return tl::unexpected<Error>(enqueued.error());
    }
    graph_problem_ = enqueued.error().message;
    work.reset();
  }
  return false;
}

Status MemoryExecutor::EnqueueTask(const Command& command,
                                   const RoundState& state) {
  RoundState here = state;
  here.adds = state.adds || command.adds;
  here.reruns = command.reruns;
  return runner_->Run(command.event->task, command.blocks, command.parts,
                      command.device, command.bytes, here);
}

Status MemoryExecutor::Await(const PreparedRound& round,
                             const Command& command) {
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
  if (!command.begin) return {};
  const MemoryEvent& event = *command.event;
  CopyQueue& queue = *queues_.at(event.stream);
  UCUDNN_RETURN_IF_ERROR(queue.Set(*command.begin));
  if (event.op == EventOp::kOffload) {
    UCUDNN_RETURN_IF_ERROR(
        queue.Download(command.host, command.device, command.bytes));
  } else {
    const void* const from =
        command.host != nullptr ? command.host : InputOf(event.block, first);
    UCUDNN_RETURN_IF_ERROR(queue.Upload(command.device, from, command.bytes));
  }
  return queue.Set(*command.end);
}

Status MemoryExecutor::Poison(MemoryStream stream, char* data, Bytes bytes) {
  if (stream == MemoryStream::kCompute) return device_.Fill(data, 0xff, bytes);
  return queues_.at(stream)->Upload(data, poison_.data(), bytes);
}

Status MemoryExecutor::Finish(PreparedRound& round, StepReport* report) {
  for (const auto& [stream, queue] : queues_) {
    UCUDNN_RETURN_IF_ERROR(queue->Set(*ends_.at(stream)));
    UCUDNN_RETURN_IF_ERROR(device_.WaitFor(*ends_.at(stream)));
  }
  UCUDNN_RETURN_IF_ERROR(stop_->Set());
  if (options_.exchange != nullptr) {
    UCUDNN_RETURN_IF_ERROR(AwaitOnHost(*stop_, *options_.exchange));
  }
  UCUDNN_RETURN_IF_ERROR(device_.Synchronize());
  for (const auto& [stream, queue] : queues_) {
    UCUDNN_RETURN_IF_ERROR(queue->Synchronize());
  }
  UCUDNN_ASSIGN_OR_RETURN(const Nanoseconds time, stop_->Since(*start_));
  report->time += time;
  if (round.first_update) {
    UCUDNN_ASSIGN_OR_RETURN(const Nanoseconds passes, passed_->Since(*start_));
    report->passes += passes;
  } else {
    report->passes += time;
  }
  return AddTimes(round, report);
}

Status MemoryExecutor::AddTimes(const PreparedRound& round,
                                StepReport* report) const {
  for (const Command& command : round.commands) {
    if (command.idle) {
      UCUDNN_ASSIGN_OR_RETURN(const Nanoseconds waited,
                              command.busy->Since(*command.idle));
      report->stalls[command.cause] += waited;
    }
    if (!command.begin) continue;
    UCUDNN_ASSIGN_OR_RETURN(const Nanoseconds took,
                            command.end->Since(*command.begin));
    const MemoryEvent& event = *command.event;
    if (event.op == EventOp::kCompute) {
      report->tasks[event.task] += took;
    } else {
      (event.op == EventOp::kOffload ? report->offloads : report->prefetches) +=
          {1, command.bytes, took};
    }
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

bool MemoryExecutor::captured_forks() const {
  return std::ranges::any_of(rounds_, [](const PreparedRound& round) {
    return std::ranges::any_of(round.stretches, [](const Stretch& stretch) {
      return stretch.captured[true] != Stretch::Captured();
    });
  });
}

CapturedUse MemoryExecutor::captured() const {
  CapturedUse use{.memory = graph_budget_.taken(), .problem = graph_problem_};
  for (const PreparedRound& round : rounds_) {
    for (const Stretch& stretch : round.stretches) {
      for (const Stretch::Captured& captured : stretch.captured) {
        for (const auto& work : captured) use.graphs += work ? 1 : 0;
      }
    }
  }
  return use;
}

Status MemoryExecutor::CaptureRounds(bool forked, std::string* problem) {
  if (options_.poison || options_.graph_memory == Bytes()) return {};
  for (PreparedRound& round : rounds_) {
    const bool is_first = &round == rounds_.data();
    for (const bool adds : {false, true}) {
      if (adds ? is_first && round.planned->count == 1 : !is_first) continue;
      UCUDNN_ASSIGN_OR_RETURN(const bool goes_on,
                              CaptureRound(round, adds, forked, problem));
      if (!goes_on) return {};
    }
  }
  return {};
}

Result<bool> MemoryExecutor::CaptureRound(PreparedRound& round, bool adds,
                                          bool forked, std::string* problem) {
  RoundState state = StateOf(round, 0);
  state.adds = adds;
  for (Stretch& stretch : round.stretches) {
    if (forked ? stretch.after.empty() : !IsWorthCapturing(round, stretch)) {
      continue;
    }
    if (!graph_budget_.has_room()) {
      *problem = fmt::format("graphs have taken {} of {}",
                             HumanBytes(graph_budget_.taken()),
                             HumanBytes(graph_budget_.most()));
      return false;
    }
    auto work = CaptureStretch(round, stretch, state, forked);
    if (!work && work.error().code == Code::kDataLoss) {
      return tl::unexpected<Error>(std::move(work).error());
    }
    if (!work) {
      const Code code = work.error().code;
      *problem = std::move(work).error().message;
      if (code == Code::kUnimplemented || code == Code::kResourceExhausted) {
        return false;
      }
      continue;
    }
    graph_budget_.Take((*work)->memory());
    stretch.captured[forked][adds] = *std::move(work);
  }
  return true;
}

Result<std::unique_ptr<CapturedWork>> MemoryExecutor::CaptureStretch(
    const PreparedRound& round, const Stretch& stretch, const RoundState& state,
    bool forked) {
  const auto enqueue = [&](std::size_t place) {
    return EnqueueTask(round.commands[stretch.commands[place]], state);
  };
  if (!forked) {
    return device_.Capture([&]() -> Status {
      for (std::size_t i = 0; i < stretch.commands.size(); ++i) {
        UCUDNN_RETURN_IF_ERROR(enqueue(i));
      }
      return {};
    });
  }
  std::vector<CapturePart> parts;
  for (std::size_t i = 0; i < stretch.commands.size(); ++i) {
    parts.push_back({[&enqueue, i] { return enqueue(i); }, stretch.after[i]});
  }
  return device_.CaptureParts(parts);
}

void MemoryExecutor::EndTrial() {
  tries_ = false;
  streams_.alone = MedianAndSpreadOf(trials_[0]).median;
  streams_.together = MedianAndSpreadOf(trials_[1]).median;
  const bool works = captured_forks();
  forks_ = works && streams_.together < streams_.alone;
  if (forks_) {
    streams_.kept = streams_.asked;
    streams_.why.clear();
  } else {
    streams_.why = works ? "one at a time is as fast" : graph_problem_;
  }
  // The driver keeps the memory of the others for graphs to come.
  for (PreparedRound& round : rounds_) {
    for (Stretch& stretch : round.stretches) {
      for (const bool adds : {false, true}) {
        if (stretch.captured[true][adds] == nullptr) continue;
        stretch.captured[!forks_][adds].reset();
      }
    }
  }
}

// A graph costs the host as much as an operator, and less than a convolution.
bool MemoryExecutor::IsWorthCapturing(const PreparedRound& round,
                                      const Stretch& stretch) const {
  if (stretch.commands.size() > 1) return true;
  const MemoryEvent& event = *round.commands[stretch.commands[0]].event;
  return operations_[event.task].what == TaskOperator::kConvolution;
}

}  // namespace ucudnn
