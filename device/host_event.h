#ifndef UCUDNN_DEVICE_HOST_EVENT_H_
#define UCUDNN_DEVICE_HOST_EVENT_H_

// The event of devices whose memory is the host's, in their own work and in
// their copy queues. Thread safe.

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "base/result.h"
#include "base/units.h"
#include "device/device.h"

namespace ucudnn {

class HostEvent final : public Event {
 public:
  explicit HostEvent(Device& device) : device_(device) {}

  // Waits for the device.
  Status Set() override;
  Result<bool> Reached() override;
  Result<Nanoseconds> Since(const Event& start) const override;

  // For queues: Announce when the event is set in one, Reach when the queue
  // comes to it. `Announced` is what a waiter passes to Await, so that it waits
  // for the last Set before it and not for later ones.
  void Announce();
  void Reach();
  std::uint64_t Announced() const;
  void Await(std::uint64_t announced);

 private:
  using Clock = std::chrono::steady_clock;

  Device& device_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t announced_ = 0;
  std::uint64_t reached_ = 0;
  Clock::time_point time_;
};

}  // namespace ucudnn

#endif  // UCUDNN_DEVICE_HOST_EVENT_H_
