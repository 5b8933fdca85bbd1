#ifndef UCUDNN_DEVICE_CUDNN_DRIVER_STREAM_GATE_H_
#define UCUDNN_DEVICE_CUDNN_DRIVER_STREAM_GATE_H_

// Holds a stream up until it is told to go on, so that the host can enqueue
// ahead of the device:
//
//   UCUDNN_ASSIGN_OR_RETURN(auto gate, StreamGate::Begin(context, 20ms));
//   ...  // enqueue
//   gate.Release();
//
// What is enqueued meanwhile must not wait for the device. If it does all the
// same (the stream's queue is full, memory is allocated), the gate opens by
// itself after the time it was given: it never hangs.

#include <memory>

#include "base/result.h"
#include "base/units.h"
#include "device/cudnn/driver/context.h"

namespace ucudnn::cudnn {

class StreamGate {
 public:
  // On the context's stream; the calling thread is inside context.Enter().
  // kUnimplemented if the driver is too old for it.
  static Result<StreamGate> Begin(GpuContext& context, Nanoseconds most);
  StreamGate(StreamGate&&) noexcept = default;
  StreamGate& operator=(StreamGate&&) = delete;
  ~StreamGate() { Release(); }

  // Lets the stream go on; the second time does nothing.
  void Release();
  // Whether the gate had opened by itself before that.
  bool ran_out() const;

 private:
  struct State;
  explicit StreamGate(std::shared_ptr<State> state);

  std::shared_ptr<State> state_;  // null once moved from
};

}  // namespace ucudnn::cudnn

#endif  // UCUDNN_DEVICE_CUDNN_DRIVER_STREAM_GATE_H_
