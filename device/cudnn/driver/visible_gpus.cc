#include "device/cudnn/driver/visible_gpus.h"

#include "device/cudnn/driver/context.h"
#include "device/cudnn/driver/libraries.h"

namespace ucudnn {

Result<VisibleGpus> FindVisibleGpus() {
  UCUDNN_ASSIGN_OR_RETURN(const cudnn::Libraries* libraries,
                          cudnn::LoadedLibraries());
  const cudnn::DriverApi& driver = libraries->driver;
  int count = 0;
  CUresult result = driver.Init(0);
  if (result == CUDA_SUCCESS) result = driver.DeviceGetCount(&count);
  if (result != CUDA_SUCCESS || count == 0) {
    const CUresult why = result == CUDA_SUCCESS ? CUDA_ERROR_NO_DEVICE : result;
    return Fail(Code::kUnavailable, "the NVIDIA driver offers no GPU: {}",
                cudnn::DescribeError(driver, why, "cuInit").message);
  }
  CUdevice current = 0;
  const bool any = driver.CtxGetDevice(&current) == CUDA_SUCCESS;
  VisibleGpus gpus;
  for (int i = 0; i < count; ++i) {
    CUdevice device = 0;
    CUuuid uuid = {};
    result = driver.DeviceGet(&device, i);
    if (result == CUDA_SUCCESS) result = driver.DeviceGetUuid(&uuid, device);
    if (result != CUDA_SUCCESS) {
      return tl::unexpected<Error>(
          cudnn::DescribeError(driver, result, "cuDeviceGetUuid"));
    }
    gpus.uuids.push_back(cudnn::UuidText(uuid.bytes));
    if (any && device == current) gpus.current = i;
  }
  return gpus;
}

}  // namespace ucudnn
