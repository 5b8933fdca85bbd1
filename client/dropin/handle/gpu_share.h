#ifndef UCUDNN_CLIENT_DROPIN_HANDLE_GPU_SHARE_H_
#define UCUDNN_CLIENT_DROPIN_HANDLE_GPU_SHARE_H_

// State that the cuDNN handles of one GPU context in this process share: the
// planner, the device it measures on and, under UCUDNN_TOTAL_WORKSPACE_SIZE
// (WD), the arena in which each kernel has its own segment.
//
// A kernel that was neither announced (client/dropin/planner/segments.h) nor
// belongs to the network that the job names joins the division when it first
// runs. All segments then move, after the work that uses them has ended: the
// epoch changes, which keeps everybody from beginning to use a segment; those
// that had begun are awaited (ArenaUser), and then the device.
//
// A segment that the program has captured in a graph of its own cannot move any
// more, and the arena is kept until the process ends. Kernels that have no
// segment by then get none.
//
// Thread safe. The context must be current in every call and must not be
// capturing a graph.

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
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

// Whether a handle is using the arena. Beginning and ending takes no lock.
class ArenaUser {
 public:
  // While it exists, no segment of the epoch that the share has now moves.
  class Use {
   public:
    explicit Use(ArenaUser& user) : user_(user) { user_.inside_ = true; }
    ~Use() { user_.inside_ = false; }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    ArenaUser& user_;
  };
  bool inside() const { return inside_; }

 private:
  std::atomic<bool> inside_ = false;
};

class GpuShare : public std::enable_shared_from_this<GpuShare> {
 public:
  // The share of a context: created on first request, freed with its last
  // owner. kUnavailable and other errors of OpenCudnnDeviceIn.
  static Result<std::shared_ptr<GpuShare>> Of(CUcontext context,
                                              const DropInSettings& settings);

  // WR; as LocalSolver.
  using Enqueueing = LocalSolver::Enqueueing;
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
  // LocalSolver::Plan.
  Status Announce(const Owner& owner, const LocalSolver::Kernel& kernel);
  // The owner's segment. If it has none yet, divides again, with all kernels of
  // the named network. `tells_layers`: layers of equal shape are distinguished.
  Result<Segment> SegmentOf(const Owner& owner,
                            const LocalSolver::Kernel& kernel,
                            bool tells_layers);
  // Changes with every division. Read it while an ArenaUser::Use exists.
  std::uint64_t epoch() const { return epoch_; }
  // Must be called before the user's first Use.
  void Register(ArenaUser* user);
  // From now on no segment moves. False if those of `epoch` have moved already.
  bool Freeze(std::uint64_t epoch);
  // Drops a destroyed handle's kernels and its user.
  void Forget(const void* handle, const ArenaUser* user);

  const DropInSettings& settings() const { return planner_.settings(); }

 private:
  GpuShare(const Libraries& libraries, std::unique_ptr<Device> device,
           const DropInSettings& settings);
  LocalSolver::Bench Bench();
  Status Redivide();
  // Keeps everybody from using a segment of the arena, and waits until no work
  // uses one.
  Status Clear(std::uint64_t next);
  // Divides and assigns the segments of epoch `next`; `moved` tells whether
  // those before are gone, also after a failure.
  Status Move(std::uint64_t next, bool* moved);
  Result<std::vector<KernelPlan>> Divide(Bytes total);

  const Libraries& libraries_;
  const std::unique_ptr<Device> device_;
  LocalSolver planner_;
  const Enqueueing enqueueing_;
  GraphBudget graph_budget_;
  // Guards the device and the planner. Locked after arena_mutex_.
  std::mutex device_mutex_;
  // Guards everything below but the epoch.
  std::mutex arena_mutex_;
  std::atomic<std::uint64_t> epoch_ = 1;
  std::vector<const ArenaUser*> users_;
  bool frozen_ = false;
  SegmentTable slots_;
  NamedNetwork named_;
  DeviceBuffer arena_;
};

}  // namespace ucudnn::cudnn

#endif  // UCUDNN_CLIENT_DROPIN_HANDLE_GPU_SHARE_H_
