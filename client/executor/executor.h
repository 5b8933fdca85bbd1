#ifndef UCUDNN_CLIENT_EXECUTOR_EXECUTOR_H_
#define UCUDNN_CLIENT_EXECUTOR_EXECUTOR_H_

// Runs the kernels of one rank's plan on its device, one micro-batch after the
// other, in one workspace arena.
//
//   UCUDNN_ASSIGN_OR_RETURN(auto executor, Executor::Create(device, plan));
//   for (std::size_t k = 0; k < executor->size(); ++k) {
//     executor->Run(k, {.a = x, .b = w, .out = y});
//   }
//
// A micro-batch is a range of the caller's tensors, addressed by an offset;
// micro-batches run in the plan's order. The result equals the undivided
// convolution's up to rounding: backward_filter applies the caller's beta to
// its first micro-batch and accumulates the others.
//
// The executor does not make a job fail: if the device rejects a kernel's
// algorithm, or it fails before its work is enqueued, the rest of the batch
// runs undivided with an algorithm that the device suggests and that fits, now
// and from then on. fallbacks() lists these kernels. The caller sees an error
// only if that fails too.
//
// Create prepares and allocates everything: Run neither allocates nor
// synchronises unless it falls back. All kernels share the arena, which is safe
// because the device runs them in order. Used by one thread at a time, like its
// device, which must outlive it.

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/plan/plan.h"
#include "base/result.h"
#include "client/executor/micro_batches.h"
#include "device/device.h"

namespace ucudnn {

class Executor {
 public:
  // A kernel that does not run as planned.
  struct Fallback {
    std::size_t kernel = 0;  // index in the plan
    Error why;
    std::string instead;  // the algorithm that runs now, as text
  };

  // Prepares every kernel of `plan` and allocates the arena: the largest
  // workspace or, if the plan assigns offsets, the end of the last segment.
  // Offsets are rounded up to 256 bytes. kInvalidArgument if the plan is not
  // valid (base/plan/plan.h) or a kernel has no problem; kFailedPrecondition if
  // a kernel must fall back but no algorithm fits within the plan's limit;
  // kResourceExhausted if memory does not suffice even for the smallest
  // algorithms.
  static Result<std::unique_ptr<Executor>> Create(Device& device,
                                                  const WorkspacePlan& plan);

  std::size_t size() const { return kernels_.size(); }
  // The kernel as it runs now: as planned, or its fallback.
  const KernelPlan& kernel(std::size_t index) const;
  Bytes arena_size() const { return arena_.size(); }
  const std::vector<Fallback>& fallbacks() const { return fallbacks_; }

  // Enqueues kernel `index` for the plan's whole batch. The operands are those
  // of the kernel's problem (ConvArgs in device/device.h): for a transposed
  // layer, the problem's operation defines them, not the layer's. kOutOfRange
  // if `index` is not below size().
  Status Run(std::size_t index, const ConvArgs& args);

  // Enqueues all kernels in order, kernel i with the operands args(i). Stops at
  // the first error.
  template <class ArgsOf>
  Status RunAll(ArgsOf&& args) {
    for (std::size_t i = 0; i < size(); ++i) {
      UCUDNN_RETURN_IF_ERROR(Run(i, args(i)));
    }
    return {};
  }

 private:
  struct Prepared {
    KernelPlan plan;
    ImageStrides strides;
    std::int64_t offset = 0;  // of its workspace in the arena
    std::vector<MicroBatchStep> steps;
    bool fell_back = false;
  };
  using CacheKey = std::tuple<ConvProblem, BatchSize, Algorithm>;

  explicit Executor(Device& device) : device_(device) {}
  Result<Convolution*> Prepare(const ConvProblem& problem, BatchSize batch,
                               const Algorithm& algorithm);
  Status PrepareSteps(Prepared* kernel);
  Status AllocateArena();
  // The first suggestion for `batch` images that fits into `limit` and can be
  // prepared. `avoid`, which failed, is tried last.
  Result<MicroBatch> Undivided(const ConvProblem& problem, BatchSize batch,
                               Bytes limit, const Algorithm& avoid);
  // Replaces the kernel by an undivided one within `limit`, because `avoid`
  // failed.
  Status FallBack(std::size_t index, Bytes limit, const Algorithm& avoid,
                  Error why);
  // The start of the kernel's workspace, and the space from there to the
  // arena's end.
  std::pair<void*, Bytes> WorkspaceOf(const Prepared& kernel) const;

  Device& device_;
  BatchSize batch_;
  Bytes limit_;
  // Kernels of equal shape share prepared convolutions.
  std::map<CacheKey, std::unique_ptr<Convolution>> convolutions_;
  std::vector<Prepared> kernels_;
  DeviceBuffer arena_;
  std::vector<Fallback> fallbacks_;
};

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_EXECUTOR_EXECUTOR_H_
