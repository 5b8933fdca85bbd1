#ifndef UCUDNN_DEVICE_CUDNN_EVENT_MARK_H_
#define UCUDNN_DEVICE_CUDNN_EVENT_MARK_H_

// Marks in the order of a context's work (device/device.h), which are events.

#include <memory>

#include "base/result.h"
#include "device/cudnn/context.h"
#include "device/device.h"

namespace ucudnn::cudnn {

class EventMark final : public Mark {
 public:
  // `context` outlives the result.
  static Result<std::unique_ptr<EventMark>> Create(GpuContext& context);
  // In a lost context nothing can be destroyed.
  ~EventMark() override;
  EventMark(const EventMark&) = delete;
  EventMark& operator=(const EventMark&) = delete;

  Status Set() override;
  Result<bool> Reached() override;
  Result<Nanoseconds> Since(const Mark& start) const override;
  // Waits until the device is past it.
  Status Await();

 private:
  EventMark(GpuContext& context, CUevent event)
      : context_(context), event_(event) {}

  GpuContext& context_;
  const CUevent event_;
};

}  // namespace ucudnn::cudnn

#endif  // UCUDNN_DEVICE_CUDNN_EVENT_MARK_H_
