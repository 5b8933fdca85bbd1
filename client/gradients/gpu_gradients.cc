#include "client/gradients/gpu_gradients.h"

#include <dlfcn.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "client/gradients/gpu_gradients_state.h"
#include "client/gradients/gradient_sum.h"
#include "device/cudnn/driver/context.h"
#include "device/cudnn/driver/libraries.h"

namespace ucudnn {
namespace {

using cudnn::DriverApi;

template <class T, class State>
class OnGpu final : public Gradients<T> {
 public:
  OnGpu(State& state, T* values, std::size_t count, double scale,
        CUstream stream, Ranks::Deadline deadline)
      : state_(state),
        driver_(*state.driver),
        values_(values),
        count_(count),
        scale_(scale),
        made_in_(stream),
        deadline_(deadline) {}

  std::size_t count() const override { return count_; }
  double scale() const override { return scale_; }

  Status Prepare(const SharedMemory* window) override {
    if (count_ == 0) return {};
    UCUDNN_RETURN_IF_ERROR(state_.Enter(values_, &scope_));
    UCUDNN_RETURN_IF_ERROR(state_.PrepareStream());
    stream_ = state_.stream;
    shares_ = state_.PrepareShared(window);
    for (void*& memory : state_.pinned) {
      UCUDNN_RETURN_IF_ERROR(state_.AllocatePinned(&memory));
    }
    return {};
  }

  Result<T*> StageScaled(unsigned turn, std::size_t first,
                         std::size_t count) override {
    T* const piece = static_cast<T*>(state_.pinned[turn]);
    if (scale_ == 0) {
      // The buffer's previous sums are still being copied.
      UCUDNN_RETURN_IF_ERROR(state_.Wait(stream_, deadline_));
      std::fill_n(piece, count, T(0));
      return piece;
    }
    UCUDNN_RETURN_IF_ERROR(CopyOut(piece, first, count));
    UCUDNN_RETURN_IF_ERROR(state_.Wait(stream_, deadline_));
    const T factor = static_cast<T>(scale_);
    std::transform(piece, piece + count, piece,
                   [factor](T value) { return value * factor; });
    return piece;
  }

  Status CopyOut(T* to, std::size_t first, std::size_t count) override {
    UCUDNN_RETURN_IF_ERROR(AwaitMade());
    return state_.Call(driver_.MemcpyDtoHAsync, to,
                       DeviceAddress(values_ + first), count * sizeof(T),
                       stream_);
  }

  Status CopyIn(const T* from, std::size_t first, std::size_t count) override {
    UCUDNN_RETURN_IF_ERROR(AwaitMade());
    return state_.Call(driver_.MemcpyHtoDAsync, DeviceAddress(values_ + first),
                       from, count * sizeof(T), stream_);
  }

  Status Wait() override {
    return count_ == 0 ? Status() : state_.Wait(stream_, deadline_);
  }
  void Abandon() override { state_.Abandon(); }

  bool shares() const override { return shares_; }

  bool may_sum_on_gpus() const override {
    return count_ > 0 && state_.MayUseNccl();
  }

  Result<bool> SumOnGpus(Ranks& ranks) override {
    UCUDNN_ASSIGN_OR_RETURN(const bool ready,
                            state_.PrepareNccl(ranks, deadline_));
    if (!ready) return false;
    UCUDNN_RETURN_IF_ERROR(AwaitMade());
    double scale = scale_;
    if (scale == 0) {
      // NCCL would multiply, and 0 times infinity is not 0.
      UCUDNN_RETURN_IF_ERROR(state_.Call(driver_.MemsetD8Async,
                                         DeviceAddress(values_), 0,
                                         count_ * sizeof(T), stream_));
      scale = 1;
    }
    const std::span<T> values(values_, count_);
    UCUDNN_RETURN_IF_ERROR(
        state_.group->Sum(std::span(&values, 1), scale, stream_, deadline_));
    UCUDNN_RETURN_IF_ERROR(state_.WaitForNccl(deadline_));
    return true;
  }

 private:
  // Waits for the stream that produces the gradients.
  Status AwaitMade() {
    if (made_) return {};
    UCUDNN_RETURN_IF_ERROR(made_in_ == nullptr
                               ? state_.WaitForDefaultStream(deadline_)
                               : state_.Wait(made_in_, deadline_));
    made_ = true;
    return {};
  }

