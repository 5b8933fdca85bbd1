#include "device/host_event.h"

namespace ucudnn {

Status HostEvent::Set() {
  UCUDNN_RETURN_IF_ERROR(device_.Synchronize());
  Announce();
  Reach();
  return {};
}

Result<bool> HostEvent::Reached() {
  const std::lock_guard lock(mutex_);
  return reached_ == announced_;
}

Result<Nanoseconds> HostEvent::Since(const Event& start) const {
  const auto& first = dynamic_cast<const HostEvent&>(start);
  const auto time_of = [](const HostEvent& event) {
    const std::lock_guard lock(event.mutex_);
    return event.time_;
  };
  return std::chrono::duration_cast<Nanoseconds>(time_of(*this) -
                                                 time_of(first));
}

void HostEvent::Announce() {
  const std::lock_guard lock(mutex_);
  ++announced_;
}

void HostEvent::Reach() {
  {
    const std::lock_guard lock(mutex_);
    ++reached_;
    time_ = Clock::now();
  }
  changed_.notify_all();
}

std::uint64_t HostEvent::Announced() const {
  const std::lock_guard lock(mutex_);
  return announced_;
}

void HostEvent::Await(std::uint64_t announced) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return reached_ >= announced; });
}

}  // namespace ucudnn
