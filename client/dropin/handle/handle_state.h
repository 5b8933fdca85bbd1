#ifndef UCUDNN_CLIENT_DROPIN_HANDLE_HANDLE_STATE_H_
#define UCUDNN_CLIENT_DROPIN_HANDLE_HANDLE_STATE_H_

// What we know of one cuDNN handle of the program: its convolutions, each with
// the divisions that were prepared for it. Belongs to one thread at a time, as
// the handle does.
//
// Nothing here makes a program fail. What cannot be divided, for whatever
// reason, is left to cuDNN: the functions then return null or nothing.

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
#include "client/executor/micro_batches.h"
#include "device/cudnn/driver/libraries.h"
#include "device/cudnn/handle.h"
#include "device/device.h"

namespace ucudnn::cudnn {

// How a program would run the whole batch by cuDNN alone.
struct OwnCall {
  int algorithm = 0;  // of the operation's enumeration
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;

  friend bool operator==(const OwnCall&, const OwnCall&) = default;
};

// A division of one convolution's batch, ready to run.
struct PreparedKernel {
  KernelPlan plan;
  Bytes limit;   // the workspace it was planned under
  Bytes needed;  // of the caller's workspace; 0 under WD
  ImageStrides strides;
  std::vector<std::unique_ptr<Convolution>> convolutions;
  std::vector<MicroBatchStep> steps;
  // WD: whose segment it is; where, as long as the share's epoch is this.
  GpuShare::Owner owner;
  BatchSize batch;
  bool is_layer = false;
  std::uint64_t epoch = 0;
  void* segment = nullptr;
  Bytes segment_size;
  // An algorithm of cuDNN's that solves the whole batch in `needed` bytes:
  // what the program is told to ask for. -1: not looked for yet.
  int algorithm = -1;
  // Which offer to the program was the last of this; 0: it was never offered.
  std::uint64_t offer = 0;
  // What it was compared with.
  std::vector<std::pair<OwnCall, bool>> beats;
};

class HandleState {
 public:
  // `context` is the handle's, current when it was made.
  HandleState(const Libraries& libraries, cudnnHandle_t handle,
              CUcontext context, const DropInSettings& settings);
  ~HandleState();
  HandleState(const HandleState&) = delete;
  HandleState& operator=(const HandleState&) = delete;

  // The division of a convolution under the handle's limit, if it has one, or,
  // if that is less, `most`; null if it is left to cuDNN. Plans and prepares
  // what it does not know yet, otherwise neither allocates nor locks.
  PreparedKernel* Find(const CallDescriptors& descriptors, Bytes most);

  // Whether the division is to run in place of `own`, the program's call: if
  // somebody named a limit, always, and else if it is faster beyond doubt.
  // Compares once.
  bool Beats(const CallDescriptors& descriptors, PreparedKernel& kernel,
             const OwnCall& own);

  // The program is told to ask for the division by its `algorithm`, which from
  // then on names it.
  void Offer(PreparedKernel& kernel) { kernel.offer = ++offers_; }
  // What was offered of this convolution last; null if nothing was.
  PreparedKernel* Offered(const CallDescriptors& descriptors);

  // Enqueues it; the workspace is the caller's, of at least `needed` bytes.
  // What was not enqueued when it fails is in `progress`; what is left can be
  // finished by RunRemaining.
  Status Run(PreparedKernel& kernel, const ConvArgs& args, void* workspace,
             Bytes workspace_size, MicroBatchProgress* progress);
  // Runs the images from `first` on by whatever algorithm fits.
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
    bool is_layer = false;           // the program said which
    std::optional<CallShape> shape;  // none: left to cuDNN
    std::vector<std::unique_ptr<PreparedKernel>> prepared;
    int failures = 0;
  };

  // Null if cuDNN does not tell what the descriptors say.
  Call* FindCall(const CallDescriptors& descriptors);
  PreparedKernel* FindPrepared(Call& call, Bytes limit, const void* stream);
  // Makes the device's calls possible, or says why not.
  Result<GpuShare*> Share();
  Result<std::unique_ptr<PreparedKernel>> Prepare(Call& call, Bytes limit,
                                                  const void* stream);
  Status PrepareSteps(PreparedKernel* kernel);
  // Whether the handle's stream is being captured into a graph, as far as can
  // be told.
  bool IsCapturing() const;
  Status RunInSegment(PreparedKernel& kernel, const ConvArgs& args,
                      MicroBatchProgress* progress);
  void Report(const Call& call, const Status& status,
              const PreparedKernel* kernel) const;

  const Libraries& libraries_;
  const std::unique_ptr<CudnnHandle> handle_;
  CUcontext context_;
  DropInSettings settings_;
  std::shared_ptr<GpuShare> share_;
  bool share_failed_ = false;
  std::uint64_t offers_ = 0;
  std::unordered_map<CallKey, Call, CallKeyHash> calls_;
};

// The state of a handle, made when it is first asked for; null if ucudnn is
// disabled or cannot work here. About 5 ns for the handle that the thread used
// last.
HandleState* StateOf(cudnnHandle_t handle);
// The handle is about to be destroyed.
void ForgetHandle(cudnnHandle_t handle);

// While one lives, calls of this thread that reach our entry points come from
// ourselves or from cuDNN, and go to cuDNN.
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
