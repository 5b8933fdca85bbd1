#ifndef UCUDNN_DEVICE_CUDNN_HANDLE_H_
#define UCUDNN_DEVICE_CUDNN_HANDLE_H_

// A cuDNN handle with what calls on it need, either ours, in a context of ours,
// or one that the program around us made: then its context is current when we
// are called, and work goes to the stream that the program has set on it.
// Listing, preparing and running convolutions (convolutions.h) asks for nothing
// more.

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "device/cudnn/driver/context.h"
#include "device/cudnn/driver/libraries.h"

namespace ucudnn::cudnn {

class EngineValidation;
class EngineCache;

// "cudnnConvolutionForward: CUDNN_STATUS_NOT_SUPPORTED (...)" with the code
// that fits: kUnimplemented for what cuDNN does not support, kInvalidArgument
// for what it calls a bad parameter, kResourceExhausted, kUnavailable, else
// kInternal. Appends cuDNN's own explanation of its last error, if any.
Error DescribeError(const CudnnApi& api, cudnnStatus_t status,
                    std::string_view call);

class CudnnHandle {
 public:
  // A new handle in `context`, working on its stream. `context` outlives it.
  static Result<std::unique_ptr<CudnnHandle>> Create(const CudnnApi& api,
                                                     GpuContext& context);
  // The caller's handle, which it keeps and which outlives this; so does the
  // driver: the loaded one, if none is given.
  static std::unique_ptr<CudnnHandle> Wrap(const CudnnApi& api,
                                           cudnnHandle_t handle,
                                           const DriverApi* driver = nullptr);
  ~CudnnHandle();
  CudnnHandle(const CudnnHandle&) = delete;
  CudnnHandle& operator=(const CudnnHandle&) = delete;

  // Makes the context of a handle of ours current while the result lives.
  Result<std::optional<GpuContext::Scope>> Enter();

  // What `status` of `call` means; notices if the context was lost meanwhile.
  Status Check(cudnnStatus_t status, std::string_view call);
  // The same of the driver's calls in the handle's context.
  Status CheckDriver(const DriverApi& driver, CUresult result,
                     std::string_view call);
  // The error of the lost context, if it is.
  Status CheckLost() const;

  const CudnnApi& api() const { return api_; }
  cudnnHandle_t get() const { return handle_; }
  // How many multiprocessors a slice has; 0 if there is no slice.
  std::int64_t slice_sms() const;
  // The driver that work around cuDNN's goes through; kUnavailable if a
  // caller's handle comes without one and none can be loaded.
  Result<const DriverApi*> driver() const;
  // On which the handle works now.
  Result<CUstream> stream();
  // What is known of engines (engine_check.h).
  EngineValidation& engine_validation() { return *engine_validation_; }
  // Those that were listed last, ready to run (graph.h).
  std::unique_ptr<EngineCache>& engine_cache() { return engine_cache_; }

 private:
  CudnnHandle(const CudnnApi& api, GpuContext* context, cudnnHandle_t handle);

  const CudnnApi& api_;
  GpuContext* context_;  // null if the handle is not ours
  cudnnHandle_t handle_;
  const DriverApi* driver_ = nullptr;
  std::unique_ptr<EngineValidation> engine_validation_;
  std::unique_ptr<EngineCache> engine_cache_;
};

}  // namespace ucudnn::cudnn

#endif  // UCUDNN_DEVICE_CUDNN_HANDLE_H_
