#include "device/training/measure_tasks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "base/training/step_tasks.h"
#include "device/forwarding_device.h"
#include "device/onednn/onednn_device.h"
#include "device/operators/open.h"
#include "tests/support/forwarding_operators.h"
#include "tests/support/small_networks.h"

namespace ucudnn {
namespace {

constexpr Nanoseconds kEach = std::chrono::milliseconds(8);

// Everything takes 8 ms, and betas are noted.
class TimedDevice final : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  Bytes cache() const override { return 1_MiB; }
  Result<Nanoseconds> Time(const std::function<Status()>& work) override {
    UCUDNN_RETURN_IF_ERROR(work());
    return kEach;
  }
  Result<std::unique_ptr<Convolution>> Prepare(
      const ConvProblem& problem, BatchSize batch,
      const Algorithm& algorithm) override {
    UCUDNN_ASSIGN_OR_RETURN(auto convolution,
                            device_.Prepare(problem, batch, algorithm));
    return std::make_unique<Noted>(std::move(convolution), &betas[problem.op]);
  }
  std::map<ConvOp, std::set<float>> betas;

 private:
  class Noted final : public Convolution {
   public:
    Noted(std::unique_ptr<Convolution> convolution, std::set<float>* betas)
        : convolution_(std::move(convolution)), betas_(betas) {}
    Bytes workspace() const override { return convolution_->workspace(); }
    Status Run(const ConvArgs& args, void* workspace, Bytes size) override {
      betas_->insert(args.beta);
      return convolution_->Run(args, workspace, size);
    }

   private:
    std::unique_ptr<Convolution> convolution_;
    std::set<float>* const betas_;
  };
};

// Notes what operators are measured on.
class NotedOperators final : public test::ForwardingOperators {
 public:
  using ForwardingOperators::ForwardingOperators;

  Status PoolBackward(BatchSize batch, const Pooling& pooling, const float* x,
                      const float* y, const float* dy, float beta,
                      float* dx) override {
    if (x != nullptr) {
      const auto [least, most] =
          std::minmax_element(x, x + batch.count() * pooling.input.elements());
      least_pooled = std::min(least_pooled, *least);
      most_pooled = std::max(most_pooled, *most);
      const std::set<float> values(
          x, x + batch.count() * pooling.input.elements());
      fewest_values = std::min(fewest_values, values.size());
    }
    return ForwardingOperators::PoolBackward(batch, pooling, x, y, dy, beta,
                                             dx);
  }
  Status BiasBackward(BatchSize batch, const ImageExtent& extent,
                      const float* dy, float beta, float* dbias) override {
    biases.push_back({batch, extent.elements(), dy});
    return ForwardingOperators::BiasBackward(batch, extent, dy, beta, dbias);
  }
  Status Blend(BatchSize batch, std::int64_t elements, float alpha,
               const float* a, float beta, float* out) override {
    least_alpha = std::min(least_alpha, std::abs(alpha));
    return ForwardingOperators::Blend(batch, elements, alpha, a, beta, out);
  }

  Status Normalise(BatchSize batch, const Normalisation& normalisation,
                   const float* x, const float* w, float* y,
                   float* statistics) override {
    ++normalised;
    return ForwardingOperators::Normalise(batch, normalisation, x, w, y,
                                          statistics);
  }
  Status NormaliseBySums(BatchSize batch, const Normalisation& normalisation,
                         const float* x, const double* sums,
                         std::int64_t values, const float* w, float* y,
                         float* statistics) override {
    ++normalised_by_sums;
    return ForwardingOperators::NormaliseBySums(batch, normalisation, x, sums,
                                                values, w, y, statistics);
  }

  struct Bias {
    BatchSize batch;
    std::int64_t elements = 0;
    const float* dy = nullptr;
  };
  float least_pooled = 1, most_pooled = 0, least_alpha = 1;
  std::size_t fewest_values = 1000;  // different ones that were pooled
  std::vector<Bias> biases;
  int normalised = 0, normalised_by_sums = 0;
};

class MeasureTasksTest : public ::testing::Test {
 protected:
  void Measure(const Graph& graph, std::vector<BatchSize> batches,
               TaskMeasureOptions options = {}) {
    training_ = *BuildTrainingGraph(graph, {});
    operations_ = *OperationsOf(graph, training_);
    options.batches = std::move(batches);
    options.repeats = 2;
    const Status measured =
        MeasureTasks(device_, operators_, operations_, options, {}, &training_);
    ASSERT_TRUE(measured) << measured.error().message;
  }

