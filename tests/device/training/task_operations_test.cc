#include "device/training/task_operations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/training/build.h"
#include "tests/support/paper_networks.h"

namespace ucudnn {
namespace {

using ::testing::HasSubstr;

// How a padded AveragePool with this divisor is computed.
Result<Pooling::Kind> KindOfAverages(Divisor divisor) {
  test::NetworkBuilder n("net", 2);
  const auto x = n.Conv("conv", n.Input(3, 8), 4, 3);
  n.Gemm("fc", n.Flatten(n.Pool("pool", x, 3, 2, 1, "AveragePool")), 10);
  Graph graph = n.Finish();
  const auto pool = std::find_if(
      graph.nodes.begin(), graph.nodes.end(),
      [](const Node& node) { return node.op_type == "AveragePool"; });
  pool->divisor = divisor;
  UCUDNN_ASSIGN_OR_RETURN(const TrainingGraph training,
                          BuildTrainingGraph(graph, {}));
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<TaskOperation> operations,
                          OperationsOf(graph, training));
  const auto found = std::find_if(
      operations.begin(), operations.end(), [](const TaskOperation& operation) {
        return operation.what == TaskOperator::kPool;
      });
  return found->pooling.kind;
}

TEST(TaskOperationsTest, DivideAveragesAsTheModelDoes) {
  EXPECT_EQ(KindOfAverages(Divisor::kWindow), Pooling::Kind::kAverage);
  EXPECT_EQ(KindOfAverages(Divisor::kInside), Pooling::Kind::kAverageInside);
  const auto padded = KindOfAverages(Divisor::kPadded);
  ASSERT_FALSE(padded);
  EXPECT_EQ(padded.error().code, Code::kUnimplemented);
  EXPECT_THAT(padded.error().message, HasSubstr("pool"));
  EXPECT_THAT(padded.error().message, HasSubstr("count_include_pad"));
}

TEST(TaskOperationsTest, HaveExtentsOfUpToThreeAxes) {
  const auto extent = [](std::vector<std::int64_t> shape) {
    Tensor tensor;
    tensor.shape = std::move(shape);
    return ExtentOfImage(tensor);
  };
  EXPECT_EQ(extent({2, 7}), (ImageExtent{7, 1, 1, 1}));
  EXPECT_EQ(extent({2, 7, 5}), (ImageExtent{7, 1, 5, 1}));
  EXPECT_EQ(extent({2, 7, 4, 5}), (ImageExtent{7, 4, 5, 1}));
  EXPECT_EQ(extent({2, 7, 3, 4, 5}), (ImageExtent{7, 4, 5, 3}));
}

TEST(TaskOperationsTest, RefuseTensorsOfMoreAxes) {
  test::NetworkBuilder n("net", 2);
  const auto x = n.Conv("conv", n.Input(3, 8), 4, 3);
  const auto folded = n.AddNode("folded", "Reshape", {x}, {2, 4, 2, 2, 4, 4});
  n.Gemm("fc", n.Flatten(n.Relu("act", folded)), 10);
  const Graph graph = n.Finish();
  const auto training = BuildTrainingGraph(graph, {});
  ASSERT_TRUE(training) << training.error().message;
  const auto refused = OperationsOf(graph, *training);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnimplemented);
  EXPECT_THAT(refused.error().message,
              HasSubstr("has 6 dimensions; 2 to 5 are accepted"));
}

TEST(TaskOperationsTest, RefusePoolsOfUnknownWindows) {
  test::NetworkBuilder n("net", 2);
  const auto x = n.Conv("conv", n.Input("input", {2, 3, 4, 8, 8}), 4, 3);
  n.Gemm("fc", n.Flatten(n.Pool("pool", x, 2, 2)), 10);
  Graph graph = n.Finish();
  for (Node& node : graph.nodes) node.pooling.reset();
  const auto training = BuildTrainingGraph(graph, {});
  ASSERT_TRUE(training);
  const auto refused = OperationsOf(graph, *training);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message,
              HasSubstr("its windows are not known; explicit padding without "
                        "dilation is accepted"));
}

TEST(TaskOperationsTest, RefuseSumsOfUnlikeTensors) {
  test::NetworkBuilder n("net", 2);
  const auto x = n.Conv("conv", n.Input(3, 8), 4, 3);
  const auto mean = n.Pool("mean", x, 8, 8, 0, "GlobalAveragePool");
  n.Gemm("fc", n.Flatten(n.Same("sum", "Add", {x, mean})), 10);
  const Graph graph = n.Finish();
  const auto training = BuildTrainingGraph(graph, {});
  ASSERT_TRUE(training);
  const auto refused = OperationsOf(graph, *training);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnimplemented);
  EXPECT_THAT(refused.error().message, HasSubstr("sum"));
  EXPECT_THAT(refused.error().message, HasSubstr("unlike sizes"));
}

TEST(TaskOperationsTest, ReadWhatTheNodeSaysOfItsNormalisation) {
  test::NetworkBuilder n("net", 2);
  const auto x = n.BatchNorm("bn", n.Conv("conv", n.Input(3, 8), 4, 3));
  n.Gemm("fc", n.Flatten(x), 10);
  Graph graph = n.Finish();
  for (Node& node : graph.nodes) {
    if (node.name == "bn")
      node.numbers = {{"epsilon", 0.5}, {"momentum", 0.75}};
  }
  const auto training = BuildTrainingGraph(graph, {.running_statistics = true});
  ASSERT_TRUE(training);
  const auto operations = OperationsOf(graph, *training);
  ASSERT_TRUE(operations);
  for (const TaskOperation& operation : *operations) {
    if (operation.statistics.empty()) continue;
    EXPECT_EQ(operation.normalisation.extent, (ImageExtent{4, 8, 8}));
    EXPECT_EQ(operation.normalisation.epsilon, 0.5);
    EXPECT_EQ(operation.running_momentum, 0.25F);
  }
}

}  // namespace
}  // namespace ucudnn
