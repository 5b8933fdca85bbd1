#include "base/training/build.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/small_networks.h"

namespace ucudnn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

TrainingGraph Built(const Graph& network, const TrainingOptions& options = {}) {
  Result<TrainingGraph> graph = BuildTrainingGraph(network, options);
  EXPECT_TRUE(graph) << graph.error().message;
  return graph.value_or(TrainingGraph());
}

// "conv1.forward: input, conv1.W -> conv1.Y"
std::string Line(const TrainingGraph& graph, const Task& task) {
  std::string line = task.name + ":";
  for (const std::size_t block : task.reads) {
    line += " " + graph.blocks[block].name;
  }
  line += " ->";
  for (const std::size_t block : task.writes) {
    line += " " + graph.blocks[block].name;
  }
  return line;
}

std::vector<std::string> Lines(const TrainingGraph& graph) {
  std::vector<std::string> lines;
  for (const Task& task : graph.tasks) lines.push_back(Line(graph, task));
  return lines;
}

TEST(BuildTrainingGraphTest, ComputesActivationsInPlaceExceptForPooling) {
  test::NetworkBuilder n("net", 4);
  auto x = n.Relu("conv1", n.Conv("conv1", n.Input(3, 8), 2, 3));
  x = n.Relu("pool1", n.Pool("pool1", x, 2, 2));
  n.Gemm("fc2", n.Flatten(x), 5);
  EXPECT_THAT(
      Lines(Built(n.Finish())),
      ElementsAre("conv1.forward: input conv1.W -> conv1.Y",
                  "conv1.relu.forward: conv1.Y -> conv1.Y",
                  "pool1.forward: conv1.Y -> pool1.Y",
                  "pool1.relu.forward: pool1.Y -> pool1.relu.Y",
                  "fc2.forward: pool1.relu.Y fc2.W -> fc2.Y",
                  "loss: fc2.Y labels -> d_fc2.Y",
                  "fc2.backward_filter: pool1.relu.Y d_fc2.Y -> fc2.dW",
                  "fc2.backward_data: d_fc2.Y fc2.W -> d_pool1.relu.Y",
                  "fc2.update: fc2.dW fc2.W -> fc2.W",
                  "pool1.relu.backward: pool1.relu.Y d_pool1.relu.Y -> "
                  "d_pool1.relu.Y",
                  "pool1.backward: conv1.Y pool1.Y d_pool1.relu.Y -> d_conv1.Y",
                  "conv1.relu.backward: conv1.Y d_conv1.Y -> d_conv1.Y",
                  "conv1.backward_filter: input d_conv1.Y -> conv1.dW",
                  "conv1.update: conv1.dW conv1.W -> conv1.W"));
}

TEST(BuildTrainingGraphTest, KeepsMomentumAndUpdatesAtTheEndIfAsked) {
  test::NetworkBuilder n("net", 4);
  const auto x = n.BatchNorm("bn", n.Conv("conv", n.Input(3, 8), 2, 3));
  n.Gemm("fc", n.Flatten(x), 5);
  const TrainingGraph graph = Built(
      n.Finish(),
      {.momentum = true, .running_statistics = true, .updates_at_end = true});
  const std::vector<std::string> lines = Lines(graph);
  ASSERT_GT(lines.size(), 3U);
  EXPECT_THAT(std::vector<std::string>(lines.end() - 3, lines.end()),
              ElementsAre("fc.update: fc.dW fc.W fc.V -> fc.W fc.V",
                          "bn.update: bn.dW bn.W bn.S bn.V -> bn.W bn.V",
                          "conv.update: conv.dW conv.W conv.V -> conv.W "
                          "conv.V"));
  for (const MemoryBlock& block : graph.blocks) {
    if (block.name != "bn.V") continue;
    EXPECT_TRUE(block.persistent);
    EXPECT_EQ(block.kind, BlockKind::kMomentum);
    EXPECT_EQ(block.bytes, Bytes(2 * 2 * 4));  // not of running statistics
  }
}

TEST(BuildTrainingGraphTest, NeedsNoTensorToGoBackThroughPadding) {
  test::NetworkBuilder n("net", 4);
  auto x = n.Conv("conv", n.Input(3, 8), 2, 3);
  x = n.Same("pad", "Pad", {x});
  n.Gemm("fc", n.Flatten(n.Same("pool", "AveragePool", {x})), 5);
  EXPECT_THAT(Lines(Built(n.Finish())),
              IsSupersetOf({"pad.forward: conv.Y -> pad.Y",
                            "pool.forward: pad.Y -> pool.Y",
                            "pool.backward: d_pool.Y -> d_pad.Y",
                            "pad.backward: d_pad.Y -> d_conv.Y"}));
}

