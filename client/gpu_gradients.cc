#include "client/gpu_gradients.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>

#include "client/gpu_kernel.h"
#include "client/gradient_sum.h"
#include "device/cudnn/context.h"
#include "device/cudnn/libraries.h"

namespace ucudnn {
namespace {

using cudnn::DriverApi;
using Path = GpuGradients::Path;

template <class T>
CUdeviceptr Address(T* pointer) {
  return static_cast<CUdeviceptr>(reinterpret_cast<std::uintptr_t>(pointer));
}

// Open MPI and MPICH have it where they know of CUDA; it says whether they were
// built with it and it is on.
bool MpiTakesGpuMemory() {
  using Query = int (*)();
  const auto query =
      reinterpret_cast<Query>(dlsym(RTLD_DEFAULT, "MPIX_Query_cuda_support"));
  return query != nullptr && query() == 1;
}

}  // namespace

// The driver, and what was allocated when it was first needed.
struct GpuGradients::State {
  const DriverApi* driver = nullptr;
  Path path = Path::kStaged;
  std::array<void*, 2> pinned{};  // pieces under way, for any context
  CUcontext primary = nullptr;    // retained for memory of no known context
  CUdevice primary_device = 0;
  // In one context: the stream of our work, an event in the default stream,
  // what ranks share if it could be pinned, and for one kind of path a piece,
  // and what a neighbour sends.
  CUcontext context = nullptr;
  CUstream stream = nullptr;
  CUevent made = nullptr;
  std::byte* shared = nullptr;
  bool shared_refused = false;
  std::array<void*, 2> ring{};
  CUmodule module = nullptr;
  CUfunction blend_float = nullptr;
  CUfunction blend_double = nullptr;

  Status Check(CUresult result, std::string_view call) const {
    if (result == CUDA_SUCCESS) return {};
    return tl::unexpected<Error>(cudnn::DescribeError(*driver, result, call));
  }

  Status AllocatePinned(void** memory) const {
    if (*memory != nullptr) return {};
    return Check(driver->MemHostAlloc(
                     memory, kPieceBytes,
                     CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP),
                 "cuMemHostAlloc");
  }

  // For the context that is current.
  Status PrepareStream() {
    CUcontext now = nullptr;
    UCUDNN_RETURN_IF_ERROR(
        Check(driver->CtxGetCurrent(&now), "cuCtxGetCurrent"));
    if (stream != nullptr && now == context) return {};
    FreeContexts();
    context = now;
    UCUDNN_RETURN_IF_ERROR(Check(
        driver->EventCreate(&made, CU_EVENT_DISABLE_TIMING), "cuEventCreate"));
    return Check(driver->StreamCreate(&stream, CU_STREAM_NON_BLOCKING),
                 "cuStreamCreate");
  }

  // For the same: whether its copies to and from `window` are as good as pinned
  // memory's. Others would make the host wait without a bound.
  bool PrepareShared(const SharedMemory* window) {
    if (window == nullptr || shared_refused) return false;
    if (shared == window->data()) return true;
    shared_refused =
        driver->MemHostRegister == nullptr ||
        driver->MemHostUnregister == nullptr ||
        driver->MemHostRegister(window->data(), window->size(),
                                CU_MEMHOSTREGISTER_PORTABLE) != CUDA_SUCCESS;
    if (!shared_refused) shared = window->data();
    return !shared_refused;
  }

  // For the same.
  Status PrepareRing() {
    if (module != nullptr) return {};
    UCUDNN_RETURN_IF_ERROR(
        Check(driver->ModuleLoadData(&module, BlendModule().c_str()),
              "cuModuleLoadData"));
    UCUDNN_RETURN_IF_ERROR(
        Check(driver->ModuleGetFunction(&blend_float, module, kBlendFloat),
              "cuModuleGetFunction"));
    UCUDNN_RETURN_IF_ERROR(
        Check(driver->ModuleGetFunction(&blend_double, module, kBlendDouble),
              "cuModuleGetFunction"));
    for (void*& memory : ring) {
      if (path == Path::kMapped) {
        UCUDNN_RETURN_IF_ERROR(AllocatePinned(&memory));
        continue;
      }
      CUdeviceptr address = 0;
      UCUDNN_RETURN_IF_ERROR(
          Check(driver->MemAlloc(&address, kPieceBytes), "cuMemAlloc"));
      memory = reinterpret_cast<void*>(address);
    }
    return {};
  }

  // What belongs to `context`.
  void FreeContexts() {
    if (context == nullptr || driver->CtxPushCurrent(context) != CUDA_SUCCESS) {
      return;
    }
    const cudnn::GpuContext::Scope scope(driver);
    FreeRing();
    if (shared != nullptr) (void)driver->MemHostUnregister(shared);
    shared = nullptr;
    if (stream != nullptr) (void)driver->StreamDestroy(stream);
    if (made != nullptr) (void)driver->EventDestroy(made);
    stream = nullptr;
    made = nullptr;
    context = nullptr;
  }

  // With `context` current.
  void FreeRing() {
    if (module != nullptr) (void)driver->ModuleUnload(module);
    module = nullptr;
    for (void*& memory : ring) {
      if (memory == nullptr) continue;
      (void)(path == Path::kMapped ? driver->MemFreeHost(memory)
                                   : driver->MemFree(Address(memory)));
      memory = nullptr;
    }
  }

