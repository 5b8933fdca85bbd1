#ifndef UCUDNN_DEVICE_CUDNN_DRIVER_CAPTURED_WORK_H_
#define UCUDNN_DEVICE_CUDNN_DRIVER_CAPTURED_WORK_H_

#include <memory>
#include <span>

#include "base/result.h"
#include "device/cudnn/driver/context.h"
#include "device/device.h"

namespace ucudnn::cudnn {

// Whether the driver has what parts need that may run at once.
bool CanFork(const DriverApi& driver);

// Device::CaptureParts on the context's own stream. `context` must outlive the
// result.
//
// All parts are enqueued on this one stream, in their order. Before each, what
// the stream's next node depends on is set to the last nodes of the parts that
// it follows, so that the graph has branches without further streams or cuDNN
// handles. Without CanFork each part follows the one before.
Result<std::unique_ptr<CapturedWork>> CaptureWork(
    GpuContext& context, std::span<const CapturePart> parts,
    std::unique_ptr<CapturedWork> replaced);

}  // namespace ucudnn::cudnn

#endif  // UCUDNN_DEVICE_CUDNN_DRIVER_CAPTURED_WORK_H_
