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
// Work that comes again with the same operands is captured once and replayed,
// on devices that can (Device::Capture): a whole iteration by RunAll, each
// kernel by Run. It is captured anew when its operands or the kernel change.
// What cannot be captured, or does not fit into ExecutorOptions::graph_memory,
// is enqueued micro-batch by micro-batch as before; graphs() reports it.
//
// Create prepares and allocates everything: Run neither allocates nor
// synchronises unless it captures or falls back. All kernels share the arena,
// which is safe because the device runs them in order. Used by one thread at a
// time, like its device, which must outlive it. Operands of captured work must
// stay allocated only as long as they are passed to Run.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/plan/plan.h"
#include "base/result.h"
#include "client/config/variables.h"
#include "client/executor/graph_cache.h"
#include "device/device.h"
#include "device/micro_batches.h"

namespace ucudnn {

struct ExecutorOptions {
  // The device memory that captured work may take; 0: nothing is captured.
  Bytes graph_memory = kDefaultGraphMemory;
};

class Executor {
 public:
  // A kernel that does not run as planned.
  struct Fallback {
    std::size_t kernel = 0;  // index in the plan
    Error why;
    std::string instead;  // the algorithm that runs now, as text
  };

  // How much of the work is replayed.
  struct GraphUse {
    std::size_t graphs = 0;      // kept now
    std::uint64_t replayed = 0;  // calls of Run and RunAll
    Bytes memory;                // that capturing took
    std::string problem;         // why something is not captured; may be empty
  };

  // Prepares every kernel of `plan` and allocates the arena: the largest
  // workspace or, if the plan assigns offsets, the end of the last segment.
  // Offsets are rounded up to 256 bytes. kInvalidArgument if the plan is not
  // valid (base/plan/plan.h) or a kernel has no problem; kFailedPrecondition if
  // a kernel must fall back but no algorithm fits within the plan's limit;
  // kResourceExhausted if memory does not suffice even for the smallest
  // algorithms.
  static Result<std::unique_ptr<Executor>> Create(
      Device& device, const WorkspacePlan& plan,
      const ExecutorOptions& options = {});

  std::size_t size() const { return kernels_.size(); }
  // The kernel as it runs now: as planned, or its fallback.
  const KernelPlan& kernel(std::size_t index) const;
  const std::vector<Fallback>& fallbacks() const { return fallbacks_; }
  GraphUse graphs() const;

  // Enqueues kernel `index` for the plan's whole batch. The operands are those
  // of the kernel's problem (ConvArgs in device/device.h): for a transposed
  // layer, the problem's operation defines them, not the layer's. kOutOfRange
  // if `index` is not below size().
  Status Run(std::size_t index, const ConvArgs& args);

  // Enqueues all kernels in order, kernel i with the operands args(i). Stops at
  // the first error.
  template <class ArgsOf>
  Status RunAll(ArgsOf&& args) {
    for (std::size_t i = 0; i < size(); ++i) args_[i] = args(i);
    return RunIteration();
  }

 private:
  struct Prepared {
    KernelPlan plan;
    ImageStrides strides;
    std::int64_t offset = 0;  // of its workspace in the arena
    std::vector<MicroBatchStep> steps;
    bool fell_back = false;
    // A call site passes few sets of operands; backward_data's beta may differ.
    GraphCache<CapturedWork> graphs{4};
  };
  using CacheKey = std::tuple<ConvProblem, BatchSize, Algorithm>;

  Executor(Device& device, const ExecutorOptions& options)
      : device_(device),
        budget_(options.graph_memory),
        captures_(options.graph_memory > Bytes()) {}
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
  // Enqueues kernel `index` micro-batch by micro-batch; falls back if one
  // fails.
  Status Enqueue(std::size_t index, const ConvArgs& args);
  // The same without falling back.
  Status EnqueueSteps(const Prepared& kernel, const ConvArgs& args,
                      MicroBatchProgress* done);
  // RunAll with args_.
  Status RunIteration();
  // Replays the kernel, or all kernels with args_, after capturing them if it
  // is time; false if they are to be enqueued.
  Result<bool> TryReplay(std::size_t index, const ConvArgs& args);
  Result<bool> TryReplayIteration();
  // Captures `work`; null if it is to be enqueued directly. kDataLoss if the
  // device is lost.
  Result<std::unique_ptr<CapturedWork>> Capture(
      const std::function<Status()>& work,
      std::unique_ptr<CapturedWork> replaced);
  // Replays `work`; false if nothing was enqueued, because the device refused.
  // kDataLoss if it is lost.
  Result<bool> Replay(CapturedWork& work);
  // Drops the kernel's captured work.
  void Forget(Prepared* kernel);
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

  GraphBudget budget_;
  bool captures_;
  std::uint64_t replayed_ = 0;
  std::string graph_problem_;
  // The operands of this RunAll and the one before, what was captured with the
  // latter, if anything, and with others before.
  std::vector<ConvArgs> args_;
  std::vector<ConvArgs> last_args_;
  std::unique_ptr<CapturedWork> iteration_;
  std::unique_ptr<CapturedWork> stale_iteration_;
  bool captures_iteration_ = true;
};

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_EXECUTOR_EXECUTOR_H_
