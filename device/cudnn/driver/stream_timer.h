#ifndef UCUDNN_DEVICE_CUDNN_DRIVER_STREAM_TIMER_H_
#define UCUDNN_DEVICE_CUDNN_DRIVER_STREAM_TIMER_H_

// The device's time for work on a context's stream, between two events. All
// calls are inside context.Enter().

#include <functional>
#include <memory>

#include "base/result.h"
#include "base/units.h"
#include "device/cudnn/driver/context.h"
#include "device/cudnn/driver/event.h"
#include "device/device.h"

namespace ucudnn::cudnn {

class StreamTimer {
 public:
  // `context` must outlive the result.
  static Result<std::unique_ptr<StreamTimer>> Create(GpuContext& context);

  Result<Nanoseconds> Time(const std::function<Status()>& work) {
    return TimeBetweenEvents(work, [] {});
  }
  // Device::TimeEnqueued: a StreamGate holds the work back. As Time, without
  // the host's, if the driver has none, or if the host lately waited for the
  // device all the same.
  Result<Device::EnqueuedTime> TimeEnqueued(
      const std::function<Status()>& work);

 private:
  explicit StreamTimer(GpuContext& context) : context_(context) {}
  // Calls `enqueued` once all of `work` is enqueued.
  Result<Nanoseconds> TimeBetweenEvents(const std::function<Status()>& work,
                                        const std::function<void()>& enqueued);
  // Runs kernels in a second stream, once.
  Status UseSecondStream();

  GpuContext& context_;
  std::unique_ptr<DriverEvent> start_;
  std::unique_ptr<DriverEvent> stop_;
  int gates_in_vain_ = 0;  // consecutive ones, then timings without a gate
  bool second_stream_used_ = false;
};

}  // namespace ucudnn::cudnn

#endif  // UCUDNN_DEVICE_CUDNN_DRIVER_STREAM_TIMER_H_
