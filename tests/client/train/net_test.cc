#include "client/examples/train/net.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/onnx/network_file.h"
#include "tests/support/paths.h"

namespace ucudnn::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(NetTest, FitsLeNetToTheImages) {
  const auto mnist = LeNet({1, 28, 28}, 10);
  ASSERT_TRUE(mnist) << mnist.error().message;
  EXPECT_EQ(mnist->tensors.size(), mnist->layers.size() + 1);
  EXPECT_EQ(mnist->tensors.back(), (ImageExtent{10, 1, 1}));
  const Network network = ConvolutionsOf(*mnist);
  ASSERT_EQ(network.layers.size(), 4U);
  EXPECT_FALSE(network.layers[0].needs_input_gradient);
  EXPECT_TRUE(network.layers[1].needs_input_gradient);
  // 28 rows, pooled to 14, of which 14 remain, pooled to 7.
  EXPECT_EQ(network.layers[2].geometry.filter, (Spatial{1, 7, 7}));
  EXPECT_TRUE(LeNet({3, 32, 32}, 100));
  const auto tiny = LeNet({1, 2, 2}, 10);
  ASSERT_FALSE(tiny);
  EXPECT_THAT(tiny.error().message,
              AllOf(HasSubstr("lenet"), HasSubstr("1x2x2")));
}

TEST(NetTest, HasTheConvolutionsOfResNet18) {
  const auto net = ResNet18({3, 224, 224}, 1000);
  ASSERT_TRUE(net) << net.error().message;
  Network network = ConvolutionsOf(*net);
  ASSERT_EQ(network.layers.back().name, "fc");
  network.layers.pop_back();
  const auto published =
      ReadNetworkFile(test::DataPath("networks/resnet18.csv"), BatchSize(1));
  ASSERT_TRUE(published) << published.error().message;
  EXPECT_EQ(network.layers, published->layers);
}

TEST(NetTest, PutsPoolsBetweenTheConvolutionsOfAChain) {
  const auto alexnet = ReadNetworkFile(
      test::DataPath("networks/alexnet_torchvision.csv"), BatchSize(1));
  ASSERT_TRUE(alexnet) << alexnet.error().message;
  const auto net = Chain(*alexnet, 10);
  ASSERT_TRUE(net) << net.error().message;
  std::size_t pools = 0;
  for (const Layer& layer : net->layers) {
    if (layer.kind != Layer::Kind::kPool) continue;
    ++pools;
    EXPECT_EQ(layer.pooling.windows[0].extent, 3) << layer.name;
  }
  EXPECT_EQ(pools, 2U);
  EXPECT_EQ(net->tensors.back(), (ImageExtent{10, 1, 1}));
}

TEST(NetTest, RefusesLayersThatAreNotAChain) {
  const auto branched = ReadNetworkFile(
      test::DataPath("networks/inception_v1.csv"), BatchSize(1));
  ASSERT_TRUE(branched) << branched.error().message;
  const auto net = Chain(*branched, 10);
  ASSERT_FALSE(net);
  EXPECT_EQ(net.error().code, Code::kInvalidArgument);
  EXPECT_THAT(net.error().message, HasSubstr("must be a chain"));
}

}  // namespace
}  // namespace ucudnn::train
