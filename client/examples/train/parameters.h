#ifndef UCUDNN_CLIENT_EXAMPLES_TRAIN_PARAMETERS_H_
#define UCUDNN_CLIENT_EXAMPLES_TRAIN_PARAMETERS_H_

// The trained parameters: the filters of all convolutions in one piece of
// device memory, and in the same order their gradients and velocities. So an
// update takes two calls, and an exchange one message.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "client/examples/train/net.h"
#include "device/device.h"
#include "device/operators/operators.h"

namespace ucudnn::train {

class Parameters {
 public:
  // Draws initial filters from a uniform distribution with He et al.'s
  // variance, the same for the same seed. Velocities start at 0.
  // kResourceExhausted if memory runs out.
  static Result<std::unique_ptr<Parameters>> Create(Device& device,
                                                    const Net& net,
                                                    std::uint64_t seed);

  // The filter and gradient of layer `layer`, a convolution, in device memory.
  float* filter(std::size_t layer) const;
  float* gradient(std::size_t layer) const;
  // The number of elements, including the padding between filters.
  std::int64_t count() const { return count_; }

  // velocity = momentum * velocity + gradient; filter -= rate * velocity.
  Status Update(Operators& operators, float rate, float momentum);

  // All gradients, in device memory.
  std::span<float> gradients() const {
    return {static_cast<float*>(gradients_.data()),
            static_cast<std::size_t>(count_)};
  }

  // Gradients of consecutive layers; that of `layer` is computed last.
  struct Bucket {
    std::size_t layer = 0;
    std::span<float> gradients;  // in device memory
  };
  // All gradients in buckets, in the order in which a backward pass computes
  // them. Each bucket has at least `least` bytes, except the last.
  std::vector<Bucket> Buckets(Bytes least) const;

  // Host copies of count() elements each.
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
  std::vector<std::int64_t> offsets_;  // by layer; -1: no filter
  DeviceBuffer filters_;
  DeviceBuffer gradients_;
  DeviceBuffer velocities_;
};

}  // namespace ucudnn::train

#endif  // UCUDNN_CLIENT_EXAMPLES_TRAIN_PARAMETERS_H_
