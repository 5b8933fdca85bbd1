#ifndef UCUDNN_CLIENT_EXAMPLES_TRAIN_REPLICA_H_
#define UCUDNN_CLIENT_EXAMPLES_TRAIN_REPLICA_H_

// One rank's copy of the network for its share of the mini-batch: forward and
// backward passes whose convolutions the executor runs as planned.

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "client/examples/train/net.h"
#include "client/examples/train/parameters.h"
#include "client/executor/executor.h"
#include "device/device.h"
#include "device/operators/operators.h"

namespace ucudnn::train {

class Replica {
 public:
  // For plan.batch images, at least one. Allocates all memory: tensors and
  // their gradients. The arguments must outlive the result. kInvalidArgument if
  // the plan lacks a kernel of the network; errors of Executor::Create;
  // kResourceExhausted if memory runs out.
  static Result<std::unique_ptr<Replica>> Create(Device& device,
                                                 Operators& operators,
                                                 const Net& net,
                                                 const WorkspacePlan& plan,
                                                 Parameters& parameters);

  BatchSize batch() const { return batch_; }
  const Executor& executor() const { return *executor_; }

  // Begins to copy the images of the next Run, consecutive in memory, and their
  // classes to the device, while it computes. The images stay until then. Runs
  // after it have the same images until others are loaded.
  Status Load(std::span<const float> images,
              const std::vector<std::int64_t>& labels);
  // Waits for the images and enqueues both passes over them. They compute the
  // gradients of their mean cross-entropy loss into `parameters`. Calls `made`
  // after enqueueing all work for a layer's gradient, from the last convolution
  // to the first.
  using Made = std::function<Status(std::size_t layer)>;
  Status Run(const Made& made = {});
  // The sum of the images' losses in the last Run; waits for it.
  Result<double> Loss();

  // The device time of the plan's convolutions alone, on the tensors of the
  // last Run. Leaves the gradients undefined.
  Result<Nanoseconds> TimeConvolutions();

 private:
  Replica(Device& device, Operators& operators, const Net& net,
          Parameters& parameters)
      : device_(device),
        operators_(operators),
        net_(net),
        parameters_(parameters) {}

  Status FindKernels(const WorkspacePlan& plan);
  Status Allocate();
  Status Forward(std::size_t layer);
  Status Backward(std::size_t layer, const Made& made);
  Status AddGradient(const float* from, std::size_t tensor);
  // The beta of a gradient of tensor i: 1 if the pass has written one before.
  float BetaOf(std::size_t i);
  ConvArgs ArgsOf(std::size_t layer, ConvOp op, float beta) const;
  float* tensor(std::size_t i) const {
    return static_cast<float*>(tensors_[i].data());
  }
  float* gradient(std::size_t i) const {
    return static_cast<float*>(gradients_[i].data());
  }

  Device& device_;
  Operators& operators_;
  const Net& net_;
  Parameters& parameters_;
  BatchSize batch_;
  std::unique_ptr<Executor> executor_;
  // For each layer, the executor's kernel for each operation, if any.
  std::vector<std::array<std::optional<std::size_t>, 3>> kernels_;
  std::vector<DeviceBuffer> tensors_;
  std::vector<DeviceBuffer> gradients_;  // none for the images
  // During a backward pass: whether the tensor's gradient has been written.
  std::vector<bool> has_gradient_;
  DeviceBuffer labels_;  // a class an image
  // Of the next Run, and the classes on their way there.
  DeviceBuffer next_images_;
  DeviceBuffer next_labels_;
  std::vector<std::int32_t> classes_;
  std::unique_ptr<CopyQueue> copies_;
  bool loading_ = false;
  DeviceBuffer probabilities_;  // that the network gives to that class
};

}  // namespace ucudnn::train

#endif  // UCUDNN_CLIENT_EXAMPLES_TRAIN_REPLICA_H_
