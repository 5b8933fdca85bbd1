#ifndef UCUDNN_CLIENT_GRADIENTS_GPU_GRADIENTS_STATE_H_
#define UCUDNN_CLIENT_GRADIENTS_GPU_GRADIENTS_STATE_H_

// What sums of gradients hold of the driver's
// (client/gradients/gpu_gradients.h, of whose sources this is a part): pinned
// memory, and of one context at a time a stream. Made when it is first needed.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "client/gradients/gpu_gradients.h"
#include "client/ranks/ranks.h"
#include "client/ranks/shared_memory.h"
#include "device/cudnn/driver/context.h"
#include "device/cudnn/driver/libraries.h"

namespace ucudnn {

struct GpuGradients::State {
  const cudnn::DriverApi* driver = nullptr;
  std::array<void*, 2> pinned{};  // pieces under way, for any context
  CUcontext primary = nullptr;    // retained for memory of no known context
  CUdevice primary_device = 0;
  // In one context: the stream of our work, an event in the default stream, and
  // what ranks share if it could be pinned.
  CUcontext context = nullptr;
  CUstream stream = nullptr;
  CUevent made = nullptr;
  std::byte* shared = nullptr;
  bool shared_refused = false;

  Status Check(CUresult result, std::string_view call) const;
  Status AllocatePinned(void** memory) const;

  // For the context that is current.
  Status PrepareStream();

  // For the same: whether its copies to and from `window` are as good as pinned
  // memory's. Others would make the host wait without a bound.
  bool PrepareShared(const SharedMemory* window);

  // What belongs to `context`.
  void FreeContexts();
  void FreePinned();
  // MPI or the GPU may still use them.
  void Abandon();

  // Polled, as waiting in the driver has no bound. `query` is a CUresult() that
  // says whether what is waited for is ready.
  template <class Query>
  Status Poll(const Query& query, std::string_view call,
              Ranks::Deadline deadline) const;

  Status Wait(CUstream work, Ranks::Deadline deadline) const;

  // As what is enqueued in the default stream: that waits for other streams,
  // unless they were made not to be waited for.
  Status WaitForDefaultStream(Ranks::Deadline deadline) const;

  // The GPU's primary context, which every process has at most one of.
  Result<CUcontext> Primary(int gpu);
  void ReleasePrimary();

  // Makes the context of `pointer` current in `scope` where none of its GPU is.
  Status Enter(const void* pointer,
               std::optional<cudnn::GpuContext::Scope>* scope);
};

// A device's address, as the driver has it.
template <class T>
CUdeviceptr DeviceAddress(T* pointer) {
  return static_cast<CUdeviceptr>(reinterpret_cast<std::uintptr_t>(pointer));
}

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_GRADIENTS_GPU_GRADIENTS_STATE_H_
