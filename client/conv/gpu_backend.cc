#include <algorithm>
#include <utility>

#include "client/conv/backend.h"
#ifdef UCUDNN_WITH_CUDNN
#include "base/service/host.h"
#include "client/config/environment.h"
#include "client/config/variables.h"
#include "device/cudnn/cudnn_device.h"
#include "device/cudnn/driver/context.h"
#include "device/cudnn/driver/libraries.h"
#include "device/cudnn/handle.h"
#endif

namespace ucudnn {

#ifdef UCUDNN_WITH_CUDNN

namespace {

class GpuBackend final : public ConvBackend {
 public:
  static Result<std::unique_ptr<ConvBackend>> Create(
      std::unique_ptr<Device> device) {
    cudnn::CudnnHandle* const handle = cudnn::HandleOf(*device);
    UCUDNN_ASSIGN_OR_RETURN(const CUstream own, handle->stream());
    return std::unique_ptr<ConvBackend>(
        new GpuBackend(std::move(device), *handle, own));
  }

  Device& device() override { return *device_; }
  Status UseStream(void* stream) override {
    return Set(static_cast<CUstream>(stream));
  }
  Status UseOwnStream() override { return Set(own_); }

 private:
  GpuBackend(std::unique_ptr<Device> device, cudnn::CudnnHandle& handle,
             CUstream own)
      : device_(std::move(device)), handle_(handle), own_(own) {}

  Status Set(CUstream stream) {
    UCUDNN_ASSIGN_OR_RETURN(const auto scope, handle_.Enter());
    // While a stream is captured, a handle may not be given another one.
    UCUDNN_ASSIGN_OR_RETURN(const CUstream now, handle_.stream());
    if (now == stream) return {};
    return handle_.Check(handle_.api().SetStream(handle_.get(), stream),
                         "cudnnSetStream");
  }

  const std::unique_ptr<Device> device_;
  cudnn::CudnnHandle& handle_;
  const CUstream own_;
};

// The green context of `stream`, else the one that is current.
Result<CUcontext> ContextOf(const cudnn::DriverApi& driver, CUstream stream) {
  CUgreenCtx const green = cudnn::GreenContextOf(driver, stream);
  CUcontext context = nullptr;
  if (green != nullptr && driver.CtxFromGreenCtx != nullptr &&
      driver.CtxFromGreenCtx(&context, green) == CUDA_SUCCESS) {
    return context;
  }
  UCUDNN_RETURN_IF_ERROR(cudnn::Call(driver, driver.CtxGetCurrent, &context));
  if (context == nullptr) {
    return Fail(
        Code::kFailedPrecondition,
        "no CUDA context is current in this thread; select a GPU first");
  }
  return context;
}

}  // namespace

Result<std::unique_ptr<ConvBackend>> OpenGpuBackend(void* stream,
                                                    bool deterministic) {
  UCUDNN_ASSIGN_OR_RETURN(const cudnn::Libraries* libraries,
                          cudnn::LoadedLibraries());
  UCUDNN_ASSIGN_OR_RETURN(
      const CUcontext context,
      ContextOf(libraries->driver, static_cast<CUstream>(stream)));
  CudnnOptions options;
  options.graph = !deterministic;
  UCUDNN_ASSIGN_OR_RETURN(
      const auto branches,
      ReadVariable(ProcessEnvironment(), kBranchesVariable));
  options.branches = branches.value_or(false);
  options.listing_threads = std::clamp(UsableCores() / 2, 1, 8);
  UCUDNN_ASSIGN_OR_RETURN(auto device, OpenCudnnDeviceIn(context, options));
  return GpuBackend::Create(std::move(device));
}

#else

Result<std::unique_ptr<ConvBackend>> OpenGpuBackend(void*, bool) {
  return Fail(Code::kUnavailable, "this build has no cuDNN backend");
}

#endif

}  // namespace ucudnn
