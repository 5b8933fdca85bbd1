#include "solver/memory/modnn/sub_batch.h"

#include <gtest/gtest.h>

#include "base/training/build.h"
#include "base/training/costs.h"
#include "tests/solver/memory/modnn/hand_graph.h"
#include "tests/support/paper_networks.h"

namespace ucudnn {
namespace {

using test::HandGraph;

Bytes Units(std::int64_t units) { return Bytes(units * test::kUnitBytes); }

// Two layers: x (1) -a (W 4)-> y (2) -b (W 1)-> z (1).
HandGraph TwoLayers(std::int64_t batch) {
  HandGraph g(batch);
  const auto x = g.Block("x", BlockKind::kInput, 1);
  const auto wa = g.Block("a.W", BlockKind::kWeight, 4);
  const auto wb = g.Block("b.W", BlockKind::kWeight, 1);
  const auto y = g.Activation("y", 2);
  const auto z = g.Activation("z", 1);
  const auto dz = g.Block("dz", BlockKind::kGradient, 1);
  const auto dy = g.Block("dy", BlockKind::kGradient, 2);
  const auto dwa = g.Block("a.dW", BlockKind::kWeightGradient, 4);
  const auto dwb = g.Block("b.dW", BlockKind::kWeightGradient, 1);
  g.Forward("a", {x, wa}, {y});
  g.Forward("b", {y, wb}, {z});
  g.Task("loss", TaskKind::kLoss, {z}, {dz});
  g.Task("b.filter", TaskKind::kBackwardFilter, {y, dz}, {dwb});
  g.Task("b.data", TaskKind::kBackwardData, {dz, wb}, {dy});
  g.Task("a.filter", TaskKind::kBackwardFilter, {x, dy}, {dwa});
  g.Task("b.update", TaskKind::kUpdate, {dwb, wb}, {wb});
  g.Task("a.update", TaskKind::kUpdate, {dwa, wa}, {wa});
  return g;
}

// x0 -> x1 -> ... -> x`tasks`, a unit each.
HandGraph Chain(std::int64_t batch, int tasks) {
  HandGraph g(batch);
  auto x = g.Activation("x0", 1);
  for (int i = 1; i <= tasks; ++i) {
    const auto y = g.Activation("x" + std::to_string(i), 1);
    g.Forward("t" + std::to_string(i), {x}, {y});
    x = y;
  }
  return g;
}

TEST(ModnnSubBatchTest, CountsAGradientOfWeightsAsItsTasksOutput) {
  // W is 5; a.filter has x, dy and a.dW.
  EXPECT_EQ(ModnnLeastBytes(TwoLayers(8).graph()), Units(5 + 1 + 2 + 4));
}

TEST(ModnnSubBatchTest, NeedsEveryBlockOfAWindowOnce) {
  // 15 % of 20 tasks are 3, with 4 blocks; of 13 it is 1, with 2.
  EXPECT_EQ(ModnnNeededBytes(Chain(8, 20).graph(), BatchSize(8)), Units(4 * 8));
  EXPECT_EQ(ModnnNeededBytes(Chain(8, 13).graph(), BatchSize(8)), Units(2 * 8));
  // Six tasks count, updates do not: one at a time, beside W and dW. The
  // largest task has 3 units an image: a, or b, or b.filter, or a.filter.
  EXPECT_EQ(ModnnNeededBytes(TwoLayers(8).graph(), BatchSize(2)),
            Units(5 + 5 + 3 * 2));
}

TEST(ModnnSubBatchTest, NeedsTheWorkspaceOfTheFastestAlgorithms) {
  HandGraph g = Chain(8, 19);
  const auto y = g.Activation("y", 1);
  const auto z = g.Activation("z", 1);
  g.Forward("conv", {y}, {z});
  g.Measured(8, "GEMM", 0, 10);
  g.Measured(8, "WINOGRAD", 100, 5);
  // The last three tasks have x17, x18, x19, y and z.
  EXPECT_EQ(ModnnNeededBytes(g.graph(), BatchSize(8)), Units(5 * 8 + 100));
}

TEST(ModnnSubBatchTest, TakesTheLargestThatFitsTunedForTheDevice) {
  const TrainingGraph graph =
      Chain(1000, 20).graph();  // needs 4 units an image
  const auto choose = [&](std::int64_t images) {
    return ChooseModnnSubBatch(graph, Units(4 * images + 3)).value();
  };
  EXPECT_EQ(choose(1000).chosen, BatchSize(1000));  // the mini-batch
  EXPECT_EQ(choose(999).largest, BatchSize(999));
  EXPECT_EQ(choose(999).chosen, BatchSize(960));
  EXPECT_EQ(choose(64).chosen, BatchSize(64));
  EXPECT_EQ(choose(63).chosen, BatchSize(32));
  EXPECT_EQ(choose(31).chosen, BatchSize(16));
  EXPECT_EQ(choose(1).chosen, BatchSize(1));
  // Down to (7) a plan may exist, though no sub-batch has a window.
  EXPECT_EQ(choose(0).largest, BatchSize(0));
  EXPECT_EQ(choose(0).chosen, BatchSize(1));
}

TEST(ModnnSubBatchTest, ChoosesAmongMeasuredBatches) {
  HandGraph g = Chain(96, 19);
  const auto y = g.Activation("y", 1);
  g.Forward("conv", {y}, {g.Activation("z", 1)});
  const auto choose = [&] {
    return ChooseModnnSubBatch(g.graph(), Units(5 * 60));
  };
  g.Measured(64, "GEMM", 0, 10);
  const auto none = choose();  // 64 leaves 32, which was not measured
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::kFailedPrecondition);
  g.Measured(48, "GEMM", 0, 10);  // no power of two, but there is no other
  EXPECT_EQ(choose()->chosen, BatchSize(48));
  g.Measured(32, "GEMM", 0, 10);
  EXPECT_EQ(choose()->largest, BatchSize(48));
  EXPECT_EQ(choose()->chosen, BatchSize(32));
}

TEST(ModnnSubBatchTest, ChoosesWhatThePaperSaysOfItsNetworks) {
  const auto choose = [](const Graph& network, double gigabytes) {
    TrainingOptions options;
    options.fusion = Fusion::kPaper;
    TrainingGraph graph = BuildTrainingGraph(network, options).value();
    EXPECT_TRUE(SetDevice(*DeviceModelPreset("K40"), &graph));
    return ChooseModnnSubBatch(
               graph, Bytes(static_cast<std::int64_t>(gigabytes * 1e9)))
        .value();
  };
  // Section 7.4: 256 at 5 and 6 GB, less below.
  EXPECT_EQ(choose(test::PaperResNet34(256), 6).chosen, BatchSize(256));
  EXPECT_EQ(choose(test::PaperResNet34(256), 5).chosen, BatchSize(256));
  EXPECT_EQ(choose(test::PaperResNet34(256), 4).largest, BatchSize(219));
  EXPECT_EQ(choose(test::PaperResNet34(256), 4).chosen, BatchSize(192));
  // At 12 GB.
  EXPECT_EQ(choose(test::PaperVgg16(256), 12).chosen, BatchSize(64));
  EXPECT_EQ(choose(test::PaperVgg19(256), 12).chosen, BatchSize(64));
  EXPECT_EQ(choose(test::PaperResNet152(256), 12).chosen, BatchSize(128));
}

}  // namespace
}  // namespace ucudnn
