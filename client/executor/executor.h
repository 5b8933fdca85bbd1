#ifndef UCUDNN_CLIENT_EXECUTOR_EXECUTOR_H_
#define UCUDNN_CLIENT_EXECUTOR_EXECUTOR_H_

// Runs the kernels of one rank's plan on its device, micro-batch by
// micro-batch, in one workspace arena.
//
//   UCUDNN_ASSIGN_OR_RETURN(auto executor, Executor::Create(device, plan));
//   for (std::size_t k = 0; k < executor->size(); ++k) {
//     executor->Run(k, {.a = x, .b = w, .out = y});
//   }
//
// Micro-batches are pointer offsets into the caller's tensors, in the plan's
// order. The result is what the undivided convolution gives, up to rounding:
// backward_filter honours the caller's beta on its first micro-batch and adds
// the others to that.
//
// Never the cause of a failed job: a kernel whose algorithms the device does
// not accept, or that fails before its work is enqueued, runs the rest of its
// batch undivided by what the device suggests and fits, from then on always.
// fallbacks() tells of it; only when that fails too does the caller see an
// error.
//
// Everything is prepared and allocated by Create: Run neither allocates nor
// synchronises unless it falls back. All kernels share the arena, which is
// safe because the device runs them in one order of work. Belongs to one
// thread, as its device does, which must outlive it.

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
  // What was not run as planned, and why.
  struct Fallback {
    std::size_t kernel = 0;  // index in the plan
    Error why;
    std::string instead;  // the algorithm that runs now, for people
  };

  // Prepares every kernel of `plan` and allocates the arena: the largest
  // workspace or, where the plan assigns offsets, the end of the last segment.
  // Offsets are rounded up to 256 bytes. kInvalidArgument if the plan is not
  // valid (base/plan/plan.h) or a kernel has no problem;
  // kFailedPrecondition if a kernel that has to fall back has no algorithm
  // within the plan's limit; kResourceExhausted without memory for even the
  // smallest algorithms.
  static Result<std::unique_ptr<Executor>> Create(Device& device,
                                                  const WorkspacePlan& plan);

  std::size_t size() const { return kernels_.size(); }
  // As it runs now: the plan's, or its fallback's.
  const KernelPlan& kernel(std::size_t index) const;
  Bytes arena_size() const { return arena_.size(); }
  const std::vector<Fallback>& fallbacks() const { return fallbacks_; }

  // Enqueues kernel `index` for the plan's whole batch. The operands are those
  // of the kernel's problem (ConvArgs in device/device.h): in a transposed
  // layer the problem's operation, not the layer's, says what they are.
  // kOutOfRange beyond size().
  Status Run(std::size_t index, const ConvArgs& args);

  // The same for all kernels in order, each with what `args` gives for it.
  // Stops at the first error.
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
  // prepared; `avoid`, which failed, comes last.
  Result<MicroBatch> Undivided(const ConvProblem& problem, BatchSize batch,
                               Bytes limit, const Algorithm& avoid);
  // Makes the kernel undivided within `limit` because `avoid` failed.
  Status FallBack(std::size_t index, Bytes limit, const Algorithm& avoid,
                  Error why);
  // Where the kernel's workspace begins, and how much there is from there on.
  std::pair<void*, Bytes> WorkspaceOf(const Prepared& kernel) const;

  Device& device_;
  BatchSize batch_;
  Bytes limit_;
  // Layers alike share what was prepared for them.
  std::map<CacheKey, std::unique_ptr<Convolution>> convolutions_;
  std::vector<Prepared> kernels_;
  DeviceBuffer arena_;
  std::vector<Fallback> fallbacks_;
};

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_EXECUTOR_EXECUTOR_H_
