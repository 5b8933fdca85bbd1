#include "device/cudnn/driver/visible_gpus.h"

#include "device/cudnn/driver/context.h"
#include "device/cudnn/driver/libraries.h"

namespace ucudnn {

Result<VisibleGpus> FindVisibleGpus() {
  UCUDNN_ASSIGN_OR_RETURN(const cudnn::Libraries* libraries,
                          cudnn::LoadedLibraries());
  const cudnn::DriverApi& driver = libraries->driver;
  UCUDNN_ASSIGN_OR_RETURN(const int count, cudnn::CountGpus(driver));
  CUdevice current = 0;
  const bool any = driver.CtxGetDevice(&current) == CUDA_SUCCESS;
  VisibleGpus gpus;
  for (int i = 0; i < count; ++i) {
    CUdevice device = 0;
    UCUDNN_RETURN_IF_ERROR(cudnn::Call(driver, driver.DeviceGet, &device, i));
    UCUDNN_ASSIGN_OR_RETURN(gpus.uuids.emplace_back(),
                            cudnn::UuidOf(driver, device));
    if (any && device == current) gpus.current = i;
  }
  return gpus;
}

}  // namespace ucudnn
