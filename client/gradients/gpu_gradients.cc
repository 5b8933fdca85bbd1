#include "client/gradients/gpu_gradients.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>

#include "client/gradients/gpu_gradients_state.h"
#include "client/gradients/gpu_kernel.h"
#include "client/gradients/gradient_sum.h"
#include "device/cudnn/context.h"
#include "device/cudnn/libraries.h"

namespace ucudnn {
namespace {

using cudnn::DriverApi;
using Path = GpuGradients::Path;

// Open MPI and MPICH have it where they know of CUDA; it says whether they were
// built with it and it is on.
bool MpiTakesGpuMemory() {
  using Query = int (*)();
  const auto query =
      reinterpret_cast<Query>(dlsym(RTLD_DEFAULT, "MPIX_Query_cuda_support"));
  return query != nullptr && query() == 1;
}

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
    if (state_.path != Path::kStaged) {
      // Where that fails, as without room for two pieces, all ranks stage.
      direct_ = state_.PrepareRing().has_value();
      if (!direct_) {
        state_.FreeRing();
        state_.path = Path::kStaged;
      }
    }
    for (void*& memory : state_.pinned) {
      UCUDNN_RETURN_IF_ERROR(state_.AllocatePinned(&memory));
    }
    return {};
  }

  Result<T*> Take(unsigned turn, std::size_t first,
                  std::size_t count) override {
    T* const piece = static_cast<T*>(state_.pinned[turn]);
    if (scale_ == 0) {
      // What was given of this buffer's last sums is still being read.
      UCUDNN_RETURN_IF_ERROR(state_.Wait(stream_, deadline_));
      std::fill_n(piece, count, T(0));
      return piece;
    }
    UCUDNN_RETURN_IF_ERROR(Fetch(piece, first, count));
    UCUDNN_RETURN_IF_ERROR(state_.Wait(stream_, deadline_));
    const T factor = static_cast<T>(scale_);
    std::transform(piece, piece + count, piece,
                   [factor](T value) { return value * factor; });
    return piece;
  }

  Status Fetch(T* to, std::size_t first, std::size_t count) override {
    UCUDNN_RETURN_IF_ERROR(AwaitMade());
    return state_.Check(
        driver_.MemcpyDtoHAsync(to, DeviceAddress(values_ + first),
                                count * sizeof(T), stream_),
        "cuMemcpyDtoHAsync");
  }

  Status Give(const T* from, std::size_t first, std::size_t count) override {
    UCUDNN_RETURN_IF_ERROR(AwaitMade());
    return state_.Check(
        driver_.MemcpyHtoDAsync(DeviceAddress(values_ + first), from,
                                count * sizeof(T), stream_),
        "cuMemcpyHtoDAsync");
  }

  Status Wait() override {
    return count_ == 0 ? Status() : state_.Wait(stream_, deadline_);
  }
  void Abandon() override { state_.Abandon(); }

  bool shares() const override { return shares_; }
  // A rank without values has none that MPI does not take.
  bool direct() const override {
    return direct_ || (count_ == 0 && state_.path != Path::kStaged);
  }

  Status SumDirectly(Ranks& ranks, Ranks::Deadline) override {
    constexpr std::size_t kPiece = kPieceBytes / sizeof(T);
    UCUDNN_RETURN_IF_ERROR(AwaitMade());
    T* const piece = static_cast<T*>(state_.ring[0]);
    for (std::size_t first = 0; first < count_; first += kPiece) {
      const std::size_t count = std::min(kPiece, count_ - first);
      if (scale_ == 0) {
        UCUDNN_RETURN_IF_ERROR(
            state_.Check(driver_.MemsetD8Async(DeviceAddress(piece), 0,
                                               count * sizeof(T), stream_),
                         "cuMemsetD8Async"));
      } else {
        UCUDNN_RETURN_IF_ERROR(Blend(piece, values_ + first, scale_, count, 0));
      }
      UCUDNN_RETURN_IF_ERROR(state_.Wait(stream_, deadline_));
      UCUDNN_RETURN_IF_ERROR(SumRound(ranks, piece, count));
      UCUDNN_RETURN_IF_ERROR(
          state_.Check(driver_.MemcpyDtoDAsync(DeviceAddress(values_ + first),
                                               DeviceAddress(piece),
                                               count * sizeof(T), stream_),
                       "cuMemcpyDtoDAsync"));
    }
    return Wait();
  }

 private:
  // Our stream is another than the one they are made in.
  Status AwaitMade() {
    if (made_) return {};
    UCUDNN_RETURN_IF_ERROR(made_in_ == nullptr
                               ? state_.WaitForDefaultStream(deadline_)
                               : state_.Wait(made_in_, deadline_));
    made_ = true;
    return {};
  }