TEST(BuildTrainingGraphTest, SizesFollowThePrecisionExceptForNormalisations) {
  test::NetworkBuilder n("net", 4);
  auto x = n.BatchNorm("bn", n.Conv("conv", n.Input(3, 8), 2, 3));
  n.Same("drop", "Dropout", {x});
  TrainingOptions options;
  options.precision = Precision::kPseudoHalf;
  const TrainingGraph graph = Built(n.Finish(), options);
  const auto size = [&](const std::string& name) {
    for (const MemoryBlock& block : graph.blocks) {
      if (block.name == name) {
        return std::pair(block.bytes.count(), block.bytes_per_image.count());
      }
    }
    return std::pair<std::int64_t, std::int64_t>(-1, -1);
  };
  using Sizes = std::pair<std::int64_t, std::int64_t>;
  EXPECT_EQ(size("input"), Sizes(0, 3 * 64 * 2));
  EXPECT_EQ(size("conv.W"), Sizes((2 * 3 * 9 + 2) * 2, 0));  // with bias
  EXPECT_EQ(size("conv.Y"), Sizes(0, 2 * 64 * 2));
  EXPECT_EQ(size("bn.W"), Sizes(4 * 2 * 4, 0));   // with running statistics
  EXPECT_EQ(size("bn.dW"), Sizes(2 * 2 * 4, 0));  // without
  EXPECT_EQ(size("bn.S"), Sizes(2 * 2 * 4, 0));
  EXPECT_EQ(size("drop.M"), Sizes(0, 2 * 64));
}

TEST(BuildTrainingGraphTest, ErrorsOfASumShareOneBlockUntilAReaderAddsToIt) {
  test::NetworkBuilder n("net", 4);
  const auto x = n.Conv("a", n.Input(3, 8), 2, 3);
  const auto y = n.Conv("b", x, 2, 3);
  n.Same("sum", "Add", {y, x});
  EXPECT_THAT(
      Lines(Built(n.Finish())),
      ElementsAre(
          "a.forward: input a.W -> a.Y", "b.forward: a.Y b.W -> b.Y",
          "sum.forward: b.Y a.Y -> sum.Y", "loss: sum.Y labels -> d_sum.Y",
          "b.backward_filter: a.Y d_sum.Y -> b.dW",
          // The block still holds b's own gradient, so this is a new one.
          "b.backward_data: d_sum.Y b.W -> d_a.Y", "b.update: b.dW b.W -> b.W",
          "a.backward_filter: input d_a.Y -> a.dW",
          "a.update: a.dW a.W -> a.W"));
}

TEST(BuildTrainingGraphTest, FurtherReadersAddToTheGradient) {
  test::NetworkBuilder n("net", 4);
  const auto x = n.Conv("a", n.Input(3, 8), 2, 3);
  n.Concat("out", {n.Conv("b", x, 2, 3), n.Conv("c", x, 2, 3)});
  EXPECT_THAT(
      Lines(Built(n.Finish())),
      ::testing::IsSupersetOf({"out.backward: d_out.Y -> d_b.Y d_c.Y",
                               "c.backward_data: d_c.Y c.W -> d_a.Y",
                               "b.backward_data: d_b.Y b.W d_a.Y -> d_a.Y"}));
}

TEST(BuildTrainingGraphTest, AnOperandThatAppearsTwiceHasOneGradient) {
  test::NetworkBuilder n("net", 4);
  const auto x = n.Conv("a", n.Input(3, 8), 2, 3);
  n.Concat("out", {x, x});
  EXPECT_THAT(Lines(Built(n.Finish())),
              ::testing::Contains("out.backward: d_out.Y -> d_a.Y"));
}

TEST(BuildTrainingGraphTest, ProductsNeedTheirOtherOperand) {
  test::NetworkBuilder n("net", 4);
  const auto x = n.Conv("a", n.Input(3, 8), 2, 3);
  auto s = n.Pool("pool", x, 8, 8, 0, "GlobalAveragePool");
  s = n.Same("gate", "Sigmoid", {n.Conv("b", s, 2, 1)});
  n.Same("scale", "Mul", {x, s});
  const TrainingGraph graph = Built(n.Finish());
  EXPECT_THAT(Lines(graph),
              IsSupersetOf({"gate.forward: b.Y -> b.Y",
                            "scale.forward: a.Y b.Y -> scale.Y",
                            "scale.backward: a.Y b.Y d_scale.Y -> d_a.Y d_b.Y",
                            "gate.backward: b.Y d_b.Y -> d_b.Y",
                            "pool.backward: d_pool.Y d_a.Y -> d_a.Y"}));
  for (const MemoryBlock& block : graph.blocks) {
    if (block.name == "d_b.Y") {
      EXPECT_EQ(block.bytes_per_image, Bytes(2 * 4));
    }
  }
}

TEST(BuildTrainingGraphTest, AProductOfAnUntrainedTensorNeedsNothingElse) {
  test::NetworkBuilder n("net", 4);
  const auto image = n.Input(3, 8);
  n.Same("mask", "Mul", {n.Conv("a", image, 3, 3), image});
  EXPECT_THAT(Lines(Built(n.Finish())),
              IsSupersetOf({"mask.forward: a.Y input -> mask.Y",
                            "mask.backward: input d_mask.Y -> d_a.Y"}));
}

TEST(BuildTrainingGraphTest, ASquareNeedsItsOperand) {
  test::NetworkBuilder n("net", 4);
  const auto x = n.Conv("a", n.Input(3, 8), 2, 3);
  n.Same("square", "Mul", {x, x});
  EXPECT_THAT(Lines(Built(n.Finish())),
              ::testing::Contains("square.backward: a.Y d_square.Y -> d_a.Y"));
}

