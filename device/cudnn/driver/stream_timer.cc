#include "device/cudnn/driver/stream_timer.h"

#include <chrono>
#include <cstddef>
#include <utility>

#include "device/cudnn/driver/stream_gate.h"

namespace ucudnn::cudnn {

Result<std::unique_ptr<StreamTimer>> StreamTimer::Create(GpuContext& context) {
  std::unique_ptr<StreamTimer> timer(new StreamTimer(context));
  UCUDNN_ASSIGN_OR_RETURN(timer->start_, DriverEvent::Create(context));
  UCUDNN_ASSIGN_OR_RETURN(timer->stop_, DriverEvent::Create(context));
  return timer;
}

Result<Device::EnqueuedTime> StreamTimer::TimeEnqueued(
    const std::function<Status()>& work) {
  // Many times what enqueueing takes. If the host waits for the device all the
  // same, each gate wastes this time, so gates are skipped for a while.
  constexpr Nanoseconds kMost = std::chrono::milliseconds(20);
  constexpr int kMostInVain = 3;
  constexpr int kWhile = 100;
  Device::EnqueuedTime time;
  if (gates_in_vain_ >= kMostInVain) {
    if (++gates_in_vain_ == kMostInVain + kWhile) gates_in_vain_ = 0;
    UCUDNN_ASSIGN_OR_RETURN(time.device, Time(work));
    return time;
  }
  UCUDNN_RETURN_IF_ERROR(UseSecondStream());
  auto gate = StreamGate::Begin(context_, kMost);
  if (!gate && gate.error().code == Code::kUnimplemented) {
    UCUDNN_ASSIGN_OR_RETURN(time.device, Time(work));
    return time;
  }
  if (!gate) return tl::unexpected<Error>(std::move(gate).error());
  const auto begun = std::chrono::steady_clock::now();
  UCUDNN_ASSIGN_OR_RETURN(time.device, TimeBetweenEvents(work, [&] {
                            gate->Release();
                            time.host =
                                std::chrono::steady_clock::now() - begun;
                          }));
  gates_in_vain_ = gate->ran_out() ? gates_in_vain_ + 1 : 0;
  if (gate->ran_out()) time.host = Nanoseconds(0);
  return time;
}

// From then on each kernel of the process starts later, as in most jobs, which
// have several streams (docs/adr/0052).
Status StreamTimer::UseSecondStream() {
  constexpr int kKernels = 32;              // more than ten
  constexpr std::size_t kFilled = 1 << 20;  // bytes by each; less may need none
  if (second_stream_used_) return {};
  const DriverApi& driver = context_.driver();
  const auto second =
      GpuContext::Adopt(driver, context_.current(), context_.name());
  CUdeviceptr buffer = 0;
  if (!second || driver.MemAlloc(&buffer, kFilled) != CUDA_SUCCESS) {
    return {};  // memory is short: perhaps next time
  }
  Status status;
  for (int i = 0; i < kKernels && status; ++i) {
    status = context_.Call(driver.MemsetD8Async, buffer, 0, kFilled,
                           (*second)->stream());
  }
  if (status) {
    second_stream_used_ = true;
    status = context_.Call(driver.StreamSynchronize, (*second)->stream());
  }
  if (!context_.lost()) (void)driver.MemFree(buffer);
  return status;
}

Result<Nanoseconds> StreamTimer::TimeBetweenEvents(
    const std::function<Status()>& work,
    const std::function<void()>& enqueued) {
  UCUDNN_RETURN_IF_ERROR(start_->Set());
  UCUDNN_RETURN_IF_ERROR(work());
  UCUDNN_RETURN_IF_ERROR(stop_->Set());
  enqueued();
  UCUDNN_RETURN_IF_ERROR(stop_->Await());
  return stop_->Since(*start_);
}

}  // namespace ucudnn::cudnn
