#ifndef UCUDNN_CLIENT_TRAINING_MEMORY_ARENAS_H_
#define UCUDNN_CLIENT_TRAINING_MEMORY_ARENAS_H_

// The memory that a plan's blocks have on the device and on the host.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "base/training/graph.h"
#include "base/training/memory_plan.h"
#include "base/units.h"
#include "device/device.h"

namespace ucudnn {

class MemoryArenas {
 public:
  // One arena of exactly plan.peak bytes on the device, and one on the host for
  // blocks that leave and for weights that do not stay, but not for inputs.
  // `host`, if any, is used for it if it is large enough, and replaced if not.
  // kResourceExhausted, naming the arena's size.
  static Result<MemoryArenas> Allocate(Device& device,
                                       const TrainingGraph& training,
                                       const MemoryPlan& plan,
                                       DeviceBuffer* host);

  // What the plan calls this offset.
  char* At(Bytes offset) const {
    return static_cast<char*>(device_.data()) + offset.count();
  }
  // Null if the block never lies in the host arena.
  char* HostPlaceOf(std::size_t block) const {
    return offsets_[block] ? host_ + *offsets_[block] : nullptr;
  }
  // Where blocks lie when a round starts, null if they are not on the device.
  std::vector<char*> ResidentPlaces(const MemoryPlan& plan) const;

  const DeviceBuffer& device() const { return device_; }
  char* host() const { return host_; }
  Bytes host_bytes() const { return host_bytes_; }

 private:
  // Gives blocks their places on the host.
  void Place(const TrainingGraph& training, const MemoryPlan& plan);

  DeviceBuffer device_;
  DeviceBuffer own_host_;
  char* host_ = nullptr;
  Bytes host_bytes_;
  std::vector<std::optional<std::int64_t>> offsets_;  // by block
};

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_TRAINING_MEMORY_ARENAS_H_