  // Sums a piece round the ring: each rank's part of it grows while it goes
  // from rank to rank, and then goes round once more. So every sum is made in
  // one order, and all ranks have the same to the last bit.
  Status SumRound(Ranks& ranks, T* piece, std::size_t count) {
    T* const received = static_cast<T*>(state_.ring[1]);
    const int size = ranks.size();
    const auto wrap = [size](int rank) { return (rank % size + size) % size; };
    for (int step = 0; step < size - 1; ++step) {
      const Part out = PartOf(count, size, wrap(ranks.rank() - step));
      const Part in = PartOf(count, size, wrap(ranks.rank() - step - 1));
      UCUDNN_RETURN_IF_ERROR(
          Pass(ranks, piece + out.first, out.count, received, in.count));
      UCUDNN_RETURN_IF_ERROR(Blend(piece + in.first, received, 1, in.count, 1));
      UCUDNN_RETURN_IF_ERROR(state_.Wait(stream_, deadline_));
    }
    for (int step = 0; step < size - 1; ++step) {
      const Part out = PartOf(count, size, wrap(ranks.rank() + 1 - step));
      const Part in = PartOf(count, size, wrap(ranks.rank() - step));
      UCUDNN_RETURN_IF_ERROR(Pass(ranks, piece + out.first, out.count,
                                  piece + in.first, in.count));
    }
    return {};
  }

  Status Pass(Ranks& ranks, const T* out, std::size_t out_count, T* in,
              std::size_t in_count) {
    const int size = ranks.size();
    UCUDNN_ASSIGN_OR_RETURN(
        MPI_Request receive,
        ranks.BeginReceive(in, in_count, (ranks.rank() + size - 1) % size));
    UCUDNN_ASSIGN_OR_RETURN(
        MPI_Request send,
        ranks.BeginSend(out, out_count, (ranks.rank() + 1) % size));
    UCUDNN_RETURN_IF_ERROR(ranks.Await(&receive, deadline_));
    return ranks.Await(&send, deadline_);
  }

  // out = factor in (+ out).
  Status Blend(T* out, const T* in, double factor, std::size_t count,
               std::uint32_t add) {
    if (count == 0) return {};
    CUdeviceptr to = DeviceAddress(out);
    CUdeviceptr from = DeviceAddress(in);
    T times = static_cast<T>(factor);
    std::uint64_t n = count;
    std::array<void*, 5> arguments = {&to, &from, &times, &n, &add};
    const CUfunction function =
        std::is_same_v<T, float> ? state_.blend_float : state_.blend_double;
    constexpr unsigned kThreads = 256;
    const auto blocks = static_cast<unsigned>(
        std::min<std::size_t>((count + kThreads - 1) / kThreads, 1024));
    return state_.Check(
        driver_.LaunchKernel(function, blocks, 1, 1, kThreads, 1, 1, 0, stream_,
                             arguments.data(), nullptr),
        "cuLaunchKernel");
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
  bool direct_ = false;
};

}  // namespace

GpuGradients::GpuGradients(std::unique_ptr<State> state)
    : state_(std::move(state)) {}

GpuGradients::~GpuGradients() {
  // At the end of the process the driver may be gone, and the memory too.
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
    return Fail(Code::kUnimplemented, "the driver has no pinned memory");
  }
  const bool computes =
      driver.MemcpyDtoDAsync != nullptr && driver.ModuleLoadData != nullptr &&
      driver.ModuleUnload != nullptr && driver.ModuleGetFunction != nullptr &&
      driver.LaunchKernel != nullptr;
  return With(driver,
              computes && MpiTakesGpuMemory() ? Path::kDirect : Path::kStaged);
}

std::unique_ptr<GpuGradients> GpuGradients::With(const DriverApi& driver,
                                                 Path path) {
  auto state = std::make_unique<State>();
  state->driver = &driver;
  state->path = path;
  return std::unique_ptr<GpuGradients>(new GpuGradients(std::move(state)));
}

Path GpuGradients::path() const { return state_->path; }
bool GpuGradients::pins_window() const { return state_->shared != nullptr; }

bool GpuGradients::IsGpuMemory(const void* pointer) const {
  unsigned type = 0;
  // The driver knows nothing of other memory.
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
Status GpuGradients::ScaleAndSum(Ranks& ranks, T* gradients, std::size_t count,
                                 double scale, void* stream,
                                 Ranks::Deadline deadline) {
  OnGpu<T, State> mine(*state_, gradients, count, scale,
                       static_cast<CUstream>(stream), deadline);
  return SumGradients<T>(ranks, mine, deadline);
}

template Status GpuGradients::ScaleAndSum(Ranks&, float*, std::size_t, double,
                                          void*, Ranks::Deadline);
template Status GpuGradients::ScaleAndSum(Ranks&, double*, std::size_t, double,
                                          void*, Ranks::Deadline);

}  // namespace ucudnn
