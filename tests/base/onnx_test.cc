#include "base/onnx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx/defs/parser.h>
#include <onnx/onnx_pb.h>

#include <algorithm>

#include "base/file.h"
#include "base/network_file.h"

namespace ucudnn {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

std::string Data(const std::string& name) {
  return std::string(UCUDNN_TEST_DATA) + "/" + name;
}

// A model from ONNX's own text form.
onnx::ModelProto Model(const std::string& graph) {
  onnx::ModelProto model;
  const auto status = onnx::OnnxParser::Parse(
      model, ("<ir_version: 8, opset_import: [\"\" : 17]>\n" + graph).c_str());
  EXPECT_TRUE(status.IsOK()) << status.ErrorMessage();
  return model;
}

Result<Graph> Read(const onnx::ModelProto& model, std::int64_t batch = 8) {
  return ReadOnnx(model.SerializeAsString(), "net", BatchSize(batch), "m.onnx");
}

Graph Parsed(const std::string& graph) {
  auto result = Read(Model(graph));
  EXPECT_TRUE(result) << result.error().message;
  return result.value_or(Graph());
}

Error ErrorOf(const Result<Graph>& graph) {
  if (graph) return {Code::kOk, "no error"};
  EXPECT_THAT(graph.error().message, StartsWith("m.onnx: "));
  return graph.error();
}

Error ErrorOf(const std::string& graph) { return ErrorOf(Read(Model(graph))); }

// A graph of the one convolution `node`, which makes y of x.
std::string Single(const std::string& x, const std::string& w,
                   const std::string& node) {
  return "g (float[" + x + "] x, float[" + w +
         "] w) => (float y) { y = " + node + " }";
}

ConvLayer SingleLayer(const std::string& x, const std::string& w,
                      const std::string& node) {
  const Network network = NetworkOf(Parsed(Single(x, w, node)));
  EXPECT_THAT(network.layers, SizeIs(1));
  return network.layers.empty() ? ConvLayer() : network.layers[0];
}

TEST(OnnxTest, ReadsShapesAtTheBatch) {
  const Graph graph = Parsed(
      "g (float[N,3,32,32] x, float[8,3,3,3] w, float[8] b) => "
      "(float[N,8,30,30] "
      "z) { y = Conv(x, w, b)  z = Relu(y) }");
  EXPECT_EQ(graph.name, "net");
  EXPECT_EQ(graph.batch, BatchSize(8));
  ASSERT_THAT(graph.tensors, SizeIs(5));
  EXPECT_THAT(graph.tensors[0].shape, ElementsAre(8, 3, 32, 32));
  EXPECT_FALSE(graph.tensors[0].parameter);
  EXPECT_TRUE(graph.tensors[1].parameter);
  EXPECT_TRUE(graph.tensors[1].trained);
  EXPECT_EQ(graph.tensors[4].name, "z");
  EXPECT_THAT(graph.tensors[4].shape, ElementsAre(8, 8, 30, 30));
  EXPECT_EQ(graph.tensors[4].size(), Bytes(8 * 8 * 30 * 30 * 4));
  ASSERT_THAT(graph.nodes, SizeIs(2));
  EXPECT_EQ(graph.nodes[0].name, "Conv_0");
  EXPECT_THAT(graph.nodes[0].inputs, ElementsAre(0, 1, 2));
  EXPECT_THAT(graph.nodes[0].outputs, ElementsAre(3));
  EXPECT_EQ(graph.nodes[1].op_type, "Relu");
  EXPECT_FALSE(graph.nodes[1].convolution);
}

TEST(OnnxTest, ReadsGroupsStridesAndDilation) {
  const ConvLayer layer = SingleLayer(
      "N,6,20,30", "4,3,3,5",
      "Conv<group=2, strides=[2,3], dilations=[3,2], pads=[1,2,1,2], "
      "kernel_shape=[3,5]>(x, w)");
  EXPECT_EQ(layer.geometry, (ConvGeometry{.channels = 6,
                                          .filters = 4,
                                          .groups = 2,
                                          .input = {1, 20, 30},
                                          .filter = {1, 3, 5},
                                          .padding = {0, 1, 2},
                                          .stride = {1, 2, 3},
                                          .dilation = {1, 3, 2}}));
  EXPECT_FALSE(layer.transposed);
  EXPECT_FALSE(layer.needs_input_gradient);
}

TEST(OnnxTest, ReadsOneDimensionAsHeightOne) {
  const ConvLayer layer =
      SingleLayer("N,4,100", "8,4,9", "Conv<strides=[2], pads=[4,4]>(x, w)");
  EXPECT_EQ(layer.geometry, (ConvGeometry{.channels = 4,
                                          .filters = 8,
                                          .input = {1, 1, 100},
                                          .filter = {1, 1, 9},
                                          .padding = {0, 0, 4},
                                          .stride = {1, 1, 2}}));
}

TEST(OnnxTest, ReadsThreeDimensions) {
  const ConvLayer layer =
      SingleLayer("N,4,9,20,30", "8,4,3,5,7",
                  "Conv<pads=[1,2,3,1,2,3], strides=[1,2,2]>(x, w)");
  EXPECT_EQ(layer.geometry, (ConvGeometry{.spatial_dims = 3,
                                          .channels = 4,
                                          .filters = 8,
                                          .input = {9, 20, 30},
                                          .filter = {3, 5, 7},
                                          .padding = {1, 2, 3},
                                          .stride = {1, 2, 2}}));
}

TEST(OnnxTest, StoresTransposedConvolutionsAsTheirAdjoint) {
  // 7 -> 2 * 6 + 1 + 3 - 2 = 14 rows, 7 -> 2 * 6 + 0 + 4 - 2 = 14 columns.
  const ConvLayer layer =
      SingleLayer("N,16,7,7", "16,4,3,4",
                  "ConvTranspose<group=2, strides=[2,2], pads=[1,1,1,1], "
                  "output_padding=[1,0]>(x, w)");
  EXPECT_TRUE(layer.transposed);
  EXPECT_EQ(layer.geometry, (ConvGeometry{.channels = 8,
                                          .filters = 16,
                                          .groups = 2,
                                          .input = {1, 14, 14},
                                          .filter = {1, 3, 4},
                                          .padding = {0, 1, 1},
                                          .stride = {1, 2, 2}}));
}

TEST(OnnxTest, AcceptsAutomaticPaddingThatIsEven) {
  const auto padding = [](const std::string& x, const std::string& w,
                          const std::string& node) {
    return SingleLayer(x, w, node).geometry.padding;
  };
  EXPECT_EQ(
      padding("N,1,9,9", "1,1,3,5", "Conv<auto_pad=\"SAME_UPPER\">(x, w)"),
      (Spatial{0, 1, 2}));
  EXPECT_EQ(padding("N,1,9,9", "1,1,3,3",
                    "Conv<auto_pad=\"SAME_LOWER\", strides=[2,2]>(x, w)"),
            (Spatial{0, 1, 1}));
  EXPECT_EQ(padding("N,1,9,9", "1,1,3,3",
                    "Conv<auto_pad=\"SAME_UPPER\", dilations=[2,1]>(x, w)"),
            (Spatial{0, 2, 1}));
  EXPECT_EQ(padding("N,1,9,9", "1,1,1,1",
                    "Conv<auto_pad=\"SAME_UPPER\", strides=[4,4]>(x, w)"),
            (Spatial{0, 0, 0}));
  EXPECT_EQ(padding("N,1,9,9", "1,1,3,3", "Conv<auto_pad=\"VALID\">(x, w)"),
            (Spatial{0, 0, 0}));
  EXPECT_EQ(
      padding("N,1,9,9", "1,1,4,4",
              "ConvTranspose<auto_pad=\"SAME_UPPER\", strides=[2,2]>(x, w)"),
      (Spatial{0, 1, 1}));
  EXPECT_EQ(padding("N,1,9,9", "1,1,4,4",
                    "ConvTranspose<output_shape=[18,18], strides=[2,2]>(x, w)"),
            (Spatial{0, 1, 1}));
}

TEST(OnnxTest, NamesTheNodeThatCannotBeAConvolution) {
  for (const auto& [x, w, node, code, why] :
       {std::tuple{"N,1,8,8", "1,1,3,3",
                   "Conv<auto_pad=\"SAME_UPPER\", strides=[2,2]>(x, w)",
                   Code::kUnimplemented,
                   "SAME_UPPER pads the height by 0 before and 1 after"},
        std::tuple{"N,1,8,8", "1,1,3,3",
                   "Conv<auto_pad=\"SAME_LOWER\", strides=[2,2]>(x, w)",
                   Code::kUnimplemented, "by 1 before and 0 after"},
        std::tuple{"N,1,8,8", "1,1,3,3", "Conv<pads=[1,0,1,1]>(x, w)",
                   Code::kUnimplemented,
                   "'pads' pads the width by 0 before and 1 after"},
        std::tuple{"N,1,8,8", "1,1,3,3",
                   "ConvTranspose<strides=[2,2], output_shape=[16,16]>(x, w)",
                   Code::kUnimplemented, "'output_shape' pads the height"},
        std::tuple{"N,1,8,8", "1,1,3,3",
                   "ConvTranspose<strides=[2,2], output_padding=[2,0]>(x, w)",
                   Code::kInvalidArgument, "less than the stride"},
        std::tuple{"N,1,8,8", "1,1,3,3", "Conv<pads=[-1,0,-1,0]>(x, w)",
                   Code::kInvalidArgument, "padding height is -1"},
        std::tuple{"N,1,8,8", "1,1,3,3", "Conv<strides=[0,1]>(x, w)",
                   Code::kInvalidArgument, "'strides' holds 0"},
        std::tuple{"N,1,8,8", "1,1,3,3", "Conv<group=0>(x, w)",
                   Code::kInvalidArgument, "'group' holds 0"},
        std::tuple{"N,4,8,8", "4,2,3,3", "Conv(x, w)", Code::kInvalidArgument,
                   "filter has the shape [4, 2, 3, 3]"},
        std::tuple{"N,4,8,8", "3,2,3,3", "Conv<group=2>(x, w)",
                   Code::kInvalidArgument, "does not divide"},
        std::tuple{"N,1,4,4,4,4", "1,1,1,1,1,1", "Conv(x, w)",
                   Code::kUnimplemented, "one, two or three"}}) {
    const Error error = ErrorOf(Single(x, w, node));
    EXPECT_EQ(error.code, code) << node;
    EXPECT_THAT(error.message, AllOf(HasSubstr("node 'Conv"), HasSubstr(why)));
  }
}

TEST(OnnxTest, RefusesWhatShapeInferenceRefuses) {
  for (const auto& [x, w, node] :
       {std::tuple{"N,1,8,8", "1,1,9,9", "Conv(x, w)"},
        std::tuple{"N,1,8,8", "1,1,3,3", "Conv<kernel_shape=[2,2]>(x, w)"},
        std::tuple{"N,1,8,8", "1,1,3,3", "Conv<strides=[1]>(x, w)"},
        std::tuple{"N,1,8,8", "1,1,3,3", "Conv<pads=[1,1]>(x, w)"},
        std::tuple{"N,1,8,8", "1,1,3", "Conv(x, w)"},
        std::tuple{"N,1,8,8", "1,1,3,3", "Conv<auto_pad=\"SOME\">(x, w)"},
        std::tuple{"N,1,8,8", "1,1,3,3", "Conv(x)"},
        std::tuple{"N,1,8,8", "1,1,3,3", "NoSuchOp(x, w)"}}) {
    EXPECT_EQ(ErrorOf(Single(x, w, node)).code, Code::kInvalidArgument) << node;
  }
}

TEST(OnnxTest, SortsNodesTopologically) {
  onnx::ModelProto model = Model(
      "g (float[N,3,8,8] x, float[3,3,1,1] w) => (float[N,3,8,8] d) {"
      "a = Conv(x, w)  b = Relu(a)  c = Conv(a, w)  d = Add(b, c) }");
  auto* nodes = model.mutable_graph()->mutable_node();
  nodes->SwapElements(0, 3);
  nodes->SwapElements(1, 2);
  const Graph graph = Read(model).value();
  std::vector<std::string> order;
  for (const Node& node : graph.nodes) order.push_back(node.name);
  EXPECT_THAT(order, ElementsAre("Conv_3", "Conv_1", "Relu_2", "Add_0"));
  EXPECT_THAT(Predecessors(graph),
              ElementsAre(IsEmpty(), ElementsAre(0), ElementsAre(0),
                          ElementsAre(1, 2)));
}

TEST(OnnxTest, GivesEveryNodeANameOfItsOwn) {
  onnx::ModelProto model = Model(
      "g (float[N,3,8,8] x, float[3,3,1,1] w) => (float[N,3,8,8] e) {"
      "a = Conv(x, w)  b = Conv(a, w)  c = Conv(b, w)  d = Conv(c, w)"
      "e = Conv(d, w) }");
  auto* graph = model.mutable_graph();
  graph->mutable_node(0)->set_name("twice");
  graph->mutable_node(1)->set_name("twice");
  graph->mutable_node(2)->set_name("Conv_1");
  graph->mutable_node(3)->set_name("a\nb");
  std::vector<std::string> names;
  for (const ConvLayer& layer : NetworkOf(Read(model).value()).layers) {
    names.push_back(layer.name);
  }
  EXPECT_THAT(names,
              ElementsAre("Conv_0", "Conv_1_", "Conv_1", "Conv_3", "Conv_4"));
}

TEST(OnnxTest, NeedsAnInputGradientAfterTheFirstTrainedParameter) {
  const Network network = NetworkOf(Parsed(
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

TEST(OnnxTest, DoesNotTrainStatisticsOrScales) {
  const Graph graph = Parsed(
      "g (float[N,3,8,8] x, float[3] s, float[3] m, float low) => "
      "(float[N,3,8,8] z) { y = BatchNormalization(x, s, s, m, m)"
      "z = Clip(y, low) }");
  EXPECT_TRUE(graph.tensors[1].trained);
  EXPECT_FALSE(graph.tensors[2].trained);
  EXPECT_TRUE(graph.tensors[2].parameter);
  EXPECT_FALSE(graph.tensors[3].trained);
}

TEST(OnnxTest, TellsDataFromParametersByInitializers) {
  // No symbolic batch: the initializers are the parameters.
  onnx::ModelProto model = Model(
      "g (float[1,3,8,8] x, float[1,3,8,8] other) => (float[1,4,8,8] y) {"
      "s = Add(x, other)  y = Conv(s, w) }");
  auto* w = model.mutable_graph()->add_initializer();
  w->set_name("w");
  w->set_data_type(onnx::TensorProto::FLOAT);
  for (const int extent : {4, 3, 1, 1}) w->add_dims(extent);
  w->set_raw_data(std::string(48, '\0'));
  const Graph graph = Read(model).value();
  ASSERT_THAT(graph.tensors, SizeIs(5));
  EXPECT_THAT(graph.tensors[0].shape, ElementsAre(8, 3, 8, 8));
  EXPECT_THAT(graph.tensors[1].shape, ElementsAre(8, 3, 8, 8));
  EXPECT_TRUE(graph.tensors[2].trained);
  EXPECT_THAT(graph.tensors[4].shape, ElementsAre(8, 4, 8, 8));

  w->set_raw_data(std::string(47, '\0'));
  EXPECT_THAT(ErrorOf(Read(model)).message,
              HasSubstr("initializer 'w': it has 47 bytes of data; 48"));
}

TEST(OnnxTest, DoesNotNeedTheWeights) {
  onnx::ModelProto model = Model(
      "g (float[N,300,8,8] x) => (float[N,400,8,8] y) { y = Conv(x, w) }");
  auto* w = model.mutable_graph()->add_initializer();
  w->set_name("w");
  w->set_data_type(onnx::TensorProto::FLOAT);
  for (const int extent : {400, 300, 1, 1}) w->add_dims(extent);
  w->set_data_location(onnx::TensorProto::EXTERNAL);
  auto* location = w->add_external_data();
  location->set_key("location");
  location->set_value("weights.bin");
  EXPECT_EQ(NetworkOf(Read(model).value()).layers[0].geometry.filters, 400);
}

TEST(OnnxTest, TakesTheFirstInputForDataWhereNothingTells) {
  const Graph graph = Parsed(Single("1,3,8,8", "8,3,1,1", "Conv(x, w)"));
  EXPECT_THAT(graph.tensors[0].shape, ElementsAre(8, 3, 8, 8));
  EXPECT_TRUE(graph.tensors[1].parameter);
}

TEST(OnnxTest, FollowsShapesThatAreComputed) {
  const Graph graph = Parsed(
      "g (float[N,3,8,8] x) => (float y) {"
      "s = Shape(x)  z = Constant<value = int64[1] {0}>()"
      "n = Gather(s, z)  r = Constant<value = int64[1] {-1}>()"
      "t = Concat<axis = 0>(n, r)  y = Reshape(x, t) }");
  EXPECT_THAT(graph.tensors.back().shape, ElementsAre(8, 192));
  EXPECT_FALSE(graph.tensors[1].floating);
  EXPECT_EQ(graph.tensors[1].element_bytes, 8);
}

TEST(OnnxTest, RefusesBrokenGraphs) {
  const std::string inputs = "g (float[N,3,8,8] x) => (float[N,3,8,8] y) ";
  EXPECT_THAT(
      ErrorOf(inputs + "{ a = Add(x, b)  b = Relu(a)  y = Relu(b) }").message,
      HasSubstr("node 'Add_0' (Add) is on a cycle"));
  EXPECT_THAT(ErrorOf(inputs + "{ y = Relu(nothing) }").message,
              HasSubstr("reads tensor 'nothing', which nothing computes"));
  EXPECT_THAT(ErrorOf(inputs + "{ y = Relu(x)  y = Relu(x) }").message,
              HasSubstr("computes tensor 'y', which is already there"));
  EXPECT_THAT(ErrorOf(inputs + "{ x = Relu(x)  y = Relu(x) }").message,
              HasSubstr("computes tensor 'x'"));
  EXPECT_THAT(
      ErrorOf("g (float[N,3,H,8] x) => (float y) { y = Relu(x) }").message,
      HasSubstr("input 'x' has the dimension 'H' besides the batch"));
  EXPECT_THAT(ErrorOf("g (float[N,3,8,8] x) => (float y) { a, b = Unique(x) "
                      "y = Relu(a) }")
                  .message,
              HasSubstr("tensor 'a', computed by node 'Unique_0'"));
  EXPECT_THAT(ErrorOf("g (float[N,3,8,8] x) => (float y) {"
                      "y = com.example.Mystery(x) }")
                  .message,
              HasSubstr("com.example"));
}

TEST(OnnxTest, RefusesWhatIsTooLargeToBeCounted) {
  EXPECT_THAT(ErrorOf("g (float[N,4611686018427387904,8,8] x) => (float y) {"
                      "y = Relu(x) }")
                  .message,
              HasSubstr("cannot be counted"));
  EXPECT_THAT(
      ErrorOf(Single("N,1,3000000000,8", "1,1,1,1", "Conv(x, w)")).message,
      HasSubstr("input height is 3000000000"));
  EXPECT_THAT(
      ErrorOf("g (float[N,-3,8,8] x) => (float y) { y = Relu(x) }").code,
      Code::kInvalidArgument);
}

TEST(OnnxTest, RefusesControlFlowAndFunctions) {
  onnx::ModelProto model =
      Model("g (float[N,3,8,8] x) => (float[N,3,8,8] y) { y = Relu(x) }");
  auto* attribute = model.mutable_graph()->mutable_node(0)->add_attribute();
  attribute->set_name("body");
  attribute->mutable_g()->set_name("inner");
  EXPECT_EQ(ErrorOf(Read(model)).code, Code::kUnimplemented);
  EXPECT_THAT(ErrorOf(Read(model)).message, HasSubstr("holds a subgraph"));

  model.mutable_graph()->mutable_node(0)->clear_attribute();
  auto* function = model.add_functions();
  function->set_name("Relu");
  EXPECT_THAT(ErrorOf(Read(model)).message, HasSubstr("calls a function"));

  model.clear_functions();
  model.mutable_graph()->add_sparse_initializer();
  EXPECT_THAT(ErrorOf(Read(model)).message, HasSubstr("sparse initializers"));
}

TEST(OnnxTest, RefusesBytesThatAreNoModel) {
  const auto read = [](const std::string& bytes) {
    return ErrorOf(ReadOnnx(bytes, "net", BatchSize(1), "m.onnx"));
  };
  EXPECT_THAT(read("").message, HasSubstr("without a node"));
  EXPECT_THAT(read("\x08\xFF").message, HasSubstr("not an ONNX model"));
  EXPECT_THAT(read(std::string(1000, '\xFF')).message,
              HasSubstr("not an ONNX model"));
  const std::string good = ReadFile(Data("onnx/resnet18.onnx"), 1_MiB).value();
  for (std::size_t size = 0; size < good.size(); size += 997) {
    EXPECT_EQ(read(good.substr(0, size)).code, Code::kInvalidArgument) << size;
  }
}

TEST(OnnxTest, BoundsTheBatch) {
  const onnx::ModelProto model =
      Model(Single("N,3,8,8", "8,3,1,1", "Conv(x, w)"));
  EXPECT_TRUE(Read(model, kMaxBatchSize.count()));
  for (const std::int64_t batch :
       {std::int64_t{0}, std::int64_t{-1}, kMaxBatchSize.count() + 1}) {
    EXPECT_THAT(ErrorOf(Read(model, batch)).message,
                HasSubstr("1 to 16777216 is accepted"));
  }
}

TEST(OnnxTest, AcceptsModelsOfLaterVersions) {
  onnx::ModelProto model = Model(Single("N,3,8,8", "8,3,1,1", "Conv(x, w)"));
  model.set_ir_version(10);
  model.mutable_opset_import(0)->set_version(21);
  EXPECT_TRUE(Read(model)) << ErrorOf(Read(model)).message;
}

TEST(OnnxTest, WantsAConvolutionInANetwork) {
  const auto network =
      ParseNetwork(Model("g (float[N,3] x) => (float[N,3] y) { y = Relu(x) }")
                       .SerializeAsString(),
                   "net", BatchSize(1), "m.onnx");
  ASSERT_FALSE(network);
  EXPECT_THAT(network.error().message,
              HasSubstr("none of the model's 1 nodes is a convolution"));
}

// Geometries alone, in order: names differ between the two forms.
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
        {"resnet152", "resnet152_v1_5"}}) {
    const auto from_model = ReadNetworkFile(
        Data(fmt::format("onnx/{}.onnx", model)), BatchSize(32));
    const auto from_table = ReadNetworkFile(
        Data(fmt::format("networks/{}.csv", table)), BatchSize(32));
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
  const auto network = ReadNetworkFile(Data("onnx/r3d_18.onnx"), BatchSize(2));
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
      ReadNetworkFile(Data("onnx/fcn_resnet50.onnx"), BatchSize(4));
  ASSERT_TRUE(network) << network.error().message;
  EXPECT_THAT(network->layers, SizeIs(55));
  EXPECT_TRUE(std::any_of(
      network->layers.begin(), network->layers.end(),
      [](const ConvLayer& layer) { return layer.geometry.dilation[1] == 4; }));
}

TEST(RealModelsTest, BranchInInception) {
  const auto graph = ReadGraphFile(Data("onnx/googlenet.onnx"), BatchSize(16));
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
    const std::string path = Data(fmt::format("onnx/{}.onnx", name));
    EXPECT_EQ(ReadNetworkFile(path, BatchSize(1)).value(),
              ReadNetworkFile(path, BatchSize(1000)).value());
  }
}

}  // namespace
}  // namespace ucudnn
