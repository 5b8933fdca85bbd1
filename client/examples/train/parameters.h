#ifndef UCUDNN_CLIENT_EXAMPLES_TRAIN_PARAMETERS_H_
#define UCUDNN_CLIENT_EXAMPLES_TRAIN_PARAMETERS_H_

// What is trained: the filters of all convolutions in one piece of device
// memory, and beside them, in the same order, their gradients and velocities.
// So an update is two calls and an exchange is one message.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "client/examples/train/layers.h"
#include "client/examples/train/net.h"
#include "device/device.h"

namespace ucudnn::train {

class Parameters {
 public:
  // Filters as He et al. begin, drawn evenly; the same for the same seed.
  // Velocities are 0. kResourceExhausted without memory.
  static Result<std::unique_ptr<Parameters>> Create(Device& device,
                                                    const Net& net,
                                                    std::uint64_t seed);

  // Of the convolution that is layer `layer`; in device memory.
  float* filter(std::size_t layer) const;
  float* gradient(std::size_t layer) const;
  // How many there are, with what lies between filters.
  std::int64_t count() const { return count_; }

  // velocity = momentum velocity + gradient; filter -= rate velocity.
  Status Update(Layers& layers, float rate, float momentum);

  // All of them, in device memory.
  std::span<float> gradients() const {
    return {static_cast<float*>(gradients_.data()),
            static_cast<std::size_t>(count_)};
  }

  // Neighbours, of which the gradient of `layer` is made last.
  struct Bucket {
    std::size_t layer = 0;
    std::span<float> gradients;  // in device memory
  };
  // All gradients, in the order in which a backward pass makes them; of no less
  // than `least` each, but for the last.
  std::vector<Bucket> Buckets(Bytes least) const;

  // On the host; count() elements each.
  struct State {
    std::vector<float> filters;
    std::vector<float> velocities;
  };
  Result<State> Save();
  Status Restore(const State& state);

 private:
  explicit Parameters(Device& device) : device_(device) {}
  float* At(const DeviceBuffer& buffer, std::size_t layer) const;
  Bytes size() const { return Bytes(count_ * std::int64_t{sizeof(float)}); }

  Device& device_;
  std::int64_t count_ = 0;
  std::vector<std::int64_t> offsets_;  // of each layer; -1: has no filter
  DeviceBuffer filters_;
  DeviceBuffer gradients_;
  DeviceBuffer velocities_;
};

}  // namespace ucudnn::train

#endif  // UCUDNN_CLIENT_EXAMPLES_TRAIN_PARAMETERS_H_