  State& state_;
  const DriverApi& driver_;
  T* const values_;
  const std::size_t count_;
  const double scale_;
  const CUstream made_in_;
  const Ranks::Deadline deadline_;
  CUstream stream_ = nullptr;
  std::optional<cudnn::GpuContext::Scope> scope_;
  bool made_ = false;
  bool shares_ = false;
};

}  // namespace

GpuGradients::GpuGradients(std::unique_ptr<State> state)
    : state_(std::move(state)) {}

GpuGradients::~GpuGradients() {
  state_->group.reset();
  // When the process ends, the driver and the memory may be gone already.
  state_->FreePinned();
  state_->FreeContexts();
  state_->ReleasePrimary();
}

Result<std::unique_ptr<GpuGradients>> GpuGradients::Create() {
  void* const loaded = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (loaded == nullptr) {
    return Fail(Code::kUnavailable,
                "this process has not loaded the NVIDIA driver");
  }
  dlclose(loaded);
  UCUDNN_ASSIGN_OR_RETURN(const cudnn::Libraries* libraries,
                          cudnn::LoadedLibraries());
  const DriverApi& driver = libraries->driver;
  if (driver.PointerGetAttribute == nullptr || driver.MemHostAlloc == nullptr ||
      driver.MemFreeHost == nullptr) {
    return Fail(Code::kUnimplemented,
                "the driver cannot allocate pinned memory");
  }
  const Result<const NcclApi*> nccl = LoadedNccl();
  std::unique_ptr<GpuGradients> gpu = With(driver, nccl.value_or(nullptr));
  if (!nccl) gpu->state_->why_not_nccl = nccl.error().message;
  return gpu;
}

std::unique_ptr<GpuGradients> GpuGradients::With(const DriverApi& driver,
                                                 const NcclApi* nccl) {
  auto state = std::make_unique<State>();
  state->driver = &driver;
  state->nccl = nccl;
  return std::unique_ptr<GpuGradients>(new GpuGradients(std::move(state)));
}

std::string GpuGradients::nccl_version() const {
  return state_->nccl == nullptr ? "" : NcclVersion(*state_->nccl);
}

const std::string& GpuGradients::why_not_nccl() const {
  return state_->why_not_nccl;
}

bool GpuGradients::IsGpuMemory(const void* pointer) const {
  unsigned type = 0;
  // The driver knows only GPU memory and memory that it pinned.
  return pointer != nullptr &&
         state_->driver->PointerGetAttribute(
             &type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, DeviceAddress(pointer)) ==
             CUDA_SUCCESS &&
         type == CU_MEMORYTYPE_DEVICE;
}

Status GpuGradients::Wait(void* stream, Ranks::Deadline deadline) {
  return state_->Wait(static_cast<CUstream>(stream), deadline);
}

template <class T>
Result<SumMethod> GpuGradients::ScaleAndSum(Ranks& ranks, T* gradients,
                                            std::size_t count, double scale,
                                            void* stream,
                                            Ranks::Deadline deadline) {
  OnGpu<T, State> mine(*state_, gradients, count, scale,
                       static_cast<CUstream>(stream), deadline);
  return SumGradients<T>(ranks, mine, deadline);
}

Result<bool> GpuGradients::PrepareToEnqueue(Ranks& ranks, const void* memory,
                                            Ranks::Deadline deadline) {
  std::optional<cudnn::GpuContext::Scope> scope;
  const bool able = memory != nullptr && state_->Enter(memory, &scope) &&
                    state_->PrepareStream() && state_->MayUseNccl();
  UCUDNN_ASSIGN_OR_RETURN(const std::int64_t unable,
                          ranks.Max(able ? 0 : 1, deadline));
  if (unable != 0) return false;
  return state_->PrepareNccl(ranks, deadline);
}

template <class T>
Status GpuGradients::Enqueue(std::span<const std::span<T>> values, void* stream,
                             Ranks::Deadline deadline) {
  UCUDNN_RETURN_IF_ERROR(CheckGroup());
  std::optional<cudnn::GpuContext::Scope> scope;
  UCUDNN_RETURN_IF_ERROR(state_->Enter(values.front().data(), &scope));
  return state_->group->Sum(values, 1.0, static_cast<CUstream>(stream),
                            deadline);
}

Status GpuGradients::CheckGroup() const {
  if (state_->group != nullptr) return {};
  return Fail(Code::kUnavailable, "NCCL's sums were ended");
}

Status GpuGradients::Check() const {
  UCUDNN_RETURN_IF_ERROR(CheckGroup());
  return state_->group->Check();
}

void GpuGradients::Abort() { state_->Abandon(); }

template Status GpuGradients::Enqueue(std::span<const std::span<float>>, void*,
                                      Ranks::Deadline);
template Status GpuGradients::Enqueue(std::span<const std::span<double>>, void*,
                                      Ranks::Deadline);
template Result<SumMethod> GpuGradients::ScaleAndSum(Ranks&, float*,
                                                     std::size_t, double, void*,
                                                     Ranks::Deadline);
template Result<SumMethod> GpuGradients::ScaleAndSum(Ranks&, double*,
                                                     std::size_t, double, void*,
                                                     Ranks::Deadline);

}  // namespace ucudnn
