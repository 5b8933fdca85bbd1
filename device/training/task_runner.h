#ifndef UCUDNN_DEVICE_TRAINING_TASK_RUNNER_H_
#define UCUDNN_DEVICE_TRAINING_TASK_RUNNER_H_

// Enqueues one task of a training graph on a device.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "base/result.h"
#include "base/training/graph.h"
#include "base/training/memory_plan.h"
#include "device/accuracy.h"
#include "device/device.h"
#include "device/micro_batches.h"
#include "device/operators/operators.h"
#include "device/training/rank_exchange.h"
#include "device/training/task_operations.h"

namespace ucudnn {

// A convolution's micro-batches, prepared.
struct PreparedParts {
  std::vector<MicroBatchStep> steps;
  ImageStrides strides;
  Bytes workspace;  // what its largest part needs
};

// What a task needs to know of the round that it runs in.
struct RoundState {
  BatchSize batch;
  std::int64_t first = 0;   // image of this rank's share
  std::int64_t before = 0;  // images of the mini-batch before the share
  std::uint32_t step = 0;   // of the training, for dropouts
  float loss_scale = 1;     // 1 / losses of the mini-batch
  float rate = 0;           // of learning
  float momentum = 0;
  float* probabilities = nullptr;  // of the round's labels
  // Whether a task adds to weight gradients instead of replacing them.
  bool adds = false;
  // Whether the task has run before in this round.
  bool reruns = false;
  // Forward with running statistics and without dropout.
  bool infers = false;
  // Of normalisations with the other ranks; null: over the round's images.
  SharedStatistics* shared = nullptr;
};

class TaskRunner {
 public:
  // The arguments must outlive it; one operation for each task of `graph`.
  TaskRunner(Device& device, Operators& operators, const TrainingGraph& graph,
             std::span<const TaskOperation> operations)
      : device_(device),
        operators_(operators),
        graph_(graph),
        operations_(operations) {}

  // Other shapes of the same tasks. What was prepared is no longer valid.
  void Replace(std::span<const TaskOperation> operations);

  // Prepares how `task` runs `batch` images. The names of algorithms are those
  // of CostsAt. One that needs more than `most` of workspace, or does not suit
  // the shapes, is replaced by what the device suggests. kNotFound if the graph
  // has no measured algorithm of this name; errors of SuggestWithin and of the
  // device.
  Result<PreparedParts> Prepare(std::size_t task, BatchSize batch,
                                std::span<const TaskPart> parts,
                                std::optional<Bytes> most = {});

  // Enqueues `task`, whose blocks lie at `blocks[block]`. `parts` are those of
  // a convolution.
  Status Run(std::size_t task, std::span<float* const> blocks,
             const PreparedParts& parts, void* workspace, Bytes workspace_size,
             const RoundState& state);

  // Whether `task` does the same in every step, given the same addresses and
  // RoundState::adds.
  bool Repeats(std::size_t task) const {
    return operations_[task].what != TaskOperator::kDropout;
  }
  bool Normalises(std::size_t task) const {
    return operations_[task].what == TaskOperator::kNormalise;
  }

 private:
  Result<Convolution*> PreparedConvolution(const ConvProblem& problem,
                                           BatchSize batch,
                                           const Algorithm& algorithm,
                                           std::optional<Bytes> most);
  Status RunConvolution(const TaskOperation& operation,
                        std::span<float* const> blocks,
                        const PreparedParts& parts, void* workspace,
                        Bytes workspace_size, const RoundState& state);
  Status RunUpdate(const TaskOperation& operation,
                   std::span<float* const> blocks, const RoundState& state);
  Status RunBackward(const TaskOperation& operation,
                     std::span<float* const> blocks, const RoundState& state);
  Status NormaliseForward(std::size_t task, std::span<float* const> blocks,
                          const RoundState& state);
  Status NormaliseBackward(const TaskOperation& operation,
                           std::span<float* const> blocks, float beta,
                           const RoundState& state);
  Status RunForward(std::size_t task, const TaskOperation& operation,
                    std::span<float* const> blocks, const RoundState& state);
  // Between the parts of a tensor and the whole, or between their gradients.
  Status CopyParts(const TaskOperation& operation,
                   std::span<float* const> blocks, BatchSize batch);
  Status MultiplyBackward(const TaskOperation& operation,
                          std::span<float* const> blocks, BatchSize batch);
  // The beta of gradient `dx`, which is added to `old` if there is one, after
  // the old sum was copied into the new block if these differ.
  Result<float> BetaOf(std::size_t dx, std::optional<std::size_t> old,
                       std::span<float* const> blocks, BatchSize batch);

  using Key = std::tuple<ConvProblem, BatchSize, Algorithm>;

  Device& device_;
  Operators& operators_;
  const TrainingGraph& graph_;
  std::span<const TaskOperation> operations_;
  AlgorithmErrors errors_;
  std::map<Key, std::unique_ptr<Convolution>> convolutions_;
};

}  // namespace ucudnn

#endif  // UCUDNN_DEVICE_TRAINING_TASK_RUNNER_H_
