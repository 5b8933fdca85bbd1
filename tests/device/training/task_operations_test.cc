#include "device/training/task_operations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
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
