#ifndef UCUDNN_CLIENT_EXAMPLES_TRAIN_REPLICA_H_
#define UCUDNN_CLIENT_EXAMPLES_TRAIN_REPLICA_H_

// One rank's copy of the network for its share of the mini-batch: forward and
// backward passes, with the convolutions run by the executor as the plan
// divides them.

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "client/examples/train/layers.h"
#include "client/examples/train/net.h"
#include "client/examples/train/parameters.h"
#include "client/executor/executor.h"
#include "device/device.h"

namespace ucudnn::train {

class Replica {
 public:
  // For plan.batch images, at least one. All memory is allocated here: of each
  // tensor and of its gradient. The arguments outlive the result.
  // kInvalidArgument if the plan lacks a kernel of the network; errors of
  // Executor::Create; kResourceExhausted without memory.
  static Result<std::unique_ptr<Replica>> Create(Device& device, Layers& layers,
                                                 const Net& net,
                                                 const WorkspacePlan& plan,
                                                 Parameters& parameters);

  BatchSize batch() const { return batch_; }
  const Executor& executor() const { return *executor_; }

  // Hands over the images, one after the other, and their classes.
  Status Load(std::span<const float> images,
              const std::vector<std::int64_t>& labels);
  // Enqueues both passes over what was loaded. Then the gradients of
  // `parameters` are those of the mean loss (cross-entropy) of these images.
  // `made` is called when all work for a layer's gradient is enqueued, for the
  // convolutions from the last to the first.
  using Made = std::function<Status(std::size_t layer)>;
  Status Run(const Made& made = {});
  // The sum of the images' losses in the last Run; waits for it.
  Result<double> Loss();

  // The time on the device of the plan's convolutions alone, on what the last
  // Run left; leaves the gradients undefined.
  Result<Nanoseconds> TimeConvolutions();

 private:
  Replica(Device& device, Layers& layers, const Net& net,
          Parameters& parameters)
      : device_(device), layers_(layers), net_(net), parameters_(parameters) {}

  Status FindKernels(const WorkspacePlan& plan);
  Status Allocate();
  Status Forward(std::size_t layer);
  Status Backward(std::size_t layer, const Made& made);
  Status AddGradient(const Extent& extent, const float* from,
                     std::size_t tensor);
  ConvArgs ArgsOf(std::size_t layer, ConvOp op, float beta) const;
  float* tensor(std::size_t i) const {
    return static_cast<float*>(tensors_[i].data());
  }
  float* gradient(std::size_t i) const {
    return static_cast<float*>(gradients_[i].data());
  }

  Device& device_;
  Layers& layers_;
  const Net& net_;
  Parameters& parameters_;
  BatchSize batch_;
  std::unique_ptr<Executor> executor_;
  // Of each layer: the executor's kernel for each operation, if any.
  std::vector<std::array<std::optional<std::size_t>, 3>> kernels_;
  std::vector<std::unique_ptr<Pool>> pools_;  // of each layer, if it is one
  std::vector<DeviceBuffer> tensors_;
  std::vector<DeviceBuffer> gradients_;  // none of the images
  // In a backward pass: whether something was put there already.
  std::vector<bool> has_gradient_;
  DeviceBuffer probabilities_;
  DeviceBuffer targets_;
  std::vector<std::int64_t> labels_;
};

}  // namespace ucudnn::train

#endif  // UCUDNN_CLIENT_EXAMPLES_TRAIN_REPLICA_H_
