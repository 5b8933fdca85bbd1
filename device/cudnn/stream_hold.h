#ifndef UCUDNN_DEVICE_CUDNN_STREAM_HOLD_H_
#define UCUDNN_DEVICE_CUDNN_STREAM_HOLD_H_

// Holds a stream up until it is told to go on, so that the host can enqueue
// ahead of the device:
//
//   UCUDNN_ASSIGN_OR_RETURN(auto hold, StreamHold::Begin(context, 20ms));
//   ...  // enqueue
//   hold.Release();
//
// What is enqueued meanwhile must not wait for the device. If it does all the
// same (the stream's queue is full, memory is allocated), the hold ends by
// itself after the time it was given: it never hangs.

#include <memory>

#include "base/result.h"
#include "base/units.h"
#include "device/cudnn/context.h"

namespace ucudnn::cudnn {

class StreamHold {
 public:
  // On the context's stream; the calling thread is inside context.Enter().
  // kUnimplemented if the driver is too old for it.
  static Result<StreamHold> Begin(GpuContext& context, Nanoseconds most);
  StreamHold(StreamHold&&) noexcept = default;
  StreamHold& operator=(StreamHold&&) = delete;
  ~StreamHold() { Release(); }

  // Lets the stream go on; the second time does nothing.
  void Release();
  // Whether the hold had ended by itself before that.
  bool ran_out() const;

 private:
  struct Gate;
  explicit StreamHold(std::shared_ptr<Gate> gate);

  std::shared_ptr<Gate> gate_;  // null once moved from
};

}  // namespace ucudnn::cudnn

#endif  // UCUDNN_DEVICE_CUDNN_STREAM_HOLD_H_
