#ifndef UCUDNN_CLIENT_CONV_PLANNED_CONVOLUTION_H_
#define UCUDNN_CLIENT_CONV_PLANNED_CONVOLUTION_H_

// Convolutions of a program that brings the stream, the operands and the
// workspace, such as PyTorch. Each is planned on its own by LocalSolver
// (client/dropin/planner), from measurements made on the same device, and then
// enqueued micro-batch by micro-batch.
//
// Thread safe: calls on one device exclude each other.

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/conv_problem.h"
#include "base/plan/plan.h"
#include "base/result.h"
#include "base/units.h"
#include "client/config/environment.h"
#include "client/conv/backend.h"
#include "client/dropin/planner/planner.h"
#include "device/device.h"
#include "device/micro_batches.h"

namespace ucudnn {

class PlannedConvolution;

class ConvDevice : public std::enable_shared_from_this<ConvDevice> {
 public:
  using Kernel = LocalSolver::Kernel;

  // Plans with these environment variables (client/config/dropin_settings.h):
  // UCUDNN_BATCH_SIZE_POLICY, by default adaptive; UCUDNN_CACHE_DIR, whose
  // folder conv/ keeps the measurements; UCUDNN_DETERMINISTIC, as if
  // `deterministic`; UCUDNN_VERBOSE. kInvalidArgument if one is malformed.
  static Result<std::shared_ptr<ConvDevice>> Create(
      std::unique_ptr<ConvBackend> backend, bool deterministic,
      const Environment& environment);

  const DeviceInfo& info() const { return backend_->device().info(); }

  // The fastest plan within `limit`, ready to run. Measures unless the
  // measurements are known: seconds at first. Waits for its own work on the
  // device, so no stream may be captured in the `global` mode meanwhile.
  // Errors of LocalSolver::Plan.
  Result<std::unique_ptr<PlannedConvolution>> Plan(const ConvProblem& problem,
                                                   BatchSize batch,
                                                   Bytes limit);
  // WD: plans for all kernels whose workspaces take at most `total` together.
  Result<std::vector<std::unique_ptr<PlannedConvolution>>> Divide(
      std::span<const Kernel> kernels, Bytes total);

 private:
  friend class PlannedConvolution;
  friend class PreparedNorm;
  ConvDevice(std::unique_ptr<ConvBackend> backend,
             LocalSolver::Options options);
  LocalSolver::Bench Bench();
  Result<std::unique_ptr<PlannedConvolution>> Prepare(KernelPlan plan);

  std::mutex mutex_;  // guards the backend
  const std::unique_ptr<ConvBackend> backend_;
  LocalSolver planner_;
};

class PlannedConvolution {
 public:
  ~PlannedConvolution();
  PlannedConvolution(const PlannedConvolution&) = delete;
  PlannedConvolution& operator=(const PlannedConvolution&) = delete;

  const KernelPlan& plan() const { return plan_; }
  // What Run needs.
  Bytes workspace() const { return plan_.workspace; }

  // Enqueues the convolution on `stream`, as Convolution::Run (device/device.h)
  // on the whole batch; neither allocates on the device nor waits for it, so a
  // GPU's stream may be captured. kInvalidArgument if an operand is null, the
  // workspace too small or not aligned to 64 bytes (CPU) or 256 (GPU), or the
  // stream is of no use.
  Status Run(void* stream, const ConvArgs& args, void* workspace,
             Bytes workspace_size);

 private:
  friend class ConvDevice;
  PlannedConvolution(std::shared_ptr<ConvDevice> device, KernelPlan plan);

  const std::shared_ptr<ConvDevice> device_;
  const KernelPlan plan_;
  const ImageStrides strides_;
  std::vector<std::unique_ptr<Convolution>> convolutions_;
  std::vector<MicroBatchStep> steps_;
};

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_CONV_PLANNED_CONVOLUTION_H_