  std::unique_ptr<Device> cpu_ = *OpenOneDnnDevice({.threads = 1});
  TimedDevice device_{*cpu_};
  std::unique_ptr<Operators> opened_ = *OpenOperators(*cpu_);
  NotedOperators operators_{*opened_};
  TrainingGraph training_;
  std::vector<TaskOperation> operations_;
};

TEST_F(MeasureTasksTest, PoolsOutputsOfRelus) {
  Measure(test::SmallChain(8), {BatchSize(8)});
  EXPECT_EQ(operators_.least_pooled, 0);
  EXPECT_GT(operators_.most_pooled, 0);
}

// Whatever tasks that were measured before, with larger batches, have left in
// the memory that all share.
TEST_F(MeasureTasksTest, PoolsRandomValues) {
  Measure(test::SmallChain(8), {BatchSize(8), BatchSize(4), BatchSize(2)});
  EXPECT_GT(operators_.fewest_values, 20U);
}

TEST_F(MeasureTasksTest, TakesStatisticsAsRanksExchangeThem) {
  Measure(test::SmallResidual(8), {BatchSize(8)});
  EXPECT_GT(operators_.normalised, 0);
  EXPECT_EQ(operators_.normalised_by_sums, 0);
  operators_.normalised = 0;
  TaskMeasureOptions options;
  options.exchanged_statistics = true;
  Measure(test::SmallResidual(8), {BatchSize(8)}, options);
  EXPECT_EQ(operators_.normalised, 0);
  EXPECT_GT(operators_.normalised_by_sums, 0);
}

TEST_F(MeasureTasksTest, UpdatesWithARate) {
  Measure(test::SmallChain(8), {BatchSize(8)});
  EXPECT_GT(operators_.least_alpha, 0);
}

TEST_F(MeasureTasksTest, SumsBiasGradientsOfWholeBatchesThatAreNotInTheCache) {
  Measure(test::SmallChain(8), {BatchSize(2), BatchSize(8)});
  ASSERT_FALSE(operators_.biases.empty());
  const NotedOperators::Bias* last = nullptr;
  for (const NotedOperators::Bias& bias : operators_.biases) {
    EXPECT_EQ(bias.batch, BatchSize(8));
    if (last != nullptr && last->elements == bias.elements) {
      EXPECT_NE(last->dy, bias.dy);
    }
    last = &bias;
  }
}

TEST_F(MeasureTasksTest, GivesMicroBatchesTheirShareOfTheBiasGradient) {
  Measure(test::SmallChain(8), {BatchSize(2), BatchSize(8)});
  for (std::size_t task = 0; task < operations_.size(); ++task) {
    const TaskOperation& operation = operations_[task];
    if (operation.what != TaskOperator::kConvolution ||
        operation.kind != TaskKind::kBackwardFilter) {
      continue;
    }
    for (const MeasuredPoint& p : training_.tasks[task].work.measured) {
      EXPECT_EQ(p.time, kEach + kEach * p.batch.count() / 8)
          << training_.tasks[task].name;
    }
  }
}

TEST_F(MeasureTasksTest, AddsDataGradientsWhereBranchesMeet) {
  Measure(test::SmallResidual(4), {BatchSize(4)});
  EXPECT_EQ(device_.betas[ConvOp::kBackwardData], (std::set<float>{0, 1}));
  EXPECT_EQ(device_.betas[ConvOp::kForward], (std::set<float>{0}));
}

TEST_F(MeasureTasksTest, OverwritesDataGradientsOfAChain) {
  Measure(test::SmallChain(4), {BatchSize(4)});
  EXPECT_EQ(device_.betas[ConvOp::kBackwardData], (std::set<float>{0}));
}

TEST_F(MeasureTasksTest, MeasuresFilterGradientsOnlyAsTheyRun) {
  Measure(test::SmallChain(4), {BatchSize(4)});
  EXPECT_EQ(device_.betas[ConvOp::kBackwardFilter], (std::set<float>{0}));
  Measure(test::SmallChain(4), {BatchSize(2)});
  EXPECT_EQ(device_.betas[ConvOp::kBackwardFilter], (std::set<float>{0, 1}));
}

TEST_F(MeasureTasksTest, LeavesConvolutionsOutThatAreMeasuredElsewhere) {
  const Graph graph = test::SmallChain(4);
  const TrainingGraph training = *BuildTrainingGraph(graph, {});
  TaskMeasureOptions options;
  options.measured_elsewhere = AreConvolutions(training, NetworkOf(graph));
  Measure(graph, {BatchSize(4)}, options);
  for (std::size_t task = 0; task < operations_.size(); ++task) {
    const Task& measured = training_.tasks[task];
    const std::vector<MeasuredPoint>& points = measured.work.measured;
    if (!options.measured_elsewhere[task]) {
      EXPECT_FALSE(points.empty()) << measured.name;
    } else if (measured.kind == TaskKind::kBackwardData) {
      EXPECT_TRUE(points.empty()) << measured.name;
    } else {
      // Its bias alone.
      ASSERT_EQ(points.size(), 1U) << measured.name;
      EXPECT_EQ(points[0].time, kEach);
      EXPECT_EQ(points[0].algorithm.name, "");
    }
  }
}

TEST_F(MeasureTasksTest, MeasuresOneTaskAlone) {
  TaskMeasureOptions options;
  options.only = {1};  // conv1's ReLU
  Measure(test::SmallChain(4), {BatchSize(4)}, options);
  for (std::size_t task = 0; task < operations_.size(); ++task) {
    EXPECT_EQ(training_.tasks[task].work.measured.size(), task == 1 ? 1U : 0U);
  }
  const MeasuredPoint& point = training_.tasks[1].work.measured[0];
  EXPECT_EQ(point.repeats, 2);
  EXPECT_EQ(point.min, kEach);
}

}  // namespace
}  // namespace ucudnn
