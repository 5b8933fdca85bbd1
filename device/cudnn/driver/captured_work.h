#ifndef UCUDNN_DEVICE_CUDNN_DRIVER_CAPTURED_WORK_H_
#define UCUDNN_DEVICE_CUDNN_DRIVER_CAPTURED_WORK_H_

#include <functional>
#include <memory>

#include "base/result.h"
#include "device/cudnn/driver/context.h"
#include "device/device.h"

namespace ucudnn::cudnn {

// Device::Capture on the context's own stream. `context` must outlive the
// result.
Result<std::unique_ptr<CapturedWork>> CaptureWork(
    GpuContext& context, const std::function<Status()>& work,
    std::unique_ptr<CapturedWork> replaced);

}  // namespace ucudnn::cudnn

#endif  // UCUDNN_DEVICE_CUDNN_DRIVER_CAPTURED_WORK_H_
