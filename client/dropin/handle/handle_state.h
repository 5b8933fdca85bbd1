#ifndef UCUDNN_CLIENT_DROPIN_HANDLE_HANDLE_STATE_H_
#define UCUDNN_CLIENT_DROPIN_HANDLE_HANDLE_STATE_H_

// The state of one of the program's cuDNN handles: its convolutions, each with
// the divisions prepared for it. Used by one thread at a time, like the handle.
//
// Nothing here makes a program fail: a convolution that cannot be divided is
// left to cuDNN, and the functions return null or false.
//
// The workspace limit of a convolution is decided here (OfferLimit, Find and
// Prepare) and nowhere else; all below only obey the number they are given.
//
//   the user set                     limit
//   UCUDNN_TOTAL_WORKSPACE_SIZE      none: GpuShare divides the total (WD)
//   UCUDNN_WORKSPACE_LIMIT, or       that, or what the program brings if that
//   ucudnnSetWorkspaceLimit          is less
//   neither                          what the program brings; in an offer, what
//                                    cuDNN's own choice takes, at least
//                                    kDefaultWorkspaceLimit

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/plan/plan.h"
#include "base/result.h"
#include "client/config/dropin_settings.h"
#include "client/dropin/handle/call.h"
#include "client/dropin/handle/gpu_share.h"
#include "client/dropin/handle/graph_player.h"
#include "device/cudnn/driver/libraries.h"
#include "device/cudnn/handle.h"
#include "device/device.h"
#include "device/micro_batches.h"

namespace ucudnn::cudnn {

// How the program would run the whole batch with cuDNN alone.
struct OwnCall {
  int algorithm = 0;  // a value of the operation's algorithm enum
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;

  friend bool operator==(const OwnCall&, const OwnCall&) = default;
};

// A division of one convolution's batch, ready to run.
struct PreparedKernel {
  KernelPlan plan;
  Bytes limit;   // the workspace it was planned under
  Bytes needed;  // from the caller's workspace; 0 under WD
  ImageStrides strides;
  std::vector<std::unique_ptr<Convolution>> convolutions;
  std::vector<MicroBatchStep> steps;
  KernelGraphs graphs{kMostGraphsOfAKernel};
  // Whether the plan suits enqueueing each micro-batch, after the graphs were
  // given up.
  bool paced = false;
  // WD: the owner of the segment, and its address while share_->epoch() equals
  // `epoch`.
  GpuShare::Owner owner;
  BatchSize batch;
  bool is_layer = false;
  std::uint64_t epoch = 0;
  void* segment = nullptr;
  Bytes segment_size;
  // WD: the program's capture that the segment belongs to, if any. Then nothing
  // else may use it, since the program may replay the graph at any time.
  std::optional<std::uint64_t> captured_by;
  // A cuDNN algorithm that runs the whole batch in `needed` bytes: the program
  // asks for the division by its name. -1: not determined yet.
  int algorithm = -1;
  // The number of the last offer of this division; 0: never offered.
  std::uint64_t offer = 0;
  // Results of Beats, by the call it was compared with.
  std::vector<std::pair<OwnCall, bool>> beats;
};

class HandleState {
 public:
  // `context` is the one that was current when the handle was created.
  HandleState(const Libraries& libraries, cudnnHandle_t handle,
              CUcontext context, const DropInSettings& settings);
  ~HandleState();
  HandleState(const HandleState&) = delete;
  HandleState& operator=(const HandleState&) = delete;

  // The most workspace that an offer may need, where the program would bring
  // `most` and cuDNN's own choice takes `own`.
  Bytes OfferLimit(Bytes most, Bytes own) const;

  // The division of a convolution under the handle's limit, if it has one, or
  // under `most`, if that is less; null if the convolution is left to cuDNN.
  // Plans and prepares it if necessary; otherwise neither allocates nor locks.
  PreparedKernel* Find(const CallDescriptors& descriptors, Bytes most);

  // Whether to run the division instead of `own`, the program's call: always if
  // a limit is set, otherwise if it is faster by more than the noise. Compares
  // once.
  bool Beats(const CallDescriptors& descriptors, PreparedKernel& kernel,
             const OwnCall& own);

