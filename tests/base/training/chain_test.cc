#include "base/training/chain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ucudnn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ChainOfTest, PoolsWhereTheNextInputIsSmaller) {
  const auto network = ParseNetworkCsv(
      "name,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,groups\n"
      "a,3,8,8,4,3,3,1,1,1,1,1\n"
      "b,4,4,4,2,3,3,1,1,1,1,1\n",
      "net", "n.csv");
  ASSERT_TRUE(network);
  const auto graph = ChainOf(*network, BatchSize(2));
  ASSERT_TRUE(graph);
  std::vector<std::string> ops;
  for (const Node& node : graph->nodes) ops.push_back(node.op_type);
  EXPECT_THAT(ops, ElementsAre("Conv", "Relu", "MaxPool", "Conv", "Relu"));
  const Window window{2, 2, 0, 0};
  EXPECT_EQ(graph->nodes[2].pooling,
            (std::array<Window, 3>{Window(), window, window}));
}

TEST(ChainOfTest, KeepsTheImagesThatAreFoldedIntoTheBatch) {
  const auto network = ParseNetworkCsv(
      "name,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,groups,images\n"
      "a,3,8,8,4,3,3,1,1,1,1,1,5\n",
      "net", "n.csv");
  ASSERT_TRUE(network);
  const auto graph = ChainOf(*network, BatchSize(2));
  ASSERT_TRUE(graph);
  EXPECT_THAT(graph->tensors[0].shape, ElementsAre(10, 3, 8, 8));
  Network unlike = *network;
  unlike.layers.push_back(unlike.layers[0]);
  unlike.layers[1].geometry.channels = 4;
  unlike.layers[1].geometry.images = 1;
  const auto refused = ChainOf(unlike, BatchSize(2));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message,
              HasSubstr("the row before it gives 5 images of 4 channels"));
}

TEST(ChainOfTest, NamesTheRowThatDoesNotFollow) {
  const auto network = ParseNetworkCsv(
      "name,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,groups\n"
      "a,3,8,8,4,3,3,1,1,1,1,1\n"
      "b,5,8,8,2,3,3,1,1,1,1,1\n",
      "net", "n.csv");
  ASSERT_TRUE(network);
  const auto graph = ChainOf(*network, BatchSize(2));
  ASSERT_FALSE(graph);
  EXPECT_THAT(graph.error().message, HasSubstr("row 2 ('b')"));
}

}  // namespace
}  // namespace ucudnn
