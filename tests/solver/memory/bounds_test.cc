#include "solver/memory/bounds.h"

#include <gtest/gtest.h>

#include <chrono>

#include "tests/solver/memory/moves_optimum.h"
#include "tests/solver/memory/small_graphs.h"

namespace ucudnn {
namespace {

using namespace std::chrono_literals;

// The example of solver/memory/bounds.h.
TrainingGraph ChainOfTwo() {
  test::GraphMaker maker(1);
  const std::size_t x = maker.Block(100);
  const std::size_t y = maker.Block(60);
  const std::size_t z = maker.Block(80);
  const std::size_t d = maker.Block(10, BlockKind::kGradient);
  maker.Run(TaskKind::kForward, {}, {x}, 30us);   // a
  maker.Run(TaskKind::kForward, {x}, {y}, 20us);  // b
  maker.Run(TaskKind::kForward, {y}, {z}, 10us);  // c
  maker.Run(TaskKind::kLoss, {z}, {d}, 5us);
  maker.Run(TaskKind::kBackward, {x, d}, {d}, 40us);
  return maker.graph();
}

TEST(LowerBoundTimeTest, IsTheSumOfTheTasksIfEverythingFits) {
  EXPECT_EQ(LowerBoundTime(ChainOfTwo(), Bytes(1000), {}), 105us);
}

// c waits for 60 us, and a' for 100.
TEST(LowerBoundTimeTest, AddsTheTimeForWhatMustLeaveAndReturn) {
  const Nanoseconds bound = LowerBoundTime(ChainOfTwo(), Bytes(160), {});
  EXPECT_LE(bound, 105us + 60us + 100us);
  EXPECT_GE(bound, 105us + 60us + 100us - 10ns);
  // X leaves as a whole, too.
  EXPECT_EQ(test::MovesOptimum(ChainOfTwo(), Bytes(160)).Time(),
            Nanoseconds(105us + 80us + 100us).count());
}

// X can be computed again in 30 us.
TEST(LowerBoundTimeTest, ComputesAgainWhatTheLinkIsTooSlowFor) {
  MemoryFreedom freedom;
  freedom.recomputes = true;
  const Nanoseconds bound = LowerBoundTime(ChainOfTwo(), Bytes(160), freedom);
  EXPECT_LE(bound, 105us + 30us);
  EXPECT_GE(bound, 105us + 30us - 10ns);
}

TEST(LowerBoundTimeTest, IsNoLargerWithMoreFreedomOrBudget) {
  for (const TrainingGraph& graph : test::SmallGraphs(8)) {
    const Bytes peak = test::PeakOf(graph);
    std::optional<Nanoseconds> tighter;
    for (int eighths = 3; eighths <= 8; ++eighths) {
      const Bytes budget = peak * eighths / 8;
      const Nanoseconds bound = LowerBoundTime(graph, budget, {});
      EXPECT_LE(bound, tighter.value_or(bound));
      tighter = bound;
      MemoryFreedom freedom;
      freedom.recomputes = true;
      EXPECT_LE(LowerBoundTime(graph, budget, freedom), bound);
      freedom = {};
      freedom.offloads_weights = true;
      EXPECT_LE(LowerBoundTime(graph, budget, freedom), bound);
      freedom = {};
      freedom.divides_estimates = false;
      EXPECT_GE(LowerBoundTime(graph, budget, freedom), bound);
    }
  }
}

TEST(LowerBoundsOfSubBatchesTest, HaveTheBoundAsTheirLeast) {
  for (const TrainingGraph& graph : test::SmallGraphs(6)) {
    std::vector<BatchSize> all;
    for (int b = 6; b > 0; --b) all.emplace_back(b);
    const Bytes budget = test::PeakOf(graph) / 2;
    Nanoseconds least = Nanoseconds::max();
    for (const auto& bound : LowerBoundsOfSubBatches(graph, budget, {}, all)) {
      if (bound) least = std::min(least, bound->time);
    }
    EXPECT_EQ(least, LowerBoundTime(graph, budget, {}));
  }
}

TEST(LowerBoundTimeTest, IsThatOfTheRequestedSubBatch) {
  for (const TrainingGraph& graph : test::SmallGraphs(6)) {
    const Bytes budget = test::PeakOf(graph) / 2;
    const Nanoseconds any = LowerBoundTime(graph, budget, {});
    for (const int images : {6, 3, 2}) {
      MemoryFreedom freedom;
      freedom.sub_batch = BatchSize(images);
      const auto bounds =
          LowerBoundsOfSubBatches(graph, budget, {}, {BatchSize(images)});
      if (!bounds.front()) continue;
      EXPECT_EQ(LowerBoundTime(graph, budget, freedom),
                std::max(any, bounds.front()->time));
    }
  }
}

// At 6 images a round of all takes 60 us, two of 3 take 2 x 12; at most 4
// images fit.
TEST(LowerBoundTimeTest, CountsMeasuredTasksAtTheirLeastTimeForAnImage) {
  test::GraphMaker maker(1);
  const std::size_t x = maker.Block(100);
  maker.Run(TaskKind::kForward, {}, {x}, 1us);
  TrainingGraph graph = maker.graph();
  graph.batch = BatchSize(6);
  graph.blocks[x].bytes = Bytes(0);
  graph.blocks[x].bytes_per_image = Bytes(100);
  TaskWork& work = graph.tasks[0].work;
  work.fixed.reset();
  work.line = {
      {BatchSize(1), 10us}, {BatchSize(3), 12us}, {BatchSize(6), 60us}};
  const Nanoseconds bound = LowerBoundTime(graph, Bytes(400), {});
  EXPECT_LE(bound, 24us);
  EXPECT_GE(bound, 24us - 10ns);
  work.line = {{BatchSize(1), 2us}, {BatchSize(6), 60us}};
  const Nanoseconds single = LowerBoundTime(graph, Bytes(400), {});
  EXPECT_LE(single, 12us);
  EXPECT_GE(single, 12us - 10ns);
}

}  // namespace
}  // namespace ucudnn