  // Records that the program was told to ask for the division by its
  // `algorithm`, which names it from now on.
  void Offer(PreparedKernel& kernel) { kernel.offer = ++offers_; }
  // The division of this convolution that was offered last; null if none was.
  PreparedKernel* Offered(const CallDescriptors& descriptors);

  // Enqueues the division, as a graph if it came with these operands before, or
  // into the program's own graph if it is capturing the stream. `workspace` is
  // the caller's, of at least `needed` bytes. On failure, `progress` holds what
  // was enqueued; RunRemaining can do the rest, except after kDataLoss: then
  // the handle is unusable.
  Status Run(PreparedKernel& kernel, const ConvArgs& args, void* workspace,
             Bytes workspace_size, MicroBatchProgress* progress);
  // Runs the images from `first` on with any algorithm that fits.
  Status RunRemaining(PreparedKernel& kernel, const ConvArgs& args,
                      std::int64_t first, void* workspace,
                      Bytes workspace_size);

  void set_workspace_limit(Bytes limit) { settings_.workspace_limit = limit; }
  const DropInSettings& settings() const { return settings_; }
  bool names_limit() const { return settings_.NamesLimit(); }
  bool divides_workspace() const { return settings_.total_workspace > Bytes(); }
  const CudnnApi& api() const { return libraries_.cudnn; }
  cudnnHandle_t get() const { return handle_->get(); }

 private:
  struct Call {
    std::uint64_t number = 0;
    bool is_layer = false;           // the program gave a layer number
    std::optional<CallShape> shape;  // none: left to cuDNN
    std::vector<std::unique_ptr<PreparedKernel>> prepared;
    int failures = 0;
  };

  // Null if cuDNN does not report the descriptors' values.
  Call* FindCall(const CallDescriptors& descriptors);
  PreparedKernel* FindPrepared(Call& call, Bytes limit, const void* stream);
  // The shared state of the GPU, or why it is unavailable.
  Result<GpuShare*> Share();
  Result<std::unique_ptr<PreparedKernel>> Prepare(Call& call, Bytes limit,
                                                  const void* stream);
  Status PrepareSteps(PreparedKernel* kernel);
  // Plans a kernel whose graphs were given up for direct enqueueing, within the
  // workspace that it needed before.
  void Pace(const Call& call, PreparedKernel* kernel);
  // Launches the kernel's graph or enqueues its steps.
  Status Enqueue(PreparedKernel& kernel, const ConvArgs& args, void* workspace,
                 Bytes workspace_size, MicroBatchProgress* progress);
  // Whether the handle's stream is being captured into a graph, as far as the
  // driver reports it.
  bool IsCapturing() const;
  Status RunInSegment(PreparedKernel& kernel, const ConvArgs& args,
                      MicroBatchProgress* progress);
  // The same into the program's graph.
  Status CaptureInSegment(PreparedKernel& kernel, const ConvArgs& args,
                          CUstream stream, MicroBatchProgress* progress);
  void Report(const Call& call, const Status& status,
              const PreparedKernel* kernel) const;
  void ReportGraphs() const;

  const Libraries& libraries_;
  const std::unique_ptr<CudnnHandle> handle_;
  CUcontext context_;
  DropInSettings settings_;
  std::shared_ptr<GpuShare> share_;
  ArenaUser arena_user_;
  bool share_failed_ = false;
  std::uint64_t offers_ = 0;
  GraphPlayer player_;
  std::unordered_map<CallKey, Call, CallKeyHash> calls_;
};

// The state of a handle, created on first request; null if ucudnn is disabled
// or unavailable. About 5 ns for the handle that this thread used last.
HandleState* StateOf(cudnnHandle_t handle);
// Call before the handle is destroyed.
void ForgetHandle(cudnnHandle_t handle);

// While one exists, calls of this thread that reach our entry points come from
// ucudnn or cuDNN itself and go straight to cuDNN.
class ReentrancyGuard {
 public:
  ReentrancyGuard() { ++depth_; }
  ~ReentrancyGuard() { --depth_; }
  ReentrancyGuard(const ReentrancyGuard&) = delete;
  ReentrancyGuard& operator=(const ReentrancyGuard&) = delete;
  static bool is_active() { return depth_ > 0; }

 private:
  static thread_local int depth_;
};

}  // namespace ucudnn::cudnn

#endif  // UCUDNN_CLIENT_DROPIN_HANDLE_HANDLE_STATE_H_