TEST(BuildTrainingGraphTest, SomeActivationsNeedTheirInput) {
  for (const char* op_type : {"HardSwish", "Swish", "Gelu", "Mish"}) {
    test::NetworkBuilder n("net", 4);
    n.Same("act", op_type, {n.Conv("a", n.Input(3, 8), 2, 3)});
    EXPECT_THAT(Lines(Built(n.Finish())),
                IsSupersetOf({"act.forward: a.Y -> act.Y",
                              "act.backward: a.Y d_act.Y -> d_act.Y"}))
        << op_type;
  }
}

TEST(BuildTrainingGraphTest, PartsOfASplitHaveGradientsOfTheirOwn) {
  test::NetworkBuilder n("net", 4);
  const auto [a, b] = n.Split("split", n.Conv("a", n.Input(3, 8), 4, 3));
  n.Concat("out", {n.Relu("r", a), n.Conv("b", b, 2, 3)});
  EXPECT_THAT(Lines(Built(n.Finish())),
              IsSupersetOf({"split.forward: a.Y -> split.Y split.Y1",
                            "r.relu.forward: split.Y -> split.Y",
                            "b.forward: split.Y1 b.W -> b.Y",
                            "r.relu.backward: split.Y d_split.Y -> d_split.Y",
                            "split.backward: d_split.Y d_split.Y1 -> d_a.Y"}));
}

TEST(BuildTrainingGraphTest, ASmallerTermOfASumGetsASumOfGradients) {
  test::NetworkBuilder n("net", 4);
  const auto x = n.Conv("a", n.Input(3, 8), 2, 3);
  const auto mean = n.Pool("mean", x, 8, 8, 0, "GlobalAveragePool");
  n.Same("sum", "Add", {x, mean});
  EXPECT_THAT(Lines(Built(n.Finish())),
              IsSupersetOf({"sum.forward: a.Y mean.Y -> sum.Y",
                            "sum.backward: d_sum.Y -> d_mean.Y",
                            "mean.backward: d_mean.Y d_sum.Y -> d_sum.Y"}));
}

TEST(BuildTrainingGraphTest, AnInputOfAnotherSizeIsTheSameForAllImages) {
  test::NetworkBuilder n("net", 4);
  const auto grid = n.Input("grid", {1, 3, 8, 8});
  const auto x = n.Same("sum", "Add", {n.Input(3, 8), grid});
  n.Conv("a", x, 2, 3);
  const TrainingGraph graph = Built(n.Finish());
  ASSERT_EQ(graph.blocks[0].name, "grid");
  EXPECT_EQ(graph.blocks[0].bytes, Bytes(3 * 64 * 4));
  EXPECT_EQ(graph.blocks[0].bytes_per_image, Bytes(0));
  EXPECT_THAT(Lines(graph),
              ::testing::Not(::testing::Contains(HasSubstr("sum.backward"))));
}

TEST(BuildTrainingGraphTest, PaperFusionNormalisesInPlace) {
  test::NetworkBuilder n("net", 4);
  const auto x = n.BatchNorm("bn", n.Conv("conv", n.Input(3, 8), 2, 3));
  n.Relu("conv", x);
  TrainingOptions options;
  options.fusion = Fusion::kPaper;
  EXPECT_THAT(Lines(Built(n.Finish(), options)),
              ElementsAre("conv.forward: input conv.W -> conv.Y",
                          "bn.forward: conv.Y bn.W -> conv.Y bn.S",
                          "conv.relu.forward: conv.Y -> conv.Y",
                          "loss: conv.Y labels -> d_conv.Y",
                          "conv.relu.backward: conv.Y d_conv.Y -> d_conv.Y",
                          "bn.backward: conv.Y d_conv.Y bn.S bn.W -> d_conv.Y "
                          "bn.dW",
                          "bn.update: bn.dW bn.W -> bn.W",
                          "conv.backward_filter: input d_conv.Y -> conv.dW",
                          "conv.update: conv.dW conv.W -> conv.W"));
}

TEST(BuildTrainingGraphTest, NamesTheNodeWithAnUnsupportedOperator) {
  test::NetworkBuilder n("net", 4);
  n.Same("odd", "Erf", {n.Conv("conv", n.Input(3, 8), 2, 3)});
  const auto graph = BuildTrainingGraph(n.Finish(), {});
  ASSERT_FALSE(graph);
  EXPECT_EQ(graph.error().code, Code::kUnimplemented);
  EXPECT_THAT(graph.error().message, HasSubstr("node 'odd' (Erf)"));
}

TEST(BuildTrainingGraphTest, RefusesANetworkWithoutParameters) {
  test::NetworkBuilder n("net", 4);
  n.Pool("pool", n.Input(3, 8), 2, 2);
  const auto graph = BuildTrainingGraph(n.Finish(), {});
  ASSERT_FALSE(graph);
  EXPECT_EQ(graph.error().code, Code::kInvalidArgument);
}

}  // namespace
}  // namespace ucudnn
