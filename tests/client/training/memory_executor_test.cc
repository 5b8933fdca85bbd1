#include "client/training/memory_executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "device/onednn/onednn_device.h"
#include "tests/client/training/trainee.h"
#include "tests/client/training/trains_equally.h"
#include "tests/support/small_networks.h"

namespace ucudnn {
namespace {

using test::Trainee;
using ::testing::HasSubstr;

Trainee OnCpu(Graph graph, std::vector<BatchSize> batches = {},
              double link = test::kFastLink) {
  return Trainee(*OpenOneDnnDevice({.threads = 1}), std::move(graph),
                 std::move(batches), link);
}

MemoryPlan InSubBatches(Trainee& trainee, BatchSize size) {
  MemoryRequest request;
  request.sub_batch = size;
  return *trainee.Plan("modnn", 1_GiB, request);
}

TEST(MemoryExecutorTest, TrainsAChainAsWithoutABudget) {
  Trainee trainee = OnCpu(test::SmallChain(8));
  test::ExpectSameUnderAllPolicies(trainee);
}

TEST(MemoryExecutorTest, TrainsResidualBlocksAsWithoutABudget) {
  Trainee trainee = OnCpu(test::SmallResidual(8));
  test::ExpectSameUnderAllPolicies(trainee);
}

TEST(MemoryExecutorTest, TrainsBranchesThatAreConcatenated) {
  Trainee trainee = OnCpu(test::SmallInception(4));
  test::ExpectSameUnderAllPolicies(trainee, 0.001F);
}

TEST(MemoryExecutorTest, TrainsExcitations) {
  Trainee trainee = OnCpu(test::SmallGates(4));
  test::ExpectSameUnderAllPolicies(trainee);
}

TEST(MemoryExecutorTest, StepsDownTheGradient) {
  for (const Graph& graph :
       {test::SmallGates(4), test::SmallResidual(4), test::SmallChain(4)}) {
    SCOPED_TRACE(graph.name);
    Trainee trainee = OnCpu(graph);
    test::ExpectStepsDownTheGradient(trainee);
  }
  Graph graph = test::SmallInception(4);
  for (Node& node : graph.nodes) {
    if (node.op_type == "Dropout") node.op_type = "Sigmoid";
  }
  Trainee trainee = OnCpu(std::move(graph));
  test::ExpectStepsDownTheGradient(trainee);
}

TEST(MemoryExecutorTest, TrainsAsBeforeWhenActivationsAreRecomputed) {
  Trainee trainee = OnCpu(test::SmallResidual(8), {}, test::kSlowLink);
  MemoryRequest freedom;
  freedom.recompute = true;
  const MemoryPlan plan = test::ExpectSameInLeastMemory(trainee, freedom);
  EXPECT_TRUE(test::RunsSomethingTwice(plan));
}

TEST(MemoryExecutorTest, TrainsAsBeforeWhenWeightsLiveOnTheHost) {
  Trainee trainee = OnCpu(test::SmallChain(8));
  MemoryRequest freedom;
  freedom.offload_weights = true;
  freedom.recompute = true;
  const MemoryPlan plan = test::ExpectSameInLeastMemory(trainee, freedom);
  EXPECT_TRUE(test::LeavesWeightsOnTheHost(trainee.training(), plan));
}

TEST(MemoryExecutorTest, TimesEachTask) {
  Trainee trainee = OnCpu(test::SmallChain(4));
  const MemoryPlan plan = trainee.Undivided();
  const auto executor = trainee.Executor(plan, {.time_tasks = true});
  ASSERT_TRUE(executor);
  const TrainingBatch batch = trainee.BatchFor(**executor);
  const auto step = (*executor)->Step(batch);
  ASSERT_TRUE(step);
  EXPECT_EQ(step->tasks.size(), trainee.training().tasks.size());
  Nanoseconds sum{0};
  for (const auto& [task, time] : step->tasks) sum += time;
  EXPECT_GT(sum, Nanoseconds(0));
  EXPECT_LE(sum, step->time);
}

TEST(MemoryExecutorTest, CountsWhatIsCopied) {
  Trainee trainee = OnCpu(test::SmallChain(4));
  const MemoryPlan plan = *trainee.PlanInLeastMemory("vdnn-ext-all-m");
  const auto executor = trainee.Executor(plan, {});
  ASSERT_TRUE(executor);
  const TrainingBatch batch = trainee.BatchFor(**executor);
  const auto step = (*executor)->Step(batch);
  ASSERT_TRUE(step);
  // Of what leaves, the host has the images.
  Bytes images;
  std::int64_t offloads = 0;
  for (const MemoryEvent& event : plan.rounds[0].events) {
    if (event.op != EventOp::kOffload) continue;
    const MemoryBlock& block = trainee.training().blocks[event.block];
    if (block.kind == BlockKind::kInput) {
      images += event.range.bytes;
    } else {
      ++offloads;
    }
  }
  ASSERT_GT(offloads, 0);
  EXPECT_EQ(step->offloads.copies, offloads);
  EXPECT_EQ(step->offloads.bytes, plan.offloaded - images);
  EXPECT_EQ(step->prefetches.bytes, plan.prefetched);
  EXPECT_GT(step->offloads.time, Nanoseconds(0));
  EXPECT_LE(step->offloads.time, step->time);
}

TEST(MemoryExecutorTest, AddsUpGradientsOfSubBatches) {
  Trainee trainee = OnCpu(test::SmallChain(8), {BatchSize(3), BatchSize(2)});
  const auto expected = trainee.Train(trainee.Undivided(), {});
  const MemoryPlan plan = InSubBatches(trainee, BatchSize(3));
  ASSERT_EQ(plan.rounds.size(), 2U);
  const auto outcome = trainee.Train(plan, {.poison = true});
  ASSERT_EQ(outcome.losses.size(), expected.losses.size());
  for (std::size_t i = 0; i < outcome.losses.size(); ++i) {
    EXPECT_NEAR(outcome.losses[i], expected.losses[i], 1e-4);
  }
}

TEST(MemoryExecutorTest, RefusesSubBatchesThatAreNormalised) {
  Trainee trainee = OnCpu(test::SmallResidual(8), {BatchSize(4)});
  const MemoryPlan plan = InSubBatches(trainee, BatchSize(4));
  const auto refused = trainee.Executor(plan, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(refused.error().message,
              HasSubstr("--batch-statistics rank"));
  const auto outcome =
      trainee.Train(plan, {.allow_sub_batch_statistics = true});
  EXPECT_LT(outcome.losses.back(), outcome.losses.front());
}

TEST(MemoryExecutorTest, RefusesAPlanThatReadsAfterARelease) {
  Trainee trainee = OnCpu(test::SmallChain(4));
  MemoryPlan plan = *trainee.PlanInLeastMemory("vdnn-ext-all-m");
  ASSERT_GT(plan.offloaded, Bytes());
  // Nothing waits any more for the end of a copy.
  for (MemoryEvent& event : plan.rounds[0].events) event.after.clear();
  const auto refused = trainee.Executor(plan, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
}

TEST(MemoryExecutorTest, NamesTheArenaThatCannotBeHad) {
  Trainee trainee = OnCpu(test::SmallChain(4));
  MemoryPlan plan = trainee.Undivided();
  const auto refused = trainee.ExecutorWithout(plan);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kResourceExhausted);
  EXPECT_THAT(refused.error().message,
              HasSubstr(std::to_string(plan.peak.count())));
}

// That what tests compare shows whether a task has read poison. Losses alone do
// not: a Relu may make zeros of NaN.
TEST(MemoryExecutorTest, NanThatATaskReadsShowsInTheParameters) {
  Trainee trainee = OnCpu(test::SmallChain(4));
  const MemoryPlan plan = trainee.Undivided();
  const auto executor = trainee.Executor(plan, {});
  ASSERT_TRUE(executor);
  const TrainingBatch batch = trainee.BatchFor(**executor);
  std::ranges::fill(batch.images, std::numeric_limits<float>::quiet_NaN());
  ASSERT_TRUE((*executor)->Step(batch));
  const auto parameters = (*executor)->Download();
  ASSERT_TRUE(parameters);
  const bool shows =
      std::any_of(parameters->begin(), parameters->end(), [](const auto& p) {
        return std::any_of(p.second.begin(), p.second.end(),
                           [](float value) { return std::isnan(value); });
      });
  EXPECT_TRUE(shows);
}

}  // namespace
}  // namespace ucudnn
