#include "client/training/memory_executor.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "base/text.h"
#include "solver/check/memory_plan.h"

namespace ucudnn {
namespace {

// What a first copy in each direction moves.
constexpr Bytes kFirstCopy{256};

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
  UCUDNN_RETURN_IF_ERROR(executor->AllocateMemory(host));
  UCUDNN_RETURN_IF_ERROR(executor->MakeQueues());
  const std::vector<GradientBucket> buckets =
      options.exchange != nullptr ? GradientBuckets(training)
                                  : std::vector<GradientBucket>();
  const RoundContext context = {
      .device = device,
      .runner = *executor->runner_,
      .training = training,
      .plan = plan,
      .arenas = executor->arenas_,
      .time_tasks = options.time_tasks,
      .buckets = buckets,
      .exchanges_statistics = executor->shared_.has_value(),
      .waits_for_statistics =
          executor->shared_ && !options.exchange->stream_ordered(),
      .streams = options.streams};
  for (const MemoryRound& planned : plan.rounds) {
    UCUDNN_ASSIGN_OR_RETURN(executor->rounds_.emplace_back(),
                            PrepareRound(context, planned));
  }
  executor->BeginTrial();
  UCUDNN_RETURN_IF_ERROR(executor->UploadParameters(parameters));
  return executor;
}

void MemoryExecutor::BeginTrial() {
  streams_.asked = options_.streams;
  if (options_.streams == 1) return;
  const bool forks = std::ranges::any_of(rounds_, [](const auto& round) {
    return std::ranges::any_of(round.stretches, [](const Stretch& stretch) {
      return !stretch.after.empty();
    });
  });
  if (!device_.can_fork()) {
    streams_.why = fmt::format("{} runs one task at a time", device_.info().id);
  } else if (options_.poison || options_.graph_memory == Bytes()) {
    streams_.why = "nothing is captured";
  } else if (options_.time_tasks) {
    streams_.why = "tasks are timed one by one";
  } else if (!forks) {
    streams_.why = "no two tasks may run at once";
  } else {
    streams_.why = "there were too few steps to try more";
    tries_ = true;
  }
}

Status MemoryExecutor::Check() const {
  if (const Status valid = ValidateMemoryPlan(plan_, training_); !valid) {
    return Fail(Code::kInvalidArgument, "the plan breaks a rule: {}",
                valid.error().message);
  }
  UCUDNN_RETURN_IF_ERROR(CheckRounds());
  if (options_.exchange != nullptr) UCUDNN_RETURN_IF_ERROR(CheckExchange());
  const auto kept = [&](const MemoryBlock& block) {
    return block.kind == BlockKind::kMomentum;
  };
  if (options_.momentum != 0 && std::ranges::none_of(training_.blocks, kept)) {
    return Fail(Code::kInvalidArgument,
                "updates have a momentum of {}, and the graph has no blocks "
                "for it; build it with TrainingOptions::momentum",
                options_.momentum);
  }
  return {};
}

bool MemoryExecutor::normalises() const {
  return std::ranges::any_of(operations_, [](const TaskOperation& operation) {
    return operation.what == TaskOperator::kNormalise;
  });
}

Status MemoryExecutor::CheckRounds() const {
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
  if (rounds == 1 || !normalises()) return {};
  if (options_.exchange != nullptr && options_.exchange_statistics) {
    return Fail(Code::kFailedPrecondition,
                "the plan trains {} images in {} rounds, and {} normalises "
                "over the images of all ranks; a plan of one round is accepted",
                training_.batch.count(), rounds, Excerpt(training_.network));
  }
  if (!options_.allow_sub_batch_statistics) {
    return Fail(Code::kFailedPrecondition,
                "the plan trains {} images in {} rounds, and {} normalises "
                "over the images of a round; --batch-statistics rank "
                "accepts statistics of sub-batches",
                training_.batch.count(), rounds, Excerpt(training_.network));
  }
  return {};
}

// Ranks may have different plans, and exchange in the order of the graph.
Status MemoryExecutor::CheckExchange() const {
  for (const MemoryRound& round : plan_.rounds) {
    std::set<std::size_t> ran;
    std::size_t last = 0;
    for (const MemoryEvent& event : round.events) {
      if (event.op != EventOp::kCompute || !ran.insert(event.task).second ||
          operations_[event.task].what != TaskOperator::kNormalise) {
        continue;
      }
      if (event.task < last) {
        return Fail(Code::kFailedPrecondition,
                    "the plan runs task '{}' before '{}'; ranks exchange "
                    "statistics in the order of the network",
                    Excerpt(training_.tasks[last].name, 200),
                    Excerpt(training_.tasks[event.task].name, 200));
      }
      last = event.task;
    }
  }
  return {};
}

Status MemoryExecutor::AllocateMemory(DeviceBuffer* host) {
  UCUDNN_ASSIGN_OR_RETURN(
      arenas_, MemoryArenas::Allocate(device_, training_, plan_, host));
  for (const TaskOperation& operation : operations_) {
    if (operation.labels) labels_block_ = *operation.labels;
  }
  labels_per_image_ = training_.blocks[labels_block_].bytes_per_image.count() /
                      std::int64_t{sizeof(std::int32_t)};
  BatchSize largest(1);
  for (const MemoryRound& round : plan_.rounds) {
    largest = std::max(largest, round.batch);
  }
  Bytes largest_block;
  for (std::size_t i = 0; i < training_.blocks.size(); ++i) {
    const MemoryBlock& block = training_.blocks[i];
    largest_block = std::max(largest_block, block.SizeAt(largest));
    if (block.kind == BlockKind::kInput && i != labels_block_) {
      inputs_[i] = {images_, block.bytes_per_image};
      images_ += block.SizeAt(training_.batch);
    }
  }
  UCUDNN_ASSIGN_OR_RETURN(
      probabilities_,
      device_.Allocate(Bytes(largest.count() * labels_per_image_ *
                             std::int64_t{sizeof(float)})));
  if (options_.exchange != nullptr && options_.exchange_statistics &&
      normalises()) {
    UCUDNN_ASSIGN_OR_RETURN(
        shared_, SharedStatistics::Create(device_, operations_, mini_batch(),
                                          *options_.exchange));
  }
  if (!options_.poison) return {};
  UCUDNN_ASSIGN_OR_RETURN(poison_, device_.AllocateHost(largest_block));
  std::memset(poison_.data(), 0xff,
              static_cast<std::size_t>(poison_.size().count()));
  return device_.Fill(arenas_.At(Bytes()), 0xff, arena());
}

Status MemoryExecutor::MakeQueues() {
  UCUDNN_ASSIGN_OR_RETURN(start_, device_.MakeEvent());
  UCUDNN_ASSIGN_OR_RETURN(stop_, device_.MakeEvent());
  UCUDNN_ASSIGN_OR_RETURN(passed_, device_.MakeEvent());
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
  char* const host = arenas_.host();
  if (host == nullptr) return {};
  // A link that does not work shows here.
  char* const arena = arenas_.At(Bytes());
  const Bytes size = std::min(kFirstCopy, host_arena());
  for (const auto& [stream, queue] : queues_) {
    const auto copy = [&, q = queue.get()]() -> Status {
      UCUDNN_RETURN_IF_ERROR(q->Download(host, arena, size));
      UCUDNN_RETURN_IF_ERROR(q->Upload(arena, host, size));
      return q->Synchronize();
    };
    if (Status copied = copy(); !copied) {
      return Within(fmt::format("a first copy in stream {}", Name(stream)),
                    std::move(copied).error());
    }
  }
  return {};
}

Status MemoryExecutor::UploadParameters(const Parameters& parameters) {
  const std::vector<char*> places = arenas_.ResidentPlaces(plan_);
  for (std::size_t i = 0; i < training_.blocks.size(); ++i) {
    const MemoryBlock& block = training_.blocks[i];
    if (!block.persistent) continue;
    const auto values = parameters.find(i);
    const Bytes bytes(values == parameters.end()
                          ? 0
                          : std::ssize(values->second) *
                                std::int64_t{sizeof(float)});
    if (bytes != block.bytes) {
      return Fail(Code::kInvalidArgument,
                  "'{}' has {} bytes of parameters; {} are accepted",
                  Excerpt(block.name), bytes.count(), block.bytes.count());
    }
    if (places[i] != nullptr) {
      UCUDNN_RETURN_IF_ERROR(
          device_.Upload(places[i], values->second.data(), bytes));
    } else {
      std::memcpy(arenas_.HostPlaceOf(i), values->second.data(),
                  static_cast<std::size_t>(bytes.count()));
    }
  }
  return {};
}

Result<Parameters> MemoryExecutor::Download() {
  const std::vector<char*> places = arenas_.ResidentPlaces(plan_);
  Parameters parameters;
  for (std::size_t i = 0; i < training_.blocks.size(); ++i) {
    const MemoryBlock& block = training_.blocks[i];
    if (!block.persistent) continue;
    const Bytes bytes = block.SizeAt(training_.batch);
    std::vector<float>& values = parameters[i];
    values.resize(static_cast<std::size_t>(bytes.count()) / sizeof(float));
    if (places[i] != nullptr) {
      UCUDNN_RETURN_IF_ERROR(device_.Download(values.data(), places[i], bytes));
    } else {
      std::memcpy(values.data(), arenas_.HostPlaceOf(i),
                  static_cast<std::size_t>(bytes.count()));
    }
  }
  return parameters;
}

Status MemoryExecutor::Redraw(const TrainingGraph& training,
                              std::vector<TaskOperation> operations) {
  const auto fits = [](const MemoryBlock& drawn, const MemoryBlock& planned) {
    return drawn.bytes <= planned.bytes &&
           drawn.bytes_per_image <= planned.bytes_per_image;
  };
  const auto same = [](const Task& a, const Task& b) {
    return a.name == b.name && a.reads == b.reads && a.writes == b.writes;
  };
  if (!std::ranges::equal(training.blocks, training_.blocks, fits) ||
      !std::ranges::equal(training.tasks, training_.tasks, same) ||
      options_.graph_memory > Bytes()) {
    return Fail(Code::kInvalidArgument,
                "a draw of another network than {}, or one whose tasks may be "
                "captured",
                Excerpt(training_.network));
  }
  operations_ = std::move(operations);
  runner_->Replace(operations_);
  for (auto& [block, input] : inputs_) {
    input.each = training.blocks[block].bytes_per_image;
  }
  for (PreparedRound& round : rounds_) {
    for (Command& command : round.commands) {
      const MemoryEvent& event = *command.event;
      if (event.op != EventOp::kCompute) continue;
      UCUDNN_ASSIGN_OR_RETURN(command.parts,
                              runner_->Prepare(event.task, round.planned->batch,
                                               event.parts, event.range.bytes));
    }
  }
  return {};
}

Result<TrainingBatch> MemoryExecutor::MakeBatch() {
  const Bytes images = images_;
  const Bytes labels = training_.blocks[labels_block_].SizeAt(training_.batch);
  TrainingBatch batch;
  auto memory = device_.AllocateHost(images + labels);
  if (!memory) {
    return Within(fmt::format("{} of host memory for a mini-batch",
                              HumanBytes(images + labels)),
                  std::move(memory).error());
  }
  batch.memory = *std::move(memory);
  auto* const data = static_cast<char*>(batch.memory.data());
  batch.images = {reinterpret_cast<float*>(data),
                  static_cast<std::size_t>(images.count()) / sizeof(float)};
  batch.labels = {
      reinterpret_cast<std::int32_t*>(data + images.count()),
      static_cast<std::size_t>(labels.count()) / sizeof(std::int32_t)};
  return batch;
}

}  // namespace ucudnn
