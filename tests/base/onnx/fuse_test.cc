// Operators that exporters take apart, and what training needs of a model.

#include "base/onnx/fuse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/training/build.h"
#include "tests/base/onnx/models.h"

namespace ucudnn {
namespace {

using test::OnnxModel;
using test::ParsedModel;
using test::ReadModel;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Operators(const Graph& graph) {
  std::vector<std::string> operators;
  for (const Node& node : graph.nodes) operators.push_back(node.op_type);
  return operators;
}

const char kConv[] =
    "g (float[N,3,8,8] x, float[4,3,1,1] w, float[4,1,1] s, float[4,1,1] b) => "
    "(float y) { c = Conv(x, w) ";

TEST(FuseTest, ReadsAProductWithItsOwnSigmoidAsSwish) {
  for (const char* mul : {"y = Mul(c, a)", "y = Mul(a, c)"}) {
    const Graph graph =
        ParsedModel(std::string(kConv) + "a = Sigmoid(c) " + mul + "}");
    EXPECT_THAT(Operators(graph), ElementsAre("Conv", "Swish"));
    EXPECT_EQ(graph.nodes[1].inputs.size(), 1u);
  }
}

TEST(FuseTest, LeavesASigmoidThatOthersNeed) {
  for (const char* rest : {"y = Mul(x, a)", "z = Mul(c, a) y = Add(z, a)"}) {
    const Graph graph =
        ParsedModel(std::string(kConv) + "a = Sigmoid(c) r = Relu(x)" +
                    (std::string(rest) == "y = Mul(x, a)"
                         ? "m = GlobalAveragePool(r) "
                           "n = ReduceMean<axes = [1]>(m) y = Mul(n, a)"
                         : rest) +
                    "}");
    EXPECT_THAT(Operators(graph), ::testing::Contains("Sigmoid"));
    EXPECT_THAT(Operators(graph), ::testing::Contains("Mul"));
  }
}

std::string Parts(const std::string& axes) {
  return "m = ReduceMean<axes = [" + axes +
         "]>(c) d = Sub(c, m) q = Mul(d, d) v = ReduceMean<axes = [" + axes +
         "]>(q) k = Constant<value = float {0.00001}>() e = Add(v, k)"
         "r = Sqrt(e) n = Div(d, r) f = Mul(n, s) y = Add(f, b) }";
}

TEST(FuseTest, ReadsTheAverageAndVarianceOfAllImagesAsANormalization) {
  const Graph graph = ParsedModel(std::string(kConv) + Parts("0, 2, 3"));
  EXPECT_THAT(Operators(graph),
              ElementsAre("Conv", "Constant", "BatchNormalization"));
  const auto training = BuildTrainingGraph(graph, {});
  ASSERT_TRUE(training) << training.error().message;
  for (const MemoryBlock& block : training->blocks) {
    if (block.kind == BlockKind::kWeight && block.name != "Conv_0.W") {
      EXPECT_EQ(block.bytes, Bytes(4 * 4 * 4));  // with running statistics
    }
  }
}

TEST(FuseTest, LeavesStatisticsOfOtherAxes) {
  const Graph graph = ParsedModel(std::string(kConv) + Parts("1, 2, 3"));
  EXPECT_THAT(Operators(graph), ::testing::Contains("Sqrt"));
}

std::string WhyNotTrained(const std::string& nodes) {
  const auto training =
      BuildTrainingGraph(ParsedModel(std::string(kConv) + nodes + "}"), {});
  return training ? "it is" : training.error().message;
}

TEST(OnnxTrainingTest, NamesQuantizationAndAveragesOverTheBatch) {
  EXPECT_THAT(WhyNotTrained("k = Constant<value = float {0.5}>() "
                            "q = QuantizeLinear(c, k) "
                            "y = DequantizeLinear(q, k)"),
              HasSubstr("node 'QuantizeLinear_2' (QuantizeLinear)"));
  EXPECT_THAT(WhyNotTrained("y = ReduceMean<axes = [0]>(c)"),
              HasSubstr("averages over the images"));
  EXPECT_THAT(WhyNotTrained("y = Mul(c, s)"), HasSubstr("operand 's' of 4"));
}

TEST(OnnxTrainingTest, KeepsRandomNumbersThatMultiplyLikeAMask) {
  // Stochastic depth, as torchvision does it.
  const Graph graph = ParsedModel(
      std::string(kConv) +
      "t = Shape(x) i = Constant<value = int64[1] {0}>() n = Gather(t, i)"
      "o = Constant<value = int64[3] {1,1,1}>() z = Concat<axis = 0>(n, o)"
      "e = ConstantOfShape(z) u = RandomUniformLike(e) y = Mul(c, u) }");
  const auto training = BuildTrainingGraph(graph, {});
  ASSERT_TRUE(training) << training.error().message;
  const auto mask = std::find_if(
      training->blocks.begin(), training->blocks.end(),
      [](const MemoryBlock& b) { return b.kind == BlockKind::kMask; });
  ASSERT_NE(mask, training->blocks.end());
  EXPECT_EQ(mask->bytes_per_image, Bytes(4));
  for (const Task& task : training->tasks) {
    if (task.name == "Mul_8.forward") {
      EXPECT_FALSE(task.recomputable);
    }
  }
}

TEST(OnnxTrainingTest, TrainsWeightsThatNodesHaveAsValues) {
  const std::string graph =
      "g (float[N,1,8,8] x, float half) => (float y) {"
      "w = Constant<value = float[1,1,1,1] {1.0}>() v = Identity(w)"
      "m = Mul(x, half) a = Conv(m, v) b = Conv(a, v)"
      "k = Constant<value = float {3.0}>() y = Add(b, k) }";
  const Network network = NetworkOf(ParsedModel(graph));
  ASSERT_EQ(network.layers.size(), 2u);
  // A number that multiplies is no parameter.
  EXPECT_FALSE(network.layers[0].needs_input_gradient);
  EXPECT_TRUE(network.layers[1].needs_input_gradient);
  const auto training = BuildTrainingGraph(ParsedModel(graph), {});
  EXPECT_TRUE(training) << training.error().message;
}

TEST(OnnxTrainingTest, PassesGradientsThroughQuantization) {
  const Network network = NetworkOf(ParsedModel(
      "g (float[N,3,8,8] x, float[3,3,1,1] w, float k) => (float y) {"
      "p = QuantizeLinear(x, k) xd = DequantizeLinear(p, k)"
      "q = QuantizeLinear(w, k) wd = DequantizeLinear(q, k)"
      "c = Conv(xd, wd) r = QuantizeLinear(c, k) rd = DequantizeLinear(r, k)"
      "y = Conv(rd, wd) }"));
  ASSERT_EQ(network.layers.size(), 2u);
  EXPECT_FALSE(network.layers[0].needs_input_gradient);
  EXPECT_TRUE(network.layers[1].needs_input_gradient);
}

}  // namespace
}  // namespace ucudnn
