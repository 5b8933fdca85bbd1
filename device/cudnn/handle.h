#ifndef UCUDNN_DEVICE_CUDNN_HANDLE_H_
#define UCUDNN_DEVICE_CUDNN_HANDLE_H_

// A cuDNN handle with everything that calls on it need. It is either ours, in a
// context of ours, or the host program's: then its context is current when we
// are called, and work goes to the stream that the program has set on it. This
// is all that listing, preparing and running convolutions (convolutions.h)
// needs.

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/result.h"
#include "device/cudnn/driver/context.h"
#include "device/cudnn/driver/libraries.h"

namespace ucudnn::cudnn {

class EngineValidation;
class EngineCache;
class BranchStream;

// "cudnnConvolutionForward: CUDNN_STATUS_NOT_SUPPORTED (...)" with the code
// that fits: kUnimplemented if cuDNN does not support it, kInvalidArgument if
// it reports a bad parameter, kResourceExhausted, kUnavailable, else kInternal.
// Appends cuDNN's own explanation of its last error, if any.
Error DescribeError(const CudnnApi& api, cudnnStatus_t status,
                    std::string_view call);

class CudnnHandle {
 public:
  // A new handle in `context`, working on its stream. `context` must outlive
  // it.
  static Result<std::unique_ptr<CudnnHandle>> Create(const CudnnApi& api,
                                                     GpuContext& context);
  // Wraps the caller's handle without owning it. Handle and driver must outlive
  // this; the driver is the loaded one if none is given.
  static std::unique_ptr<CudnnHandle> Wrap(const CudnnApi& api,
                                           cudnnHandle_t handle,
                                           const DriverApi* driver = nullptr);
  ~CudnnHandle();
  CudnnHandle(const CudnnHandle&) = delete;
  CudnnHandle& operator=(const CudnnHandle&) = delete;

  // Makes the context of a handle of ours current while the result lives.
  Result<std::optional<GpuContext::Scope>> Enter();

  // The error that `status` of `call` means, if any; notices if the context was
  // lost meanwhile.
  Status Check(cudnnStatus_t status, std::string_view call);
  // The same for the driver's calls in the handle's context.
  Status Check(CUresult result, std::string_view call);
  // Calls a function of cuDNN or the driver, and checks its result.
  template <class R, class... P>
  Status Call(const Function<R(P...)>& function,
              std::type_identity_t<P>... parameters) {
    return Check(function(parameters...), function.name());
  }
  // The error of the context, if it is lost.
  Status CheckLost() const;

  const CudnnApi& api() const { return api_; }
  cudnnHandle_t get() const { return handle_; }
  // The slice's multiprocessors; 0 for a whole GPU.
  std::int64_t slice_sms() const;
  // The driver's API for our own work beside cuDNN's; kUnavailable if a
  // caller's handle comes without one and none can be loaded.
  Result<const DriverApi*> driver() const;
  // The stream that is set on the handle now.
  Result<CUstream> stream();
  // The verdicts on engines (engine_check.h).
  EngineValidation& engine_validation() { return *engine_validation_; }
  // The engines that were listed last, ready to run (graph.h).
  std::unique_ptr<EngineCache>& engine_cache() { return engine_cache_; }
  // For work at the same time as this handle's; made when first asked for.
  Result<BranchStream*> branch_stream();

 private:
  CudnnHandle(const CudnnApi& api, GpuContext* context, cudnnHandle_t handle);

  const CudnnApi& api_;
  GpuContext* context_;  // null if the handle is not ours
  cudnnHandle_t handle_;
  const DriverApi* driver_ = nullptr;
  std::unique_ptr<EngineValidation> engine_validation_;
  std::unique_ptr<EngineCache> engine_cache_;
  std::unique_ptr<BranchStream> branch_stream_;
};

}  // namespace ucudnn::cudnn

#endif  // UCUDNN_DEVICE_CUDNN_HANDLE_H_
