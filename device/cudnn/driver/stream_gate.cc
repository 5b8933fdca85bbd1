#include "device/cudnn/driver/stream_gate.h"

#include <condition_variable>
#include <mutex>
#include <utility>

namespace ucudnn::cudnn {

struct StreamGate::State {
  explicit State(Nanoseconds longest) : most(longest) {}

  // The stream runs this on a thread of the driver's.
  static void CUDA_CB Wait(void* data) {
    const std::unique_ptr<std::shared_ptr<State>> owner(
        static_cast<std::shared_ptr<State>*>(data));
    State& state = **owner;
    std::unique_lock lock(state.mutex);
    state.ran_out = !state.changed.wait_for(lock, state.most,
                                            [&state] { return state.open; });
  }

  const Nanoseconds most;
  std::mutex mutex;
  std::condition_variable changed;
  bool open = false;
  bool ran_out = false;
};

StreamGate::StreamGate(std::shared_ptr<State> state)
    : state_(std::move(state)) {}

Result<StreamGate> StreamGate::Begin(GpuContext& context, Nanoseconds most) {
  const DriverApi& driver = context.driver();
  if (driver.LaunchHostFunc == nullptr) {
    return Fail(Code::kUnimplemented, "the driver has no cuLaunchHostFunc");
  }
  auto state = std::make_shared<State>(most);
  // The stream co-owns the state: it may reach the gate long after we are gone.
  auto owner = std::make_unique<std::shared_ptr<State>>(state);
  UCUDNN_RETURN_IF_ERROR(context.Call(driver.LaunchHostFunc, context.stream(),
                                      &State::Wait, owner.get()));
  (void)owner.release();  // Wait owns it
  return StreamGate(std::move(state));
}

void StreamGate::Release() {
  if (state_ == nullptr) return;
  {
    const std::lock_guard lock(state_->mutex);
    state_->open = true;
  }
  state_->changed.notify_all();
}

bool StreamGate::ran_out() const {
  if (state_ == nullptr) return false;
  const std::lock_guard lock(state_->mutex);
  return state_->ran_out;
}

}  // namespace ucudnn::cudnn
