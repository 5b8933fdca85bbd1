#include "device/cudnn/stream_hold.h"

#include <condition_variable>
#include <mutex>
#include <utility>

namespace ucudnn::cudnn {

struct StreamHold::Gate {
  explicit Gate(Nanoseconds longest) : most(longest) {}

  // What the stream runs, on a thread of the driver's.
  static void CUDA_CB Wait(void* data) {
    const std::unique_ptr<std::shared_ptr<Gate>> owner(
        static_cast<std::shared_ptr<Gate>*>(data));
    Gate& gate = **owner;
    std::unique_lock lock(gate.mutex);
    gate.ran_out =
        !gate.changed.wait_for(lock, gate.most, [&gate] { return gate.open; });
  }

  const Nanoseconds most;
  std::mutex mutex;
  std::condition_variable changed;
  bool open = false;
  bool ran_out = false;
};

StreamHold::StreamHold(std::shared_ptr<Gate> gate) : gate_(std::move(gate)) {}

Result<StreamHold> StreamHold::Begin(GpuContext& context, Nanoseconds most) {
  const DriverApi& driver = context.driver();
  if (driver.LaunchHostFunc == nullptr) {
    return Fail(Code::kUnimplemented, "the driver has no cuLaunchHostFunc");
  }
  auto gate = std::make_shared<Gate>(most);
  // The stream's own share: it may reach the gate when the hold is long gone.
  auto owner = std::make_unique<std::shared_ptr<Gate>>(gate);
  UCUDNN_RETURN_IF_ERROR(context.Check(
      driver.LaunchHostFunc(context.stream(), &Gate::Wait, owner.get()),
      "cuLaunchHostFunc"));
  (void)owner.release();  // Wait has it
  return StreamHold(std::move(gate));
}

void StreamHold::Release() {
  if (gate_ == nullptr) return;
  {
    const std::lock_guard lock(gate_->mutex);
    gate_->open = true;
  }
  gate_->changed.notify_all();
}

bool StreamHold::ran_out() const {
  if (gate_ == nullptr) return false;
  const std::lock_guard lock(gate_->mutex);
  return gate_->ran_out;
}

}  // namespace ucudnn::cudnn
