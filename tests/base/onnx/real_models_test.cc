// Real models: tests/data/onnx.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/files/file.h"
#include "base/onnx/network_file.h"
#include "base/onnx/onnx.h"
#include "tests/support/paths.h"

namespace ucudnn {
namespace {

using ::testing::SizeIs;

std::string ModelFile(const std::string& name) { return test::DataPath(name); }

// Only the geometries, in order: names differ between the two forms.
std::vector<ConvGeometry> Geometries(const Network& network) {
  std::vector<ConvGeometry> geometries;
  for (const ConvLayer& layer : network.layers) {
    geometries.push_back(layer.geometry);
  }
  return geometries;
}

TEST(RealModelsTest, AgreeWithTheSameNetworksInCsv) {
  for (const auto& [model, table] :
       {std::pair{"alexnet", "alexnet_torchvision"},
        {"vgg16", "vgg16"},
        {"resnet18", "resnet18"},
        {"resnet50", "resnet50_v1_5"},
        {"resnet152", "resnet152_v1_5"},
        {"densenet121", "densenet121"}}) {
    const auto from_model = ReadNetworkFile(
        ModelFile(fmt::format("onnx/{}.onnx", model)), BatchSize(32));
    const auto from_table = ReadNetworkFile(
        ModelFile(fmt::format("networks/{}.csv", table)), BatchSize(32));
    ASSERT_TRUE(from_model) << from_model.error().message;
    ASSERT_TRUE(from_table) << from_table.error().message;
    EXPECT_EQ(from_model->name, model);
    auto a = Geometries(*from_model);
    auto b = Geometries(*from_table);
    std::sort(a.begin(), a.end());
    std::sort(b.begin(), b.end());
    EXPECT_EQ(a, b) << model;
    EXPECT_FALSE(from_model->layers[0].needs_input_gradient);
    for (std::size_t i = 1; i < from_model->layers.size(); ++i) {
      EXPECT_TRUE(from_model->layers[i].needs_input_gradient);
    }
  }
}

TEST(RealModelsTest, HaveThreeDimensionsInVideo) {
  const auto network =
      ReadNetworkFile(ModelFile("onnx/r3d_18.onnx"), BatchSize(2));
  ASSERT_TRUE(network) << network.error().message;
  ASSERT_THAT(network->layers, SizeIs(20));
  EXPECT_EQ(network->layers[0].geometry, (ConvGeometry{.spatial_dims = 3,
                                                       .channels = 3,
                                                       .filters = 64,
                                                       .input = {16, 112, 112},
                                                       .filter = {3, 7, 7},
                                                       .padding = {1, 3, 3},
                                                       .stride = {1, 2, 2}}));
}

TEST(RealModelsTest, HaveDilationInSegmentation) {
  const auto network =
      ReadNetworkFile(ModelFile("onnx/fcn_resnet50.onnx"), BatchSize(4));
  ASSERT_TRUE(network) << network.error().message;
  EXPECT_THAT(network->layers, SizeIs(55));
  EXPECT_TRUE(std::any_of(
      network->layers.begin(), network->layers.end(),
      [](const ConvLayer& layer) { return layer.geometry.dilation[1] == 4; }));
}

TEST(RealModelsTest, BranchInInception) {
  const auto graph =
      ReadGraphFile(ModelFile("onnx/googlenet.onnx"), BatchSize(16));
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_THAT(NetworkOf(*graph).layers, SizeIs(57));
  const auto predecessors = Predecessors(*graph);
  std::vector<std::size_t> readers(graph->nodes.size());
  std::size_t joins = 0;
  for (std::size_t i = 0; i < predecessors.size(); ++i) {
    for (const std::size_t p : predecessors[i]) {
      ASSERT_LT(p, i);
      ++readers[p];
    }
    if (graph->nodes[i].op_type == "Concat") {
      ++joins;
      EXPECT_THAT(predecessors[i], SizeIs(4));
    }
  }
  EXPECT_EQ(joins, 9u);
  EXPECT_EQ(std::count(readers.begin(), readers.end(), 4u), 9);
}

TEST(RealModelsTest, HaveTheSameConvolutionsAtEveryBatch) {
  for (const char* name : {"alexnet", "googlenet", "r3d_18", "fcn_resnet50"}) {
    const std::string path = ModelFile(fmt::format("onnx/{}.onnx", name));
    EXPECT_EQ(ReadNetworkFile(path, BatchSize(1)).value(),
              ReadNetworkFile(path, BatchSize(1000)).value());
  }
}

}  // namespace
}  // namespace ucudnn
