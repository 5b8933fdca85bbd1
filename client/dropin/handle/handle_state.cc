#include "client/dropin/handle/handle_state.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

#include "base/plan/prediction.h"
#include "device/cudnn/algorithm_families.h"
#include "device/cudnn/legacy/algorithms.h"

namespace ucudnn::cudnn {
namespace {

// The most divisions kept for one convolution, for different limits or streams.
constexpr std::size_t kMaxPrepared = 16;
// After this many failures a convolution is left to cuDNN for good.
constexpr int kMaxFailures = 3;

// The Algorithm of the program's own call; nullopt if the problem's list, and
// so its measurements, lack it.
std::optional<Algorithm> NameOf(const ConvProblem& problem,
                                const OwnCall& own) {
  // For 16-bit data the two math types mean the same; for float data only one
  // is listed.
  const cudnnMathType_t math =
      own.math == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION &&
              ElementBytes(problem.precision) == 2
          ? CUDNN_TENSOR_OP_MATH
          : own.math;
  const auto algorithms = LegacyAlgorithms(problem.op);
  const auto algorithm =
      std::ranges::find(algorithms, own.algorithm, &LegacyAlgorithm::value);
  const auto maths = LegacyMaths(problem.precision);
  const auto found = std::ranges::find(maths, math, &LegacyMath::type);
  if (algorithm == algorithms.end() || found == maths.end()) return {};
  return Algorithm{std::string(algorithm->name), std::string(found->name),
                   found->precision};
}

}  // namespace

thread_local int ReentrancyGuard::depth_ = 0;

HandleState::HandleState(const Libraries& libraries, cudnnHandle_t handle,
                         CUcontext context, const DropInSettings& settings)
    : libraries_(libraries),
      handle_(CudnnHandle::Wrap(libraries.cudnn, handle)),
      context_(context),
      settings_(settings),
      player_(libraries.driver, *handle_) {}

HandleState::~HandleState() {
  ReportGraphs();
  if (share_ != nullptr && divides_workspace()) {
    share_->Forget(this, &arena_user_);
  }
}

HandleState::Call* HandleState::FindCall(const CallDescriptors& descriptors) {
  CallKey key;
  if (!ReadKey(api(), descriptors, &key)) return nullptr;
  auto found = calls_.find(key);
  if (found == calls_.end()) {
    found = calls_.try_emplace(key).first;
    Call& call = found->second;
    call.number = calls_.size();
    call.is_layer = descriptors.layer != 0;
    if (auto shape = ShapeOf(key)) {
      call.shape = *std::move(shape);
    } else if (settings_.verbose) {
      std::fprintf(stderr, "ucudnn: left to cuDNN: %s\n",
                   shape.error().message.c_str());
    }
  }
  return &found->second;
}

Bytes HandleState::OfferLimit(Bytes most, Bytes own) const {
  return names_limit() ? most
                       : std::min(most, std::max(kDefaultWorkspaceLimit, own));
}

PreparedKernel* HandleState::Find(const CallDescriptors& descriptors,
                                  Bytes most) {
  Call* const known = FindCall(descriptors);
  if (known == nullptr) return nullptr;
  Call& call = *known;
  if (!call.shape || call.failures >= kMaxFailures) return nullptr;
  Bytes limit = Bytes();
  cudaStream_t stream = nullptr;
  if (divides_workspace()) {
    if (api().GetStream(get(), &stream) != CUDNN_STATUS_SUCCESS) return nullptr;
  } else {
    limit = std::min(settings_.workspace_limit.value_or(most), most);
  }
  if (PreparedKernel* kernel = FindPrepared(call, limit, stream)) {
    if (kernel->graphs.given_up() && !kernel->paced) Pace(call, kernel);
    return kernel;
  }
  auto prepared = Prepare(call, limit, stream);
  if (!prepared) {
    Report(call, tl::unexpected<Error>(prepared.error()), nullptr);
    // Nothing can be measured while a graph is being captured; retry later.
    if (prepared.error().code != Code::kAborted) ++call.failures;
    return nullptr;
  }
  Report(call, {}, prepared->get());
  call.prepared.push_back(*std::move(prepared));
  return call.prepared.back().get();
}

bool HandleState::Beats(const CallDescriptors& descriptors,
                        PreparedKernel& kernel, const OwnCall& own) {
  if (names_limit()) return true;
  for (const auto& [other, beats] : kernel.beats) {
    if (other == own) return beats;
  }
  Call* const call = FindCall(descriptors);
  // Nothing can be measured while a graph is being captured; retry later.
  if (call == nullptr || IsCapturing()) return false;
  const ReentrancyGuard guard;
  const RelaxedCapture relaxed(libraries_.driver);
  const auto algorithm = NameOf(call->shape->problem, own);
  Status verdict;
  if (!algorithm) {
    verdict = Fail(Code::kUnimplemented,
                   "algorithm {} with math type {} was not measured",
                   own.algorithm, static_cast<int>(own.math));
  } else if (const auto beats =
                 share_->Beats(kernel.plan, call->shape->batch, *algorithm,
                               kernel.paced ? GpuShare::Enqueueing::kDirect
                                            : share_->enqueueing());
             !beats) {
    verdict = tl::unexpected<Error>(beats.error());
  } else if (!*beats) {
    verdict = Fail(Code::kAborted, "{} {} is as fast undivided",
                   algorithm->name, algorithm->math);
  }
  kernel.beats.emplace_back(own, verdict.has_value());
  if (!verdict) Report(*call, verdict, nullptr);
  return verdict.has_value();
}

PreparedKernel* HandleState::Offered(const CallDescriptors& descriptors) {
  Call* const call = FindCall(descriptors);
  PreparedKernel* last = nullptr;
  if (call == nullptr) return last;
  for (const auto& kernel : call->prepared) {
    if (kernel->offer > (last == nullptr ? 0 : last->offer)) {
      last = kernel.get();
    }
  }
  return last;
}

PreparedKernel* HandleState::FindPrepared(Call& call, Bytes limit,
                                          const void* stream) {
  for (const auto& kernel : call.prepared) {
    if (divides_workspace()) {
      if (kernel->owner.stream == stream) return kernel.get();
      continue;
    }
    // The best division under its limit is the best under every limit between
    // its need and that.
    if (kernel->needed <= limit && limit <= kernel->limit) return kernel.get();
  }
  if (divides_workspace() || call.prepared.size() < kMaxPrepared) {
    return nullptr;
  }
  PreparedKernel* best = nullptr;
  for (const auto& kernel : call.prepared) {
    if (kernel->needed <= limit &&
        (best == nullptr || kernel->plan.time < best->plan.time)) {
      best = kernel.get();
    }
  }
  return best;
}

Result<GpuShare*> HandleState::Share() {
  if (share_ != nullptr) return share_.get();
  if (share_failed_) {
    return Fail(Code::kUnavailable, "the GPU could not be opened before");
  }
  if (context_ == nullptr) {
    UCUDNN_RETURN_IF_ERROR([&]() -> Status {
      if (libraries_.driver.CtxGetCurrent(&context_) == CUDA_SUCCESS &&
          context_ != nullptr) {
        return {};
      }
      return Fail(Code::kAborted, "no CUDA context is current");
    }());
  }
  auto share = GpuShare::Of(context_, settings_);
  if (!share) {
    share_failed_ = true;
    return tl::unexpected<Error>(std::move(share).error());
  }
  share_ = *std::move(share);
  if (divides_workspace()) share_->Register(&arena_user_);
  return share_.get();
}

Result<std::unique_ptr<PreparedKernel>> HandleState::Prepare(
    Call& call, Bytes limit, const void* stream) {
  if (IsCapturing()) {
    return Fail(Code::kAborted, "the stream is being captured");
  }
  if (call.prepared.size() >= kMaxPrepared) {
    return Fail(Code::kResourceExhausted,
                "all {} divisions of one convolution are in use", kMaxPrepared);
  }
  const ReentrancyGuard guard;
  const RelaxedCapture relaxed(libraries_.driver);
  UCUDNN_ASSIGN_OR_RETURN(GpuShare * share, Share());
  auto kernel = std::make_unique<PreparedKernel>();
  const ConvProblem& problem = call.shape->problem;
  kernel->strides = PackedStrides(problem);
  if (!divides_workspace()) {
    kernel->limit = limit;
    if (!names_limit() && limit > kDefaultWorkspaceLimit) {
      // More than any algorithm needs makes no difference; programs may bring
      // all free memory.
      UCUDNN_ASSIGN_OR_RETURN(
          const auto candidates,
          ListConvolutions(*handle_, {}, problem, call.shape->batch));
      const Bytes most =
          std::ranges::max(candidates, {}, &Candidate::workspace).workspace;
      if (most <= limit) {
        kernel->limit = Bytes::Max();
        limit = std::max(most, kDefaultWorkspaceLimit);
      }
    }
    UCUDNN_ASSIGN_OR_RETURN(
        kernel->plan,
        share->Plan(problem, call.shape->batch, limit, share->enqueueing()));
    kernel->needed = kernel->plan.workspace;
    UCUDNN_RETURN_IF_ERROR(PrepareSteps(kernel.get()));
    return kernel;
  }
  // The handle of the per-thread default stream stands for many streams.
  if (stream == reinterpret_cast<const void*>(CU_STREAM_PER_THREAD)) {
    return Fail(Code::kUnimplemented, "the per-thread default stream");
  }
  kernel->owner = {this, call.number, stream};
  kernel->batch = call.shape->batch;
  kernel->is_layer = call.is_layer;
  kernel->plan.problem = problem;
  UCUDNN_RETURN_IF_ERROR(
      share->Announce(kernel->owner, {problem, kernel->batch}));
  return kernel;
}

Status HandleState::PrepareSteps(PreparedKernel* kernel) {
  kernel->convolutions.clear();
  kernel->steps.clear();
  kernel->graphs.Clear();
  for (const MicroBatch& micro : kernel->plan.micro_batches) {
    UCUDNN_ASSIGN_OR_RETURN(auto convolution,
                            PrepareConvolution(*handle_, *kernel->plan.problem,
                                               micro.batch, micro.algorithm));
    if (convolution->workspace() > kernel->plan.workspace) {
      return Fail(Code::kFailedPrecondition,
                  "{} on {} images needs {}; the plan has {} for it",
                  micro.algorithm.name, micro.batch.count(),
                  FormatBytes(convolution->workspace()),
                  FormatBytes(kernel->plan.workspace));
    }
    kernel->steps.push_back(
        {convolution.get(), micro.batch.count(), micro.count});
    kernel->convolutions.push_back(std::move(convolution));
  }
  return {};
}

void HandleState::Pace(const Call& call, PreparedKernel* kernel) {
  // A division of a total is common to all kernels.
  if (divides_workspace() || IsCapturing()) return;
  kernel->paced = true;
  const ReentrancyGuard guard;
  const RelaxedCapture relaxed(libraries_.driver);
  auto plan = share_->Plan(*kernel->plan.problem, call.shape->batch,
                           kernel->needed, GpuShare::Enqueueing::kDirect);
  if (!plan || plan->micro_batches == kernel->plan.micro_batches) return;
  PreparedKernel paced;
  paced.plan = *std::move(plan);
  if (!PrepareSteps(&paced)) return;
  kernel->plan = std::move(paced.plan);
  kernel->convolutions = std::move(paced.convolutions);
  kernel->steps = std::move(paced.steps);
  kernel->beats.clear();
  Report(call, {}, kernel);
}

bool HandleState::IsCapturing() const {
  cudaStream_t stream = nullptr;
  return api().GetStream(get(), &stream) != CUDNN_STATUS_SUCCESS ||
         player_.IsCaptured(stream);
}

Status HandleState::Run(PreparedKernel& kernel, const ConvArgs& args,
                        void* workspace, Bytes workspace_size,
                        MicroBatchProgress* progress) {
  if (divides_workspace()) return RunInSegment(kernel, args, progress);
  const ReentrancyGuard guard;
  return Enqueue(kernel, args, workspace, workspace_size, progress);
}

Status HandleState::Enqueue(PreparedKernel& kernel, const ConvArgs& args,
                            void* workspace, Bytes workspace_size,
                            MicroBatchProgress* progress) {
  const auto enqueue = [&] {
    return RunSteps(kernel.steps, kernel.strides, args, workspace,
                    workspace_size, progress);
  };
  if (share_->enqueueing() == GpuShare::Enqueueing::kReplayed) {
    UCUDNN_ASSIGN_OR_RETURN(const bool launched,
                            player_.Play(kernel.graphs, {args, workspace},
                                         share_->graph_budget(), enqueue));
    if (launched) return {};
  }
  return enqueue();
}

Status HandleState::RunInSegment(PreparedKernel& kernel, const ConvArgs& args,
                                 MicroBatchProgress* progress) {
  *progress = {};
  UCUDNN_ASSIGN_OR_RETURN(const CUstream stream, handle_->stream());
  const ReentrancyGuard guard;
  if (player_.IsCaptured(stream)) {
    return CaptureInSegment(kernel, args, stream, progress);
  }
  if (kernel.captured_by) {
    return Fail(Code::kAborted, "a graph of the program uses its segment");
  }
  for (int attempt = 0; attempt < 4; ++attempt) {
    {
      const ArenaUser::Use use(arena_user_);
      if (kernel.epoch == share_->epoch()) {
        return Enqueue(kernel, args, kernel.segment, kernel.segment_size,
                       progress);
      }
    }
    const RelaxedCapture relaxed(libraries_.driver);
    UCUDNN_ASSIGN_OR_RETURN(
        auto segment,
        share_->SegmentOf(kernel.owner, {*kernel.plan.problem, kernel.batch},
                          kernel.is_layer));
    kernel.plan = std::move(segment.plan);
    kernel.segment = segment.workspace;
    kernel.segment_size = segment.size;
    kernel.epoch = 0;
    UCUDNN_RETURN_IF_ERROR(PrepareSteps(&kernel));
    kernel.epoch = segment.epoch;
  }
  return Fail(Code::kAborted, "the segments kept moving");
}

Status HandleState::CaptureInSegment(PreparedKernel& kernel,
                                     const ConvArgs& args, CUstream stream,
                                     MicroBatchProgress* progress) {
  const auto capture = player_.CaptureOf(stream);
  if (!capture) {
    return Fail(Code::kAborted, "the stream is being captured");
  }
  if (!kernel.captured_by) {
    if (!share_->Freeze(kernel.epoch)) {
      return Fail(Code::kAborted,
                  "it had no segment before the stream was captured");
    }
    kernel.captured_by = capture;
  }
  if (kernel.captured_by != capture) {
    return Fail(Code::kAborted,
                "another graph of the program uses its segment");
  }
  return RunSteps(kernel.steps, kernel.strides, args, kernel.segment,
                  kernel.segment_size, progress);
}

Status HandleState::RunRemaining(PreparedKernel& kernel, const ConvArgs& args,
                                 std::int64_t first, void* workspace,
                                 Bytes workspace_size) {
  const ReentrancyGuard guard;
  std::int64_t batch = 0;
  for (const MicroBatch& micro : kernel.plan.micro_batches) {
    batch += micro.batch.count() * micro.count;
  }
  const BatchSize rest(batch - first);
  const ConvProblem& problem = *kernel.plan.problem;
  if (divides_workspace()) {  // the caller brings no workspace
    workspace = nullptr;
    workspace_size = Bytes();
  }
  UCUDNN_ASSIGN_OR_RETURN(const auto candidates,
                          ListConvolutions(*handle_, {}, problem, rest));
  for (const Candidate& candidate : candidates) {
    if (candidate.workspace > workspace_size) continue;
    auto convolution =
        PrepareConvolution(*handle_, problem, rest, candidate.algorithm);
    if (convolution && RunFrom(**convolution, kernel.strides, args, first,
                               workspace, workspace_size)) {
      return {};
    }
  }
  return Fail(Code::kInternal, "{} of {} images were not computed",
              rest.count(), batch);
}

void HandleState::Report(const Call& call, const Status& status,
                         const PreparedKernel* kernel) const {
  if (!settings_.verbose) return;
  const std::string what = fmt::format(
      "{} batch {}", ToString(call.shape->problem), call.shape->batch.count());
  if (!status) {
    std::fprintf(stderr, "ucudnn: %s: left to cuDNN: %s\n", what.c_str(),
                 status.error().message.c_str());
  } else if (kernel->steps.empty()) {
    std::fprintf(stderr, "ucudnn: %s: a segment of %s\n", what.c_str(),
                 FormatBytes(settings_.total_workspace).c_str());
  } else {
    std::fprintf(stderr, "ucudnn: %s: %s; %s, predicted %s\n", what.c_str(),
                 DivisionText(kernel->plan.micro_batches).c_str(),
                 HumanBytes(kernel->plan.workspace).c_str(),
                 HumanTime(kernel->plan.time).c_str());
  }
}

void HandleState::ReportGraphs() const {
  const GraphPlayer::Use& use = player_.use();
  if (!settings_.verbose || use.captured + use.given_up == 0) return;
  std::fprintf(
      stderr,
      "ucudnn: %llu graphs captured, launched %llu times, %s of %s "
      "taken on this GPU%s%s\n",
      static_cast<unsigned long long>(use.captured),
      static_cast<unsigned long long>(use.launched),
      HumanBytes(share_->graph_budget().taken()).c_str(),
      HumanBytes(settings_.graph_memory).c_str(),
      use.given_up == 0
          ? ""
          : fmt::format("; {} kernels enqueued directly: ", use.given_up)
                .c_str(),
      use.problem.c_str());
}

}  // namespace ucudnn::cudnn
