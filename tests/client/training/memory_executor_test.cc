#include "client/training/memory_executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "client/training/image_parts.h"
#include "device/onednn/onednn_device.h"
#include "solver/memory/split/split.h"
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

Graph SplitOf(const Graph& graph, const char* options,
              std::optional<std::uint64_t> draw = std::nullopt) {
  return *SplitGraph(graph, *ParseSplitOptions(options), draw);
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

TEST(MemoryExecutorTest, TrainsVolumesAsWithoutABudget) {
  Trainee trainee = OnCpu(test::SmallVolumes(4));
  test::ExpectSameUnderAllPolicies(trainee);
}

TEST(MemoryExecutorTest, TrainsPartsOfVolumes) {
  Trainee trainee = OnCpu(SplitOf(test::SmallVolumes(2), "0.1,2,2"));
  test::ExpectStepsDownTheGradient(trainee);
}

TEST(MemoryExecutorTest, StepsDownTheGradient) {
  for (const Graph& graph : {test::SmallGates(4), test::SmallResidual(4),
                             test::SmallChain(4), test::SmallVolumes(4)}) {
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

TEST(MemoryExecutorTest, TrainsPartsOfTheImagesAsWithoutABudget) {
  for (const Graph& graph : {SplitOf(test::SmallChain(4), "1,2,2"),
                             SplitOf(test::SmallResidual(4), "0.6,3,2")}) {
    SCOPED_TRACE(graph.name);
    Trainee trainee = OnCpu(graph);
    test::ExpectSameUnderAllPolicies(trainee, 0.001F);
  }
}

TEST(MemoryExecutorTest, StepsDownTheGradientOfParts) {
  // Windows that need more padding on one side of a part.
  test::NetworkBuilder n("uneven", 4);
  auto x = n.Relu("a", n.Conv("a", n.Input(3, 20), 6, 4, 1, 1, true));
  x = n.Relu("b", n.Conv("b", x, 8, 3, 2, 0, true));
  n.Gemm("fc", n.Flatten(x), 10);
  const Graph split = SplitOf(n.Finish(), "1,2,3");
  ASSERT_TRUE(std::ranges::any_of(
      split.nodes, [](const Node& node) { return node.op_type == "Pad"; }));
  Trainee trainee = OnCpu(split);
  test::ExpectStepsDownTheGradient(trainee);
  test::ExpectSameUnderAllPolicies(trainee);
}

// The parts of `images`, which lie one after the other, as `graph` reads them.
void Cut(const std::vector<float>& images, const Graph& graph,
         const TrainingGraph& planned, TrainingBatch* batch) {
  const ImageExtent extent = {3, 20, 20};
  for (const ImagePart& part : ImagePartsOf(graph, extent, planned)) {
    for (std::int64_t i = 0; i < planned.batch.count(); ++i) {
      CopyPart(
          extent, images.data() + i * extent.elements(), part,
          batch->images.data() + part.first + i * ElementsOf(extent, part));
    }
  }
}

// A plan for the largest parts trains every draw as a plan for that draw does.
TEST(MemoryExecutorTest, TrainsEachDrawOfAStochasticSplit) {
  test::NetworkBuilder n("small", 4);
  const auto x = n.BatchNorm("bn", n.Conv("a", n.Input(3, 20), 4, 3));
  n.Gemm("fc", n.Flatten(n.Conv("b", n.Relu("r", x), 4, 3, 2)), 10);
  const Graph whole = n.Finish();
  const char* const options = "1,2,2,stochastic";
  Trainee largest = OnCpu(SplitOf(whole, options), {BatchSize(2)});
  const TrainingGraph unsplit = *BuildTrainingGraph(whole, {});
  const std::vector<float> images =
      MakeSyntheticBatch(unsplit, *OperationsOf(whole, unsplit), 2).images;
  for (const bool in_rounds : {false, true}) {
    SCOPED_TRACE(in_rounds);
    const MemoryPlan plan = in_rounds
                                ? InSubBatches(largest, BatchSize(2))
                                : *largest.PlanInLeastMemory("vdnn-ext-all-m");
    ExecutionOptions execution = {.allow_sub_batch_statistics = in_rounds,
                                  .poison = true,
                                  .graph_memory = Bytes()};
    const auto executor = *largest.Executor(plan, execution);
    EXPECT_EQ(executor->arena(), plan.peak);
    TrainingBatch batch = largest.BatchFor(*executor);
    Parameters parameters = largest.parameters();
    std::set<double> losses;
    for (std::uint64_t draw = 0; draw < 3; ++draw) {
      const Graph drawn = SplitOf(whole, options, draw);
      Trainee expected = OnCpu(drawn, {BatchSize(2)});
      expected.StartFrom(parameters);
      const MemoryPlan its_plan = in_rounds
                                      ? InSubBatches(expected, BatchSize(2))
                                      : expected.Undivided();
      const auto its_executor = *expected.Executor(its_plan, execution);
      TrainingBatch its_batch = expected.BatchFor(*its_executor);
      Cut(images, drawn, expected.training(), &its_batch);
      const double loss = its_executor->Step(its_batch)->loss;

      ASSERT_TRUE(executor->Redraw(expected.training(), expected.operations()));
      Cut(images, drawn, largest.training(), &batch);
      EXPECT_NEAR(executor->Step(batch)->loss, loss, 1e-5);
      parameters = *executor->Download();
      const Parameters its_parameters = *its_executor->Download();
      for (const auto& [block, values] : its_parameters) {
        EXPECT_THAT(parameters.at(block),
                    ::testing::Pointwise(::testing::FloatNear(1e-4F), values));
      }
      losses.insert(loss);
    }
    EXPECT_GT(losses.size(), 1U);
  }
}

TEST(MemoryExecutorTest, RefusesADrawOfAnotherNetwork) {
  Trainee trainee = OnCpu(SplitOf(test::SmallChain(4), "1,2,1,stochastic"));
  const Graph other = SplitOf(test::SmallChain(4), "1,1,2,stochastic", 1);
  const MemoryPlan plan = trainee.Undivided();
  const auto executor = *trainee.Executor(plan, {.graph_memory = Bytes()});
  const TrainingGraph others = *BuildTrainingGraph(other, {});
  const Status refused = executor->Redraw(others, *OperationsOf(other, others));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  const auto captures = *trainee.Executor(plan, {});
  const Graph drawn = SplitOf(test::SmallChain(4), "1,2,1,stochastic", 1);
  const TrainingGraph draws = *BuildTrainingGraph(drawn, {});
  EXPECT_FALSE(captures->Redraw(draws, *OperationsOf(drawn, draws)));
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
  EXPECT_THAT(refused.error().message, HasSubstr("--batch-statistics rank"));
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
