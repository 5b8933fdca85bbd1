#include "client/executor/executor.h"

#include <algorithm>
#include <utility>

namespace ucudnn {
namespace {

constexpr Bytes kAlignment = 256_B;

}  // namespace

Result<std::unique_ptr<Executor>> Executor::Create(
    Device& device, const WorkspacePlan& plan, const ExecutorOptions& options) {
  UCUDNN_RETURN_IF_ERROR(Validate(plan));
  std::unique_ptr<Executor> executor(new Executor(device, options));
  executor->batch_ = plan.batch;
  executor->limit_ = plan.workspace_limit;
  executor->kernels_.resize(plan.kernels.size());
  executor->args_.resize(plan.kernels.size());
  for (std::size_t i = 0; i < plan.kernels.size(); ++i) {
    Prepared& kernel = executor->kernels_[i];
    kernel.plan = plan.kernels[i];
    if (!kernel.plan.problem) {
      return Fail(Code::kInvalidArgument,
                  "{}: the plan does not tell its problem",
                  KernelName(kernel.plan));
    }
    kernel.strides = PackedStrides(*kernel.plan.problem);
    kernel.offset =
        RoundUp(kernel.plan.offset.value_or(Bytes(0)), kAlignment).count();
    if (Status prepared = executor->PrepareSteps(&kernel); !prepared) {
      UCUDNN_RETURN_IF_ERROR(executor->FallBack(i, plan.workspace_limit, {},
                                                std::move(prepared).error()));
    }
  }
  UCUDNN_RETURN_IF_ERROR(executor->AllocateArena());
  return executor;
}

const KernelPlan& Executor::kernel(std::size_t index) const {
  UCUDNN_CHECK(index < kernels_.size());
  return kernels_[index].plan;
}

Result<Convolution*> Executor::Prepare(const ConvProblem& problem,
                                       BatchSize batch,
                                       const Algorithm& algorithm) {
  const CacheKey key(problem, batch, algorithm);
  const auto known = convolutions_.find(key);
  if (known != convolutions_.end()) return known->second.get();
  UCUDNN_ASSIGN_OR_RETURN(std::unique_ptr<Convolution> convolution,
                          device_.Prepare(problem, batch, algorithm));
  return convolutions_.emplace(key, std::move(convolution)).first->second.get();
}

Status Executor::PrepareSteps(Prepared* kernel) {
  std::vector<MicroBatchStep> steps;
  for (const MicroBatch& micro : kernel->plan.micro_batches) {
    UCUDNN_ASSIGN_OR_RETURN(
        Convolution * convolution,
        Prepare(*kernel->plan.problem, micro.batch, micro.algorithm));
    if (convolution->workspace() > kernel->plan.workspace) {
      return Fail(Code::kFailedPrecondition,
                  "{} on {} images needs {}; the plan gives it {}",
                  micro.algorithm.name, micro.batch.count(),
                  FormatBytes(convolution->workspace()),
                  FormatBytes(kernel->plan.workspace));
    }
    steps.push_back({convolution, micro.batch.count(), micro.count});
  }
  kernel->steps = std::move(steps);
  return {};
}

Status Executor::AllocateArena() {
  const auto end = [](const Prepared& kernel) {
    return Bytes(kernel.offset) + kernel.plan.workspace;
  };
  for (;;) {
    Bytes size;
    for (const Prepared& kernel : kernels_) size = std::max(size, end(kernel));
    if (size == Bytes(0)) return {};
    Result<DeviceBuffer> arena = device_.Allocate(size);
    if (arena) {
      arena_ = *std::move(arena);
      return {};
    }
    // With half the limit, kernels that need more fall back; repeat until it
    // fits.
    limit_ = size / 2;
    for (std::size_t i = 0; i < kernels_.size(); ++i) {
      if (end(kernels_[i]) <= limit_) continue;
      UCUDNN_RETURN_IF_ERROR(FallBack(i, limit_, {}, arena.error()));
    }
  }
}

Result<MicroBatch> Executor::Undivided(const ConvProblem& problem,
                                       BatchSize batch, Bytes limit,
                                       const Algorithm& avoid) {
  UCUDNN_ASSIGN_OR_RETURN(std::vector<Candidate> candidates,
                          device_.SuggestAlgorithms(problem, batch));
  std::stable_partition(
      candidates.begin(), candidates.end(),
      [&](const Candidate& c) { return c.algorithm != avoid; });
  Error error{Code::kFailedPrecondition, ""};
  Bytes smallest = Bytes::Max();
  for (const Candidate& candidate : candidates) {
    smallest = std::min(smallest, candidate.workspace);
    if (candidate.workspace > limit) continue;
    const Result<Convolution*> prepared =
        Prepare(problem, batch, candidate.algorithm);
    if (prepared) {
      return MicroBatch{.batch = batch,
                        .count = 1,
                        .algorithm = candidate.algorithm,
                        .time = Nanoseconds(0),
                        .workspace = (*prepared)->workspace()};
    }
    error = prepared.error();
  }
  if (error.message.empty()) {
    error.message = candidates.empty()
                        ? std::string("the device has no algorithm for it")
                        : fmt::format(
                              "nothing undivided fits into {}; the smallest "
                              "needs {}",
                              FormatBytes(limit), FormatBytes(smallest));
  }
  return tl::unexpected<Error>(std::move(error));
}

Status Executor::FallBack(std::size_t index, Bytes limit,
                          const Algorithm& avoid, Error why) {
  Prepared& kernel = kernels_[index];
  Result<MicroBatch> whole =
      Undivided(*kernel.plan.problem, batch_, limit, avoid);
  if (!whole) {
    Error error = std::move(whole).error();
    error.message =
        fmt::format("{}: {}; and undivided: {}", KernelName(kernel.plan),
                    why.message, error.message);
    return tl::unexpected<Error>(std::move(error));
  }
  fallbacks_.push_back({index, std::move(why), whole->algorithm.name});
  kernel.fell_back = true;
  kernel.offset = 0;
  kernel.plan.offset.reset();
  kernel.plan.time = Nanoseconds(0);
  kernel.plan.workspace = whole->workspace;
  kernel.plan.micro_batches = {*std::move(whole)};
  Forget(&kernel);
  return PrepareSteps(&kernel);
}

std::pair<void*, Bytes> Executor::WorkspaceOf(const Prepared& kernel) const {
  if (arena_.data() == nullptr) return {nullptr, Bytes(0)};
  return {static_cast<char*>(arena_.data()) + kernel.offset,
          arena_.size() - Bytes(kernel.offset)};
}

Executor::GraphUse Executor::graphs() const {
  GraphUse use{.graphs = iteration_ == nullptr ? std::size_t{0} : 1,
               .replayed = replayed_,
               .memory = budget_.taken(),
               .problem = graph_problem_};
  for (const Prepared& kernel : kernels_) use.graphs += kernel.graphs.size();
  return use;
}

Status Executor::Run(std::size_t index, const ConvArgs& args) {
  if (index >= kernels_.size()) {
    return Fail(Code::kOutOfRange, "kernel {} of a plan that has {}", index,
                kernels_.size());
  }
  UCUDNN_ASSIGN_OR_RETURN(const bool replayed, TryReplay(index, args));
  return replayed ? Status() : Enqueue(index, args);
}

Result<bool> Executor::TryReplay(std::size_t index, const ConvArgs& args) {
  Prepared& kernel = kernels_[index];
  const GraphKey key = {args, nullptr};
  CapturedWork* work = kernel.graphs.Find(key);
  if (work == nullptr) {
    if (!captures_ || !kernel.graphs.Wants(key)) return false;
    const auto enqueue = [&] {
      MicroBatchProgress done;
      return EnqueueSteps(kernel, args, &done);
    };
    UCUDNN_ASSIGN_OR_RETURN(auto captured,
                            Capture(enqueue, kernel.graphs.TakeStale()));
    if (captured != nullptr) {
      work = kernel.graphs.Put(key, std::move(captured));
    }
  }
  if (work != nullptr) {
    UCUDNN_ASSIGN_OR_RETURN(const bool replayed, Replay(*work));
    if (replayed) return true;
  }
  kernel.graphs.GiveUp();
  return false;
}

Status Executor::RunIteration() {
  UCUDNN_ASSIGN_OR_RETURN(const bool replayed, TryReplayIteration());
  if (replayed) return {};
  for (std::size_t i = 0; i < kernels_.size(); ++i) {
    UCUDNN_RETURN_IF_ERROR(Run(i, args_[i]));
  }
  return {};
}

Result<bool> Executor::TryReplayIteration() {
  if (!captures_ || !captures_iteration_ || kernels_.empty()) return false;
  if (args_ != last_args_) {
    if (iteration_ != nullptr) stale_iteration_ = std::move(iteration_);
    last_args_ = args_;
    return false;
  }
  if (iteration_ == nullptr) {
    const auto enqueue = [this]() -> Status {
      MicroBatchProgress done;
      for (std::size_t i = 0; i < kernels_.size(); ++i) {
        UCUDNN_RETURN_IF_ERROR(EnqueueSteps(kernels_[i], args_[i], &done));
      }
      return {};
    };
    UCUDNN_ASSIGN_OR_RETURN(iteration_,
                            Capture(enqueue, std::move(stale_iteration_)));
  }
  if (iteration_ != nullptr) {
    UCUDNN_ASSIGN_OR_RETURN(const bool replayed, Replay(*iteration_));
    if (replayed) return true;
  }
  iteration_.reset();
  captures_iteration_ = false;
  return false;
}

Result<std::unique_ptr<CapturedWork>> Executor::Capture(
    const std::function<Status()>& work,
    std::unique_ptr<CapturedWork> replaced) {
  std::unique_ptr<CapturedWork> none;
  if (!budget_.has_room()) {
    captures_ = false;
    graph_problem_ =
        fmt::format("graphs have taken {} of {}", FormatBytes(budget_.taken()),
                    FormatBytes(budget_.most()));
    return none;
  }
  const Bytes known = replaced == nullptr ? Bytes() : replaced->memory();
  auto captured = device_.Capture(work, std::move(replaced));
  if (!captured) {
    graph_problem_ = captured.error().message;
    switch (captured.error().code) {
      case Code::kDataLoss:
        return tl::unexpected<Error>(std::move(captured).error());
      case Code::kUnimplemented:
      case Code::kResourceExhausted:
        captures_ = false;
        break;
      default:
        break;
    }
    return none;
  }
  budget_.Take(std::max((*captured)->memory() - known, Bytes()));
  return captured;
}

Result<bool> Executor::Replay(CapturedWork& work) {
  if (Status status = work.Enqueue(); !status) {
    if (status.error().code == Code::kDataLoss) {
      return tl::unexpected<Error>(std::move(status).error());
    }
    graph_problem_ = std::move(status).error().message;
    return false;
  }
  ++replayed_;
  return true;
}

void Executor::Forget(Prepared* kernel) {
  kernel->graphs.Clear();
  iteration_.reset();
  last_args_.clear();
  captures_iteration_ = true;
}

Status Executor::EnqueueSteps(const Prepared& kernel, const ConvArgs& args,
                              MicroBatchProgress* done) {
  const auto [workspace, size] = WorkspaceOf(kernel);
  return RunSteps(kernel.steps, kernel.strides, args, workspace, size, done);
}

Status Executor::Enqueue(std::size_t index, const ConvArgs& args) {
  Prepared& kernel = kernels_[index];
  MicroBatchProgress done;
  Status status = EnqueueSteps(kernel, args, &done);
  if (status) return status;
  if (kernel.fell_back) {
    return Within(KernelName(kernel.plan), std::move(status).error());
  }
  // What ran stays; the remaining images run undivided.
  const Algorithm failed = kernel.plan.micro_batches[done.step].algorithm;
  UCUDNN_RETURN_IF_ERROR(
      FallBack(index, arena_.size(), failed, std::move(status).error()));
  UCUDNN_ASSIGN_OR_RETURN(
      const MicroBatch rest,
      Undivided(*kernel.plan.problem, BatchSize(batch_.count() - done.images),
                arena_.size(), failed));
  UCUDNN_ASSIGN_OR_RETURN(
      Convolution * convolution,
      Prepare(*kernel.plan.problem, rest.batch, rest.algorithm));
  const auto [workspace, size] = WorkspaceOf(kernel);
  return RunFrom(*convolution, kernel.strides, args, done.images, workspace,
                 size);
}

}  // namespace ucudnn
