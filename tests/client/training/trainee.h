#ifndef UCUDNN_TESTS_CLIENT_TRAINING_TRAINEE_H_
#define UCUDNN_TESTS_CLIENT_TRAINING_TRAINEE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/training/build.h"
#include "base/training/costs.h"
#include "client/training/memory_executor.h"
#include "device/device.h"
#include "device/forwarding_device.h"
#include "device/operators/open.h"
#include "device/training/measure_tasks.h"
#include "solver/memory/policies.h"

namespace ucudnn::test {

class FullDevice final : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  Result<DeviceBuffer> Allocate(Bytes size) override {
    return Fail(Code::kResourceExhausted, "{} bytes are too many",
                size.count());
  }
};

// Bytes a microsecond of a link over which offloads are worth it, and of one
// over which computing again is.
inline constexpr double kFastLink = 10'000;
inline constexpr double kSlowLink = 10;

// A network ready to be trained on a device, and what its planner believes of
// the link.
class Trainee {
 public:
  // `batches` are those that are measured, so that plans may use them.
  Trainee(std::unique_ptr<Device> device, Graph graph,
          std::vector<BatchSize> batches = {}, double link = kFastLink,
          const TrainingOptions& options = {})
      : device_(std::move(device)),
        operators_(*OpenOperators(*device_)),
        graph_(std::move(graph)) {
    auto training = BuildTrainingGraph(graph_, options);
    EXPECT_TRUE(training) << training.error().message;
    training_ = *std::move(training);
    DeviceModel model = *DeviceModelPreset("H200");
    model.d2h_rate = model.h2d_rate = link;
    EXPECT_TRUE(SetDevice(model, &training_));
    operations_ = *OperationsOf(graph_, training_);
    batches.push_back(training_.batch);
    Measure(batches);
    parameters_ = InitialParameters(training_, operations_, 1);
    batch_ = MakeSyntheticBatch(training_, operations_, 2);
  }

  Result<MemoryPlan> Plan(std::string_view policy, Bytes budget,
                          MemoryRequest request = {}) {
    request.budget = budget;
    return PlanMemory(training_, request, **FindMemoryPolicy(policy));
  }
  // The whole batch at once, so that only memory differs.
  Result<MemoryPlan> PlanInLeastMemory(std::string_view policy,
                                       MemoryRequest request = {}) {
    request.sub_batch = training_.batch;
    const auto budget =
        SmallestBudget(training_, request, **FindMemoryPolicy(policy));
    if (!budget) return Fail(Code::kFailedPrecondition, "there is none");
    return Plan(policy, *budget, request);
  }
  MemoryPlan Undivided() { return *Plan("baseline", 1_GiB); }

  Result<std::unique_ptr<MemoryExecutor>> Executor(
      const MemoryPlan& plan, const ExecutionOptions& options) {
    return MemoryExecutor::Create(*device_, *operators_, graph_, training_,
                                  plan, parameters_, options);
  }

  // On a device that has no memory left.
  Result<std::unique_ptr<MemoryExecutor>> ExecutorWithout(
      const MemoryPlan& plan) {
    FullDevice full(*device_);
    return MemoryExecutor::Create(full, *operators_, graph_, training_, plan,
                                  parameters_, {});
  }

  // The batch that all steps train, in host memory of the device's.
  TrainingBatch BatchFor(MemoryExecutor& executor) const {
    TrainingBatch batch = *executor.MakeBatch();
    EXPECT_EQ(batch.images.size(), batch_.images.size());
    EXPECT_EQ(batch.labels.size(), batch_.labels.size());
    std::ranges::copy(batch_.images, batch.images.begin());
    std::ranges::copy(batch_.labels, batch.labels.begin());
    return batch;
  }

  struct Outcome {
    std::vector<double> losses;
    Parameters parameters;
    CapturedUse captured;
    StreamUse streams;
  };
  Outcome Train(const MemoryPlan& plan, const ExecutionOptions& options,
                int steps = 3) {
    return TrainOn(*device_, plan, options, steps);
  }
  // On a device that stands for this one.
  Outcome TrainOn(Device& device, const MemoryPlan& plan,
                  const ExecutionOptions& options, int steps) {
    Outcome outcome;
    auto executor = MemoryExecutor::Create(
        device, *operators_, graph_, training_, plan, parameters_, options);
    EXPECT_TRUE(executor) << executor.error().message;
    if (!executor) return outcome;
    EXPECT_EQ((*executor)->arena(), plan.peak);
    const TrainingBatch batch = BatchFor(**executor);
    for (int i = 0; i < steps; ++i) {
      const auto step = (*executor)->Step(batch);
      EXPECT_TRUE(step) << step.error().message;
      if (step) outcome.losses.push_back(step->loss);
    }
    outcome.parameters = *(*executor)->Download();
    outcome.captured = (*executor)->captured();
    outcome.streams = (*executor)->streams();
    return outcome;
  }

  const TrainingGraph& training() const { return training_; }
  const std::vector<TaskOperation>& operations() const { return operations_; }
  const Parameters& parameters() const { return parameters_; }
  void StartFrom(Parameters parameters) { parameters_ = std::move(parameters); }
  Device& device() { return *device_; }
  const SyntheticBatch& images() const { return batch_; }

 private:
  // One algorithm for each convolution and batch: as long as they have one
  // batch, plans differ in nothing that rounds.
  void Measure(const std::vector<BatchSize>& batches) {
    TaskMeasureOptions options;
    options.batches = batches;
    options.repeats = 1;
    const Status measured = MeasureTasks(*device_, *operators_, operations_,
                                         options, {}, &training_);
    EXPECT_TRUE(measured) << measured.error().message;
    for (Task& task : training_.tasks) {
      std::vector<MeasuredPoint> kept;
      for (MeasuredPoint& point : task.work.measured) {
        if (kept.empty() || kept.back().batch != point.batch) {
          kept.push_back(point);
        }
      }
      task.work.measured = std::move(kept);
    }
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Operators> operators_;
  Graph graph_;
  TrainingGraph training_;
  std::vector<TaskOperation> operations_;
  Parameters parameters_;
  SyntheticBatch batch_;
};

}  // namespace ucudnn::test

#endif  // UCUDNN_TESTS_CLIENT_TRAINING_TRAINEE_H_
