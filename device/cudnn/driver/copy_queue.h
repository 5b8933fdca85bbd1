#ifndef UCUDNN_DEVICE_CUDNN_DRIVER_COPY_QUEUE_H_
#define UCUDNN_DEVICE_CUDNN_DRIVER_COPY_QUEUE_H_

// Copies between host and device on streams of a context, which outlives them.

#include <memory>

#include "base/result.h"
#include "device/cudnn/driver/context.h"
#include "device/device.h"

namespace ucudnn::cudnn {

// Enqueue a copy of `size` bytes.
Status EnqueueUpload(GpuContext& context, CUstream stream, void* device,
                     const void* host, Bytes size);
Status EnqueueDownload(GpuContext& context, CUstream stream, void* host,
                       const void* device, Bytes size);

// CopyQueue (device/device.h) as a CUDA stream of its own.
Result<std::unique_ptr<CopyQueue>> CreateCopyQueue(GpuContext& context);

}  // namespace ucudnn::cudnn

#endif  // UCUDNN_DEVICE_CUDNN_DRIVER_COPY_QUEUE_H_
