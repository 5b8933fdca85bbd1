#ifndef UCUDNN_DEVICE_CUDNN_DRIVER_STREAM_GATE_H_
#define UCUDNN_DEVICE_CUDNN_DRIVER_STREAM_GATE_H_

// Blocks a stream until it is released, so that the host can enqueue ahead of
// the device:
//
//   UCUDNN_ASSIGN_OR_RETURN(auto gate, StreamGate::Begin(context, 20ms));
//   ...  // enqueue
//   gate.Release();
//
// Work enqueued meanwhile must not wait for the device. If it does (because the
// stream's queue is full or it allocates memory), the gate opens by itself
// after a time limit, so it never hangs.

#include <memory>

#include "base/result.h"
#include "base/units.h"
#include "device/cudnn/driver/context.h"

namespace ucudnn::cudnn {

class StreamGate {
 public:
  // Blocks the context's stream for at most `most`; the calling thread is
  // inside context.Enter(). kUnimplemented if the driver is too old.
  static Result<StreamGate> Begin(GpuContext& context, Nanoseconds most);
  StreamGate(StreamGate&&) noexcept = default;
  StreamGate& operator=(StreamGate&&) = delete;
  ~StreamGate() { Release(); }

  // Lets the stream continue; idempotent.
  void Release();
  // Whether the gate opened by itself before Release.
  bool ran_out() const;

 private:
  struct State;
  explicit StreamGate(std::shared_ptr<State> state);

  std::shared_ptr<State> state_;  // null once moved from
};

}  // namespace ucudnn::cudnn

#endif  // UCUDNN_DEVICE_CUDNN_DRIVER_STREAM_GATE_H_
