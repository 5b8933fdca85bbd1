#ifndef UCUDNN_CLIENT_DROPIN_HANDLE_GPU_SHARE_H_
#define UCUDNN_CLIENT_DROPIN_HANDLE_GPU_SHARE_H_

// State that the cuDNN handles of one GPU context in this process share: the
// planner, the device it measures on and, under UCUDNN_TOTAL_WORKSPACE_SIZE
// (WD), the arena in which each kernel has its own segment.
//
// A kernel that was neither announced (client/dropin/planner/segments.h) nor
// belongs to the network that the job names joins the division when it first
// runs. All segments then move, after the work that uses them has ended.
//
// Thread safe. The context must be current in every call and must not be
// capturing a graph.

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
#include "client/executor/graph_cache.h"
#include "device/cudnn/driver/libraries.h"
#include "device/device.h"

namespace ucudnn::cudnn {

class GpuShare {
 public:
  // The share of a context: created on first request, freed with its last
  // owner. kUnavailable and other errors of OpenCudnnDeviceIn.
  static Result<std::shared_ptr<GpuShare>> Of(CUcontext context,
                                              const DropInSettings& settings);

  // WR; as LocalPlanner.
  using Enqueueing = LocalPlanner::Enqueueing;
  Result<KernelPlan> Plan(const ConvProblem& problem, BatchSize batch,
                          Bytes limit, Enqueueing enqueueing);
  Result<bool> Beats(const KernelPlan& plan, BatchSize batch,
                     const Algorithm& algorithm, Enqueueing enqueueing);

  // How kernels are enqueued as long as their graphs are not given up.
  Enqueueing enqueueing() const { return enqueueing_; }
  // The device memory of the graphs of all handles.
  GraphBudget& graph_budget() { return graph_budget_; }

  // WD.
  using Owner = SegmentTable::Owner;
  struct Segment {
    KernelPlan plan;  // with its offset in the arena
    void* workspace = nullptr;
    Bytes size;
    std::uint64_t epoch = 0;  // valid while epoch() equals this
  };
  // Includes a kernel in the next division, and measures it. Errors of
  // LocalPlanner::Plan.
  Status Announce(const Owner& owner, const LocalPlanner::Kernel& kernel);
  // The owner's segment. If it has none yet, divides again, with all kernels of
  // the named network. `tells_layers`: layers of equal shape are distinguished.
  Result<Segment> SegmentOf(const Owner& owner,
                            const LocalPlanner::Kernel& kernel,
                            bool tells_layers);
  // Changes with every division. Segments do not move while a reader holds
  // `arena_mutex()` shared.
  std::uint64_t epoch() const { return epoch_.load(std::memory_order_acquire); }
  std::shared_mutex& arena_mutex() { return arena_mutex_; }
  // Drops a destroyed handle's kernels.
  void Forget(const void* handle);

  const DropInSettings& settings() const { return planner_.settings(); }

 private:
  GpuShare(const Libraries& libraries, std::unique_ptr<Device> device,
           const DropInSettings& settings);
  LocalPlanner::Bench Bench();
  Status Redivide();
  Result<std::vector<KernelPlan>> Divide(Bytes total);

  const Libraries& libraries_;
  const std::unique_ptr<Device> device_;
  LocalPlanner planner_;
  const Enqueueing enqueueing_;
  GraphBudget graph_budget_;
  // Guards the device and the planner. Locked after arena_mutex_.
  std::mutex device_mutex_;
  std::shared_mutex arena_mutex_;
  std::atomic<std::uint64_t> epoch_ = 1;
  SegmentTable slots_;
  NamedNetwork named_;
  DeviceBuffer arena_;
};

}  // namespace ucudnn::cudnn

#endif  // UCUDNN_CLIENT_DROPIN_HANDLE_GPU_SHARE_H_
