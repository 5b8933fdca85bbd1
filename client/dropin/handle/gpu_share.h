#ifndef UCUDNN_CLIENT_DROPIN_HANDLE_GPU_SHARE_H_
#define UCUDNN_CLIENT_DROPIN_HANDLE_GPU_SHARE_H_

// What the cuDNN handles of one GPU context in this process share: the planner,
// the device it measures on and, under UCUDNN_TOTAL_WORKSPACE_SIZE (WD), the
// arena in which each kernel has a segment of its own.
//
// A kernel that nobody announced (local/segments.h), and that is not of the
// network that the job names either, is divided in when it first runs: then all
// segments move, after the work that uses them has ended.
//
// Thread safe. The context is current in every call, and captures nothing.

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

#include "base/plan/plan.h"
#include "base/result.h"
#include "client/dropin/planner/named_network.h"
#include "client/dropin/planner/planner.h"
#include "client/dropin/planner/segments.h"
#include "device/cudnn/driver/libraries.h"
#include "device/device.h"

namespace ucudnn::cudnn {

class GpuShare {
 public:
  // The share of a context, made when it is first asked for and freed with the
  // last who holds it. kUnavailable and others as OpenCudnnDeviceIn.
  static Result<std::shared_ptr<GpuShare>> Of(CUcontext context,
                                              const DropInSettings& settings);

  // WR. LocalPlanner's.
  Result<KernelPlan> Plan(const ConvProblem& problem, BatchSize batch,
                          Bytes limit);
  Result<bool> Beats(const KernelPlan& plan, BatchSize batch,
                     const Algorithm& algorithm);

  // WD.
  using Owner = SegmentTable::Owner;
  struct Segment {
    KernelPlan plan;  // with its offset in the arena
    void* workspace = nullptr;
    Bytes size;
    std::uint64_t epoch = 0;  // holds as long as epoch() is this
  };
  // Takes a kernel into account from the next division on. Measures it.
  // Errors of LocalPlanner::Plan.
  Status Announce(const Owner& owner, const LocalPlanner::Kernel& kernel);
  // The owner's segment; divides anew if it has none yet, with all kernels of
  // the named network. `tells_layers`: layers alike are told apart.
  Result<Segment> SegmentOf(const Owner& owner,
                            const LocalPlanner::Kernel& kernel,
                            bool tells_layers);
  // Changes with every division. Segments hold still while a reader holds
  // `arena_mutex()` shared.
  std::uint64_t epoch() const { return epoch_.load(std::memory_order_acquire); }
  std::shared_mutex& arena_mutex() { return arena_mutex_; }
  // The handle is gone.
  void Forget(const void* handle);

  const DropInSettings& settings() const { return planner_.settings(); }

 private:
  GpuShare(const Libraries& libraries, std::unique_ptr<Device> device,
           const DropInSettings& settings);
  LocalPlanner::Bench Bench();
  Status DivideAnew();
  Result<std::vector<KernelPlan>> Divide(Bytes total);

  const Libraries& libraries_;
  const std::unique_ptr<Device> device_;
  LocalPlanner planner_;
  // Of the device and the planner; taken after arena_mutex_ where both are.
  std::mutex device_mutex_;
  std::shared_mutex arena_mutex_;
  std::atomic<std::uint64_t> epoch_ = 1;
  SegmentTable slots_;
  NamedNetwork named_;
  DeviceBuffer arena_;
};

}  // namespace ucudnn::cudnn

#endif  // UCUDNN_CLIENT_DROPIN_HANDLE_GPU_SHARE_H_
