#ifndef UCUDNN_DEVICE_CUDNN_DRIVER_COPY_QUEUE_H_
#define UCUDNN_DEVICE_CUDNN_DRIVER_COPY_QUEUE_H_

// CopyQueue (device/device.h) as a CUDA stream of its own.

#include <memory>

#include "base/result.h"
#include "device/cudnn/driver/context.h"
#include "device/device.h"

namespace ucudnn::cudnn {

class DriverCopyQueue final : public CopyQueue {
 public:
  // `context` must outlive the result.
  static Result<std::unique_ptr<DriverCopyQueue>> Create(GpuContext& context);
  // Waits for the enqueued copies. In a lost context nothing can be destroyed.
  ~DriverCopyQueue() override;
  DriverCopyQueue(const DriverCopyQueue&) = delete;
  DriverCopyQueue& operator=(const DriverCopyQueue&) = delete;

  Status Upload(void* device, const void* host, Bytes size) override;
  Status Download(void* host, const void* device, Bytes size) override;
  Status Set(Event& event) override;
  Status WaitFor(Event& event) override;
  Status Synchronize() override;

 private:
  DriverCopyQueue(GpuContext& context, CUstream stream)
      : context_(context), stream_(stream) {}

  GpuContext& context_;
  const CUstream stream_;
};

}  // namespace ucudnn::cudnn

#endif  // UCUDNN_DEVICE_CUDNN_DRIVER_COPY_QUEUE_H_
