// The graph of a model: order, names, parameters and gradients.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/onnx/network_file.h"
#include "tests/base/onnx/models.h"

namespace ucudnn {
namespace {

using test::ModelError;
using test::OnnxModel;
using test::ParsedModel;
using test::ReadModel;
using test::SingleNode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Without its data.
onnx::TensorProto* AddInitializer(onnx::ModelProto& model,
                                  const std::string& name, int type,
                                  const std::vector<std::int64_t>& shape) {
  onnx::TensorProto* tensor = model.mutable_graph()->add_initializer();
  tensor->set_name(name);
  tensor->set_data_type(type);
  for (const std::int64_t extent : shape) tensor->add_dims(extent);
  return tensor;
}

TEST(OnnxGraphTest, SortsNodesTopologically) {
  onnx::ModelProto model = OnnxModel(
      "g (float[N,3,8,8] x, float[3,3,1,1] w) => (float[N,3,8,8] d) {"
      "a = Conv(x, w)  b = Relu(a)  c = Conv(a, w)  d = Add(b, c) }");
  auto* nodes = model.mutable_graph()->mutable_node();
  nodes->SwapElements(0, 3);
  nodes->SwapElements(1, 2);
  const Graph graph = ReadModel(model).value();
  std::vector<std::string> order;
  for (const Node& node : graph.nodes) order.push_back(node.name);
  EXPECT_THAT(order, ElementsAre("Conv_3", "Conv_1", "Relu_2", "Add_0"));
  EXPECT_THAT(Predecessors(graph),
              ElementsAre(IsEmpty(), ElementsAre(0), ElementsAre(0),
                          ElementsAre(1, 2)));
}

TEST(OnnxGraphTest, GivesEveryNodeAUniqueName) {
  onnx::ModelProto model = OnnxModel(
      "g (float[N,3,8,8] x, float[3,3,1,1] w) => (float[N,3,8,8] e) {"
      "a = Conv(x, w)  b = Conv(a, w)  c = Conv(b, w)  d = Conv(c, w)"
      "e = Conv(d, w) }");
  auto* graph = model.mutable_graph();
  graph->mutable_node(0)->set_name("twice");
  graph->mutable_node(1)->set_name("twice");
  graph->mutable_node(2)->set_name("Conv_1");
  graph->mutable_node(3)->set_name("a\nb");
  std::vector<std::string> names;
  for (const ConvLayer& layer : NetworkOf(ReadModel(model).value()).layers) {
    names.push_back(layer.name);
  }
  EXPECT_THAT(names,
              ElementsAre("Conv_0", "Conv_1_", "Conv_1", "Conv_3", "Conv_4"));
}

TEST(OnnxGraphTest, NeedsAnInputGradientAfterTheFirstTrainedParameter) {
  const Network network = NetworkOf(ParsedModel(
      "g (float[N,3,8,8] x, float[3,3,1,1] w, float[3] s, float[3] m) => "
      "(float[N,3,8,8] f) {"
      "p = Relu(x)  a = Conv(p, w)  b = Conv(x, w)  c = Conv(a, w)"
      "n = BatchNormalization(x, s, s, m, m)  d = Conv(n, w)"
      "e = Add(c, d)  h = Shape(e)  i = Cast<to=1>(h)  t = Conv(x, w)"
      "f = Add(e, t) }"));
  std::map<std::string, bool> needs;
  for (const ConvLayer& layer : network.layers) {
    needs[layer.name] = layer.needs_input_gradient;
  }
  EXPECT_EQ(needs, (std::map<std::string, bool>{{"Conv_1", false},
                                                {"Conv_2", false},
                                                {"Conv_3", true},
                                                {"Conv_5", true},
                                                {"Conv_9", false}}));
}

TEST(OnnxGraphTest, DoesNotTrainStatisticsOrScales) {
  const Graph graph = ParsedModel(
      "g (float[N,3,8,8] x, float[3] s, float[3] m, float low) => "
      "(float[N,3,8,8] z) { y = BatchNormalization(x, s, s, m, m)"
      "z = Clip(y, low) }");
  EXPECT_TRUE(graph.tensors[1].trained);
  EXPECT_FALSE(graph.tensors[2].trained);
  EXPECT_TRUE(graph.tensors[2].parameter);
  EXPECT_FALSE(graph.tensors[3].trained);
}

TEST(OnnxGraphTest, KnowsTheStatisticsOfOlderNormalizations) {
  onnx::ModelProto model = OnnxModel(
      "g (float[N,3,8,8] x, float[3] s, float[3] m) => (float[N,3,8,8] y) {"
      "y, mean, variance, a, b = BatchNormalization(x, s, s, m, m) }");
  model.mutable_opset_import(0)->set_version(13);
  const Result<Graph> graph = ReadModel(model);
  ASSERT_TRUE(graph) << graph.error().message;
  ASSERT_THAT(graph->tensors, SizeIs(8));
  for (std::size_t i = 4; i < 8; ++i) {
    EXPECT_THAT(graph->tensors[i].shape, ElementsAre(3));
  }
}

TEST(OnnxGraphTest, TellsDataFromParametersByInitializers) {
  // No symbolic batch: the initializers are the parameters.
  onnx::ModelProto model = OnnxModel(
      "g (float[1,3,8,8] x, float[1,3,8,8] other) => (float[1,4,8,8] y) {"
      "s = Add(x, other)  y = Conv(s, w) }");
  auto* w = AddInitializer(model, "w", onnx::TensorProto::FLOAT, {4, 3, 1, 1});
  w->set_raw_data(std::string(48, '\0'));
  const Graph graph = ReadModel(model).value();
  ASSERT_THAT(graph.tensors, SizeIs(5));
  EXPECT_THAT(graph.tensors[0].shape, ElementsAre(8, 3, 8, 8));
  EXPECT_THAT(graph.tensors[1].shape, ElementsAre(8, 3, 8, 8));
  EXPECT_TRUE(graph.tensors[2].trained);
  EXPECT_THAT(graph.tensors[4].shape, ElementsAre(8, 4, 8, 8));

  w->set_raw_data(std::string(47, '\0'));
  EXPECT_THAT(ModelError(ReadModel(model)).message,
              HasSubstr("initializer 'w': it has 47 bytes of data; 48"));
}

TEST(OnnxGraphTest, TakesAnInputBesideTheImagesForData) {
  // The weights are initializers, so the grid is none.
  onnx::ModelProto model = OnnxModel(
      "g (float[N,3,8,8] x, float[1,3,8,8] grid) => (float[N,4,8,8] y) {"
      "s = Add(x, grid)  y = Conv(s, w) }");
  auto* w = AddInitializer(model, "w", onnx::TensorProto::FLOAT, {4, 3, 1, 1});
  w->set_raw_data(std::string(48, '\0'));
  const Graph graph = ReadModel(model).value();
  EXPECT_THAT(graph.tensors[1].shape, ElementsAre(1, 3, 8, 8));
  EXPECT_FALSE(graph.tensors[1].parameter);
  EXPECT_FALSE(NetworkOf(graph).layers[0].needs_input_gradient);
}

TEST(OnnxGraphTest, AsksForTheSizesThatAreCalledLikeTheBatch) {
  for (const char* unknown : {"None", "unk"}) {
    const Error error = ModelError(
        fmt::format("g (float[{0},3,{0},{0}] x, float[8,3,3,3] w) => "
                    "(float[{0},8,{0},{0}] y) {{ y = Conv(x, w) }}",
                    unknown));
    EXPECT_EQ(error.code, Code::kInvalidArgument);
    EXPECT_THAT(error.message, HasSubstr("--input-shape"));
  }
  // As a number.
  onnx::ModelProto model =
      OnnxModel(SingleNode("N,3,8,8", "8,3,1,1", "Conv(x, w)"));
  auto* shape = model.mutable_graph()
                    ->mutable_input(0)
                    ->mutable_type()
                    ->mutable_tensor_type()
                    ->mutable_shape();
  shape->mutable_dim(0)->set_dim_value(-1);
  EXPECT_TRUE(ReadModel(model)) << ModelError(ReadModel(model)).message;
  shape->mutable_dim(2)->set_dim_value(-1);
  EXPECT_THAT(ModelError(ReadModel(model)).message, HasSubstr("--input-shape"));
}

TEST(OnnxGraphTest, SaysWhichFileHoldsTheNumbersOfAShape) {
  onnx::ModelProto model = OnnxModel(
      "g (float[N,3,8,8] x) => (float[N,192] y) { y = Reshape(x, s) }");
  auto* s = AddInitializer(model, "s", onnx::TensorProto::INT64, {2});
  s->set_data_location(onnx::TensorProto::EXTERNAL);
  auto* location = s->add_external_data();
  location->set_key("location");
  location->set_value("model.onnx.data");
  EXPECT_THAT(ModelError(ReadModel(model)).message,
              ::testing::AllOf(HasSubstr("node 'Reshape_0'"),
                               HasSubstr("initializer 's'"),
                               HasSubstr("another file, 'model.onnx.data'")));
}

TEST(OnnxGraphTest, DoesNotNeedTheWeights) {
  onnx::ModelProto model = OnnxModel(
      "g (float[N,300,8,8] x) => (float[N,400,8,8] y) { y = Conv(x, w) }");
  auto* w =
      AddInitializer(model, "w", onnx::TensorProto::FLOAT, {400, 300, 1, 1});
  w->set_data_location(onnx::TensorProto::EXTERNAL);
  auto* location = w->add_external_data();
  location->set_key("location");
  location->set_value("weights.bin");
  EXPECT_EQ(NetworkOf(ReadModel(model).value()).layers[0].geometry.filters,
            400);
}

TEST(OnnxGraphTest, IsTheSameWithoutTheDataOfWeights) {
  onnx::ModelProto model = OnnxModel(
      "g (float[N,300,8,8] x) => (float[N,400,64] y) {"
      "c = Conv(x, w)  y = Reshape(c, s) }");
  auto* w =
      AddInitializer(model, "w", onnx::TensorProto::FLOAT, {400, 300, 1, 1});
  w->set_raw_data(std::string(400 * 300 * 4, '\1'));
  auto* s = AddInitializer(model, "s", onnx::TensorProto::INT64, {3});
  for (const int extent : {0, 400, 64}) s->add_int64_data(extent);
  const auto small = WithoutWeights(model.SerializeAsString(), "m.onnx");
  ASSERT_TRUE(small) << small.error().message;
  EXPECT_LT(small->size(), 1000u);
  EXPECT_EQ(ReadOnnx(*small, "net", BatchSize(8), "m.onnx").value(),
            ReadModel(model).value());
}

TEST(OnnxGraphTest, AssumesThatTheFirstInputIsData) {
  const Graph graph =
      ParsedModel(SingleNode("1,3,8,8", "8,3,1,1", "Conv(x, w)"));
  EXPECT_THAT(graph.tensors[0].shape, ElementsAre(8, 3, 8, 8));
  EXPECT_TRUE(graph.tensors[1].parameter);
}

}  // namespace
}  // namespace ucudnn
