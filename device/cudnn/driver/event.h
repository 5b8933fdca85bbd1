#ifndef UCUDNN_DEVICE_CUDNN_DRIVER_EVENT_H_
#define UCUDNN_DEVICE_CUDNN_DRIVER_EVENT_H_

// Event (device/device.h) as a CUDA event on a context's stream.

#include <memory>

#include "base/result.h"
#include "device/cudnn/driver/context.h"
#include "device/device.h"

namespace ucudnn::cudnn {

class DriverEvent final : public Event {
 public:
  // `context` must outlive the result.
  static Result<std::unique_ptr<DriverEvent>> Create(GpuContext& context);
  // In a lost context nothing can be destroyed.
  ~DriverEvent() override;
  DriverEvent(const DriverEvent&) = delete;
  DriverEvent& operator=(const DriverEvent&) = delete;

  Status Set() override;
  Result<bool> Reached() override;
  Result<Nanoseconds> Since(const Event& start) const override;
  // Waits until the device has reached the event.
  Status Await();

 private:
  DriverEvent(GpuContext& context, CUevent event)
      : context_(context), event_(event) {}

  GpuContext& context_;
  const CUevent event_;
};

}  // namespace ucudnn::cudnn

#endif  // UCUDNN_DEVICE_CUDNN_DRIVER_EVENT_H_