  void FreePinned() {
    for (void*& memory : pinned) {
      if (memory != nullptr) (void)driver->MemFreeHost(memory);
      memory = nullptr;
    }
  }

  // MPI or the GPU may still use them.
  void Abandon() {
    pinned.fill(nullptr);
    ring.fill(nullptr);
    module = nullptr;
    stream = nullptr;
    made = nullptr;
    shared = nullptr;
    context = nullptr;
    primary = nullptr;
  }

  // Polled, as waiting in the driver has no bound.
  template <class Query>
  Status Poll(const Query& query, std::string_view call,
              Ranks::Deadline deadline) const {
    auto pause = std::chrono::microseconds(1);
    for (int looks = 0;; ++looks) {
      const CUresult result = query();
      if (result != CUDA_ERROR_NOT_READY) return Check(result, call);
      if (std::chrono::steady_clock::now() >= deadline) {
        return Fail(Code::kDeadlineExceeded,
                    "what was enqueued in the gradients' stream did not end "
                    "in time");
      }
      if (looks < 1000) {
        std::this_thread::yield();
        continue;
      }
      std::this_thread::sleep_for(pause);
      pause = std::min(pause * 2, std::chrono::microseconds(1000));
    }
  }

  Status Wait(CUstream work, Ranks::Deadline deadline) const {
    return Poll([&] { return driver->StreamQuery(work); }, "cuStreamQuery",
                deadline);
  }

  // As what is enqueued in the default stream: that waits for other streams,
  // unless they were made not to be waited for.
  Status WaitForDefaultStream(Ranks::Deadline deadline) const {
    UCUDNN_RETURN_IF_ERROR(
        Check(driver->EventRecord(made, nullptr), "cuEventRecord"));
    return Poll([&] { return driver->EventQuery(made); }, "cuEventQuery",
                deadline);
  }

  // The GPU's primary context, which every process has at most one of.
  Result<CUcontext> Primary(int gpu) {
    CUdevice device = 0;
    UCUDNN_RETURN_IF_ERROR(
        Check(driver->DeviceGet(&device, gpu), "cuDeviceGet"));
    if (primary != nullptr && primary_device == device) return primary;
    ReleasePrimary();
    UCUDNN_RETURN_IF_ERROR(
        Check(driver->DevicePrimaryCtxRetain(&primary, device),
              "cuDevicePrimaryCtxRetain"));
    primary_device = device;
    return primary;
  }

  void ReleasePrimary() {
    if (primary == nullptr) return;
    FreeContexts();
    (void)driver->DevicePrimaryCtxRelease(primary_device);
    primary = nullptr;
  }

  // Makes the context of `pointer` current in `scope` where none of its GPU is.
  Status Enter(const void* pointer,
               std::optional<cudnn::GpuContext::Scope>* scope) {
    const auto ask = [&](void* answer, CUpointer_attribute attribute) {
      return driver->PointerGetAttribute(answer, attribute, Address(pointer));
    };
    int gpu = -1;
    UCUDNN_RETURN_IF_ERROR(Check(ask(&gpu, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL),
                                 "cuPointerGetAttribute"));
    CUdevice current = -1;
    CUdevice wanted = -1;
    if (driver->CtxGetDevice(&current) == CUDA_SUCCESS &&
        driver->DeviceGet(&wanted, gpu) == CUDA_SUCCESS && current == wanted) {
      return {};
    }
    CUcontext context_of = nullptr;
    if (ask(&context_of, CU_POINTER_ATTRIBUTE_CONTEXT) != CUDA_SUCCESS ||
        context_of == nullptr) {
      // Memory of a pool has none of its own, and any of the GPU's will do.
      UCUDNN_ASSIGN_OR_RETURN(context_of, Primary(gpu));
    }
    UCUDNN_RETURN_IF_ERROR(
        Check(driver->CtxPushCurrent(context_of), "cuCtxPushCurrent"));
    scope->emplace(driver);
    return {};
  }
};

namespace {

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
    return state_.Check(driver_.MemcpyDtoHAsync(to, Address(values_ + first),
                                                count * sizeof(T), stream_),
                        "cuMemcpyDtoHAsync");
  }

  Status Give(const T* from, std::size_t first, std::size_t count) override {
    UCUDNN_RETURN_IF_ERROR(AwaitMade());
    return state_.Check(driver_.MemcpyHtoDAsync(Address(values_ + first), from,
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
            state_.Check(driver_.MemsetD8Async(Address(piece), 0,
                                               count * sizeof(T), stream_),
                         "cuMemsetD8Async"));
      } else {
        UCUDNN_RETURN_IF_ERROR(Blend(piece, values_ + first, scale_, count, 0));
      }
      UCUDNN_RETURN_IF_ERROR(state_.Wait(stream_, deadline_));
      UCUDNN_RETURN_IF_ERROR(SumRound(ranks, piece, count));
      UCUDNN_RETURN_IF_ERROR(state_.Check(
          driver_.MemcpyDtoDAsync(Address(values_ + first), Address(piece),
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
    CUdeviceptr to = Address(out);
    CUdeviceptr from = Address(in);
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
             &type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, Address(pointer)) ==
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
