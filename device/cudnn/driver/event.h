#ifndef UCUDNN_DEVICE_CUDNN_DRIVER_EVENT_H_
#define UCUDNN_DEVICE_CUDNN_DRIVER_EVENT_H_

// Event (device/device.h) as a CUDA event on streams of a context.

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

  Status Set() override { return SetIn(context_.stream()); }
  Result<bool> Reached() override;
  Result<Nanoseconds> Since(const Event& start) const override;
  // The same as Set, in another stream of the context.
  Status SetIn(CUstream stream);
  // What is enqueued in `stream` from now on waits for the event.
  // kUnimplemented if the driver cannot do that.
  Status WaitIn(CUstream stream);
  // Waits until the device has reached the event.
  Status Await();

 private:
  DriverEvent(GpuContext& context, CUevent event)
      : context_(context), event_(event) {}

  GpuContext& context_;
  const CUevent event_;
};

// `event` as one of a GPU's; kInvalidArgument if it is of another backend.
Result<DriverEvent*> DriverEventOf(Event& event);

}  // namespace ucudnn::cudnn

#endif  // UCUDNN_DEVICE_CUDNN_DRIVER_EVENT_H_
