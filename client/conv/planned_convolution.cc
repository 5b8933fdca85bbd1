#include "client/conv/planned_convolution.h"

#include <cstdint>
#include <filesystem>
#include <utility>

#include "base/text.h"
#include "client/config/dropin_settings.h"
#include "client/config/variables.h"
#include "device/accuracy.h"
#include "device/run_checks.h"

namespace ucudnn {
namespace {

Status CheckRequest(const ConvProblem& problem, BatchSize batch, Bytes limit) {
  UCUDNN_RETURN_IF_ERROR(Validate(problem.geometry));
  if (batch < BatchSize(1) || batch > kMaxBatchSize) {
    return Fail(Code::kInvalidArgument,
                "a batch of {} images; 1 to {} is accepted", batch.count(),
                kMaxBatchSize.count());
  }
  if (limit < Bytes()) {
    return Fail(Code::kInvalidArgument,
                "a workspace limit of {} bytes; 0 or more is accepted",
                limit.count());
  }
  return {};
}

Status CheckAlignment(const void* workspace) {
  constexpr std::uintptr_t kAlignment = 64;
  if (reinterpret_cast<std::uintptr_t>(workspace) % kAlignment != 0) {
    return Fail(Code::kInvalidArgument,
                "the workspace is at {}; an address that is a multiple of {} "
                "is accepted",
                workspace, kAlignment);
  }
  return {};
}

}  // namespace

Result<std::shared_ptr<ConvDevice>> ConvDevice::Create(
    std::unique_ptr<ConvBackend> backend, bool deterministic,
    const Environment& environment) {
  UCUDNN_ASSIGN_OR_RETURN(DropInSettings settings,
                          ResolveDropInSettings(environment));
  UCUDNN_ASSIGN_OR_RETURN(const auto policy,
                          ReadVariable(environment, kBatchPolicyVariable));
  settings.policy = policy.value_or(BatchPolicy::kAdaptive);
  settings.deterministic |= deterministic;
  // Limits come with the calls, and the plans from measurements of every API.
  settings.workspace_limit = Bytes();
  settings.total_workspace = Bytes();
  settings.plan_file.clear();
  settings.network_file.clear();
  settings.coordinators.clear();
  if (!settings.cache_dir.empty()) {
    // Other devices measure engines, too, whose results may differ each time.
    settings.cache_dir =
        std::filesystem::path(settings.cache_dir) /
        (settings.deterministic ? "conv-deterministic" : "conv");
  }
  std::string kind = ToString(backend->device().info().kind);
  return std::shared_ptr<ConvDevice>(new ConvDevice(
      std::move(backend),
      {.settings = std::move(settings), .kind = std::move(kind), .ask = {}}));
}

ConvDevice::ConvDevice(std::unique_ptr<ConvBackend> backend,
                       LocalSolver::Options options)
    : backend_(std::move(backend)), planner_(std::move(options)) {}

LocalSolver::Bench ConvDevice::Bench() {
  return [this]() -> Result<Device*> { return &backend_->device(); };
}

Result<std::unique_ptr<PlannedConvolution>> ConvDevice::Plan(
    const ConvProblem& problem, BatchSize batch, Bytes limit) {
  UCUDNN_RETURN_IF_ERROR(CheckRequest(problem, batch, limit));
  const std::lock_guard lock(mutex_);
  UCUDNN_RETURN_IF_ERROR(backend_->UseOwnStream());
  Result<KernelPlan> plan = planner_.Plan(problem, batch, limit, Bench());
  if (plan) return Prepare(*std::move(plan));
  if (plan.error().code == Code::kFailedPrecondition && !plan.error().least) {
    // Only what fits is measured, so the planner knows of nothing else.
    AlgorithmErrors errors;
    UCUDNN_RETURN_IF_ERROR(SuggestWithin(backend_->device(), problem, batch,
                                         limit, kDefaultMaxError, &errors));
  }
  return tl::unexpected<Error>(std::move(plan).error());
}

Result<std::vector<std::unique_ptr<PlannedConvolution>>> ConvDevice::Divide(
    std::span<const Kernel> kernels, Bytes total) {
  for (const Kernel& kernel : kernels) {
    UCUDNN_RETURN_IF_ERROR(CheckRequest(kernel.problem, kernel.batch, total));
  }
  const std::lock_guard lock(mutex_);
  UCUDNN_RETURN_IF_ERROR(backend_->UseOwnStream());
  UCUDNN_ASSIGN_OR_RETURN(auto plans, planner_.Divide(kernels, total, Bench()));
  std::vector<std::unique_ptr<PlannedConvolution>> prepared;
  for (KernelPlan& plan : plans) {
    UCUDNN_ASSIGN_OR_RETURN(prepared.emplace_back(), Prepare(std::move(plan)));
  }
  return prepared;
}

Result<std::unique_ptr<PlannedConvolution>> ConvDevice::Prepare(
    KernelPlan plan) {
  std::unique_ptr<PlannedConvolution> prepared(
      new PlannedConvolution(shared_from_this(), std::move(plan)));
  const KernelPlan& kept = prepared->plan_;
  for (const MicroBatch& micro : kept.micro_batches) {
    UCUDNN_ASSIGN_OR_RETURN(
        auto convolution, backend_->device().Prepare(*kept.problem, micro.batch,
                                                     micro.algorithm));
    if (convolution->workspace() > kept.workspace) {
      return Fail(Code::kFailedPrecondition,
                  "{} on {} images needs {}; the plan has {} for it",
                  micro.algorithm.name, micro.batch.count(),
                  FormatBytes(convolution->workspace()),
                  FormatBytes(kept.workspace));
    }
    prepared->steps_.push_back(
        {convolution.get(), micro.batch.count(), micro.count});
    prepared->convolutions_.push_back(std::move(convolution));
  }
  return prepared;
}

PlannedConvolution::PlannedConvolution(std::shared_ptr<ConvDevice> device,
                                       KernelPlan plan)
    : device_(std::move(device)),
      plan_(std::move(plan)),
      strides_(PackedStrides(*plan_.problem)) {}

PlannedConvolution::~PlannedConvolution() {
  const std::lock_guard lock(device_->mutex_);
  convolutions_.clear();
}

Status PlannedConvolution::Run(void* stream, const ConvArgs& args,
                               void* workspace, Bytes workspace_size) {
  UCUDNN_RETURN_IF_ERROR(
      CheckRun(args, workspace, workspace_size, this->workspace()));
  if (this->workspace() > Bytes()) {
    UCUDNN_RETURN_IF_ERROR(CheckAlignment(workspace));
  }
  const std::lock_guard lock(device_->mutex_);
  UCUDNN_RETURN_IF_ERROR(device_->backend_->UseStream(stream));
  MicroBatchProgress progress;
  return RunSteps(steps_, strides_, args, workspace, workspace_size, &progress);
}

}  // namespace ucudnn
