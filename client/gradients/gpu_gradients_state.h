#ifndef UCUDNN_CLIENT_GRADIENTS_GPU_GRADIENTS_STATE_H_
#define UCUDNN_CLIENT_GRADIENTS_GPU_GRADIENTS_STATE_H_

// The driver objects that summing gradients uses (part of
// client/gradients/gpu_gradients.h): pinned memory and, for one context at a
// time, a stream. Created when first needed.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/result.h"
#include "client/gradients/gpu_gradients.h"
#include "client/gradients/nccl_api.h"
#include "client/gradients/nccl_group.h"
#include "client/ranks/ranks.h"
#include "client/ranks/shared_memory.h"
#include "device/cudnn/driver/context.h"
#include "device/cudnn/driver/libraries.h"

namespace ucudnn {

struct GpuGradients::State {
  const cudnn::DriverApi* driver = nullptr;
  std::array<void*, 2> pinned{};  // staging buffers, for any context
  CUcontext primary = nullptr;    // for memory without a context of its own
  CUdevice primary_device = 0;
  // For one context: our stream, an event in the default stream and the ranks'
  // shared memory, if it could be pinned.
  CUcontext context = nullptr;
  CUstream stream = nullptr;
  CUevent made = nullptr;
  std::byte* shared = nullptr;
  bool shared_refused = false;
  // Null without NCCL, or once the ranks have refused it.
  const NcclApi* nccl = nullptr;
  std::string why_not_nccl;
  std::unique_ptr<NcclGroup> group;  // on the GPU group_device
  CUdevice group_device = 0;

  // Calls one of the driver's functions; the error that its result means.
  template <class... P>
  Status Call(const cudnn::Function<CUresult(P...)>& function,
              std::type_identity_t<P>... parameters) const {
    return cudnn::Call(*driver, function, parameters...);
  }
  Status AllocatePinned(void** memory) const;

  // For the current context.
  Status PrepareStream();

  // For the current context: whether copies to and from `window` are as
  // asynchronous as with pinned memory. Other copies would block the host
  // without a bound.
  bool PrepareShared(const SharedMemory* window);

  // For the current context: whether NCCL may be used, as far as this rank
  // knows.
  bool MayUseNccl() const;
  // Collective: makes `group`, unless there is one. False if the ranks cannot
  // use NCCL, which they do not try again.
  Result<bool> PrepareNccl(Ranks& ranks, Ranks::Deadline deadline);
  // Waits until our stream's work with NCCL is done, or has failed.
  Status WaitForNccl(Ranks::Deadline deadline) const;

  // Frees the objects of `context`.
  void FreeContexts();
  void FreePinned();
  // Leaks the objects: MPI or the GPU may still use them.
  void Abandon();

  // Polls, because the driver's own waits have no bound. `query` returns a
  // CUresult: whether what is awaited is ready.
  template <class Query>
  Status Poll(const Query& query, std::string_view call,
              Ranks::Deadline deadline) const;

  Status Wait(CUstream work, Ranks::Deadline deadline) const;

  // Waits for what work in the default stream would wait for: all other streams
  // except those created non-blocking.
  Status WaitForDefaultStream(Ranks::Deadline deadline) const;

  // The GPU's primary context; a process has at most one for each GPU.
  Result<CUcontext> Primary(int gpu);
  void ReleasePrimary();

  // If no context of the GPU that has `pointer` is current, makes one current
  // in `scope`.
  Status Enter(const void* pointer,
               std::optional<cudnn::GpuContext::Scope>* scope);
};

// The address as the driver's type.
template <class T>
CUdeviceptr DeviceAddress(T* pointer) {
  return static_cast<CUdeviceptr>(reinterpret_cast<std::uintptr_t>(pointer));
}

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_GRADIENTS_GPU_GRADIENTS_STATE_H_
