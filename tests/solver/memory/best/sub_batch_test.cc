#include "solver/memory/best/sub_batch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "solver/check/memory_plan.h"
#include "tests/solver/memory/small_graphs.h"

namespace ucudnn {
namespace {

SubBatchLimits LimitsOf(const TrainingGraph& graph, Bytes budget,
                        BatchSize size) {
  SubBatchLimits limits;
  limits.bound =
      LowerBoundsOfSubBatches(graph, budget, {}, {size}).front().value();
  limits.effort = 10'000;
  return limits;
}

TEST(SubBatchTest, HostsTheLargestWeightsFirst) {
  const TrainingGraph graph = test::OnSmallDevice(test::SmallChain(8));
  const auto sub_batch = SubBatch::Make(graph, BatchSize(8));
  ASSERT_NE(sub_batch, nullptr);
  std::int64_t count = 0;
  for (const Hosted& hosted : sub_batch->HostedChoices()) {
    EXPECT_EQ(std::count(hosted.begin(), hosted.end(), true), count);
    std::int64_t smallest = std::int64_t{1} << 60;
    std::int64_t largest_left = 0;
    for (std::size_t block = 0; block < hosted.size(); ++block) {
      if (!graph.blocks[block].persistent) continue;
      const std::int64_t size = graph.blocks[block].bytes.count();
      if (hosted[block]) {
        smallest = std::min(smallest, size);
      } else {
        largest_left = std::max(largest_left, size);
      }
    }
    EXPECT_GE(smallest, largest_left);
    count = std::min<std::int64_t>(count == 0 ? 1 : count * 2, 5);
  }
  EXPECT_EQ(count, 5);  // layers with weights: the last choice had all
}

TEST(SubBatchTest, PlansAllRoundsOfTheMiniBatch) {
  const TrainingGraph graph = test::OnSmallDevice(test::SmallInception(10));
  const auto sub_batch = SubBatch::Make(graph, BatchSize(4));
  const MemoryRequest request{.budget = test::PeakOf(graph)};
  const auto plan = sub_batch->Plan(
      {}, request, LimitsOf(graph, request.budget, BatchSize(4)),
      Nanoseconds::max());
  ASSERT_TRUE(plan);
  ASSERT_EQ(plan->rounds.size(), 2u);
  EXPECT_EQ(plan->rounds[0].batch, BatchSize(4));
  EXPECT_EQ(plan->rounds[0].count, 2);
  EXPECT_EQ(plan->rounds[1].batch, BatchSize(2));
  const Status valid = ValidateMemoryPlan(*plan, graph);
  EXPECT_TRUE(valid) << valid.error().message;
}

// Convolutions measured at these batches only.
TrainingGraph MeasuredAt(std::vector<std::int64_t> batches) {
  TrainingGraph graph = test::OnSmallDevice(test::SmallChain(10));
  for (Task& task : graph.tasks) {
    if (!task.work.conv) continue;
    std::vector<MeasuredPoint> points;
    for (const std::int64_t batch : batches) {
      for (const TaskCost& cost : CostsAt(graph, task, BatchSize(batch))) {
        MeasuredPoint& point = points.emplace_back();
        point.batch = BatchSize(batch);
        point.algorithm = cost.algorithm;
        point.workspace = cost.workspace;
        point.time = cost.time;
      }
    }
    task.work.measured = std::move(points);
  }
  return graph;
}

TEST(SubBatchTest, RunsConvolutionsInPartsWhereTheWholeWasNotMeasured) {
  const TrainingGraph graph = MeasuredAt({1, 4});
  const auto sub_batch = SubBatch::Make(graph, BatchSize(5));
  ASSERT_NE(sub_batch, nullptr);
  const MemoryRequest request{.budget = 1_GiB};
  const auto plan = sub_batch->Plan(
      {}, request, LimitsOf(graph, request.budget, BatchSize(5)),
      Nanoseconds::max());
  ASSERT_TRUE(plan);
  const Status valid = ValidateMemoryPlan(*plan, graph);
  EXPECT_TRUE(valid) << valid.error().message;
  for (const MemoryEvent& event : plan->rounds[0].events) {
    if (event.op != EventOp::kCompute) continue;
    EXPECT_EQ(graph.tasks[event.task].work.conv.has_value(),
              event.parts.size() > 0);
  }
}

TEST(SubBatchTest, IsAbsentWhereNoMeasuredPartsAddUp) {
  const TrainingGraph graph = MeasuredAt({4, 8});
  EXPECT_EQ(SubBatch::Make(graph, BatchSize(5)), nullptr);
  EXPECT_EQ(SubBatch::Make(graph, BatchSize(10)), nullptr);
}

TEST(SubBatchTest, PlansNothingThatIsNotFasterThanTheLimit) {
  const TrainingGraph graph = test::OnSmallDevice(test::SmallChain(8));
  const auto sub_batch = SubBatch::Make(graph, BatchSize(8));
  const MemoryRequest request{.budget = test::PeakOf(graph) * 5 / 8};
  const SubBatchLimits limits = LimitsOf(graph, request.budget, BatchSize(8));
  const auto plan = sub_batch->Plan({}, request, limits, Nanoseconds::max());
  ASSERT_TRUE(plan);
  EXPECT_FALSE(sub_batch->Plan({}, request, limits, limits.bound.time));
  EXPECT_FALSE(sub_batch->Estimate({}, request.budget.count(), limits,
                                   limits.bound.time));
}

TEST(SubBatchTest, ALowerLimitNeverCostsAPlanBelowIt) {
  for (const TrainingGraph& graph : test::SmallGraphs(10)) {
    for (const int size : {4, 10}) {
      const auto sub_batch = SubBatch::Make(graph, BatchSize(size));
      ASSERT_NE(sub_batch, nullptr);
      for (int part = 3; part <= 8; ++part) {
        const MemoryRequest request{.budget = test::PeakOf(graph) * part / 8};
        if (!LowerBoundsOfSubBatches(graph, request.budget, {},
                                     {BatchSize(size)})
                 .front()) {
          continue;
        }
        const SubBatchLimits limits =
            LimitsOf(graph, request.budget, BatchSize(size));
        const auto plan =
            sub_batch->Plan({}, request, limits, Nanoseconds::max());
        if (!plan) continue;
        const auto again =
            sub_batch->Plan({}, request, limits, plan->time + Nanoseconds(1));
        ASSERT_TRUE(again);
        EXPECT_LE(again->time, plan->time);
      }
    }
  }
}

}  // namespace
}  // namespace ucudnn
