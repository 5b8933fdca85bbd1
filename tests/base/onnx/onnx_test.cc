// Models of one convolution, and models that are refused.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <string>

#include "base/files/file.h"
#include "base/onnx/network_file.h"
#include "tests/base/onnx/models.h"
#include "tests/support/paths.h"

namespace ucudnn {
namespace {

using test::ModelError;
using test::OnnxModel;
using test::ParsedModel;
using test::ReadModel;
using test::SingleLayer;
using test::SingleNode;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

TEST(OnnxTest, ReadsShapesAtTheBatch) {
  const Graph graph = ParsedModel(
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

// An unevenly padded convolution: that of a larger, evenly padded input.
struct Uneven {
  std::string x;
  std::string node;
  Spatial padded_input;
  Spatial padding;
};

TEST(OnnxTest, PadsTheInputOfAConvolutionThatIsPaddedUnevenly) {
  for (const Uneven& uneven :
       {// ResNet's first layer as TensorFlow exports it: 2 before, 3 after.
        Uneven{"N,3,224,224",
               "Conv<auto_pad=\"SAME_UPPER\", strides=[2,2]>(x, w)",
               {1, 225, 225},
               {0, 2, 2}},
        Uneven{"N,3,224,225",
               "Conv<auto_pad=\"SAME_LOWER\", strides=[2,2]>(x, w)",
               {1, 225, 225},
               {0, 2, 3}},
        Uneven{"N,3,16,16",
               "Conv<pads=[0,3,4,1]>(x, w)",
               {1, 20, 18},
               {0, 0, 1}}}) {
    const Graph graph =
        ParsedModel(SingleNode(uneven.x, "64,3,7,7", uneven.node));
    ASSERT_THAT(graph.nodes, SizeIs(2)) << uneven.node;
    const Node& pad = graph.nodes[0];
    const Node& conv = graph.nodes[1];
    EXPECT_EQ(pad.op_type, "Pad");
    EXPECT_EQ(pad.name, "Conv_0.pad");
    EXPECT_THAT(pad.inputs, ElementsAre(0));
    EXPECT_EQ(conv.inputs[0], pad.outputs[0]);
    const Tensor& padded = graph.tensors[pad.outputs[0]];
    EXPECT_THAT(padded.shape, ElementsAre(8, 3, uneven.padded_input[1],
                                          uneven.padded_input[2]));
    EXPECT_FALSE(padded.parameter);
    const ConvGeometry& g = conv.convolution->geometry;
    EXPECT_EQ(g.input, uneven.padded_input);
    EXPECT_EQ(g.padding, uneven.padding);
    EXPECT_THAT(graph.tensors[conv.outputs[0]].shape,
                ElementsAre(8, 64, g.output()[1], g.output()[2]));
  }
}

TEST(OnnxTest, CropsTheOutputOfATransposedConvolutionThatIsPaddedUnevenly) {
  for (const Uneven& uneven :
       {// Keras' Conv2DTranspose(padding="same", strides=2): 16 = 17 - 1.
        Uneven{"N,4,8,8",
               "ConvTranspose<auto_pad=\"SAME_UPPER\", strides=[2,2]>(x, w)",
               {1, 17, 17},
               {0, 0, 0}},
        Uneven{"N,4,8,8",
               "ConvTranspose<pads=[0,1,1,2], strides=[2,2]>(x, w)",
               {1, 17, 15},
               {0, 0, 1}},
        Uneven{"N,4,8,8",
               "ConvTranspose<output_shape=[16,16], strides=[2,2]>(x, w)",
               {1, 17, 17},
               {0, 0, 0}}}) {
    const Graph graph =
        ParsedModel(SingleNode(uneven.x, "4,6,3,3", uneven.node));
    ASSERT_THAT(graph.nodes, SizeIs(2)) << uneven.node;
    const Node& conv = graph.nodes[0];
    const Node& crop = graph.nodes[1];
    EXPECT_EQ(crop.op_type, "Slice");
    EXPECT_EQ(crop.name, "ConvTranspose_0.crop");
    EXPECT_EQ(crop.inputs, conv.outputs);
    const ConvGeometry& g = conv.convolution->geometry;
    EXPECT_EQ(g.input, uneven.padded_input);
    EXPECT_EQ(g.padding, uneven.padding);
    EXPECT_EQ(g.output(), (Spatial{1, 8, 8}));
    EXPECT_THAT(graph.tensors[conv.outputs[0]].shape,
                ElementsAre(8, 6, g.input[1], g.input[2]));
    EXPECT_THAT(graph.tensors[crop.outputs[0]].shape,
                ElementsAre(8, 6, 16, uneven.padding[2] == 1 ? 14 : 16));
  }
}

TEST(OnnxTest, CountsTheImagesThatAreFoldedIntoTheBatch) {
  // 4 frames of each clip, and a head that has one row a clip again.
  const Graph graph = ParsedModel(
      "g (float[N,4,3,8,8] x, float[8,3,1,1] w, float[5,32,8,8] v) => "
      "(float y) {"
      "s = Constant<value = int64[4] {-1,3,8,8}>()"
      "f = Reshape(x, s)  c = Conv(f, w)"
      "t = Constant<value = int64[4] {-1,32,8,8}>()"
      "r = Reshape(c, t)  y = Conv(r, v) }");
  std::vector<std::int64_t> images;
  for (const Node& node : graph.nodes) {
    if (node.convolution) images.push_back(node.convolution->geometry.images);
  }
  EXPECT_THAT(images, ElementsAre(4, 1));
}

TEST(OnnxTest, NamesAConvolutionOfAFractionOfTheBatch) {
  // Two images of the batch beside each other.
  const Error error = ModelError(
      "g (float[N,3,8,8] x, float[8,6,1,1] w) => (float y) {"
      "s = Constant<value = int64[4] {-1,6,8,8}>()"
      "f = Reshape(x, s)  y = Conv(f, w) }");
  EXPECT_EQ(error.code, Code::kUnimplemented);
  EXPECT_THAT(error.message,
              HasSubstr("node 'Conv_2' (Conv): it convolves 4 images where the "
                        "batch is 8; a whole number"));
}

TEST(OnnxTest, NamesAddedNodesUnlikeOthers) {
  onnx::ModelProto model = OnnxModel(
      "g (float[N,1,8,8] x, float[1,1,3,3] w) => (float y) {"
      "z = Relu(x)  y = Conv<auto_pad=\"SAME_UPPER\", strides=[2,2]>(z, w) }");
  model.mutable_graph()->mutable_node(0)->set_name("c.pad");
  model.mutable_graph()->mutable_node(1)->set_name("c");
  const Result<Graph> graph = ReadModel(model);
  ASSERT_TRUE(graph);
  ASSERT_THAT(graph->nodes, SizeIs(3));
  EXPECT_EQ(graph->nodes[1].name, "c.pad_");
  EXPECT_EQ(graph->nodes[2].name, "c");
}

// The windows of a pooling of 1 x 1 x 10 x 10; absent where they are not known.
std::optional<std::array<Window, 3>> Pooling(const std::string& node) {
  const Graph graph = ParsedModel(
      "g (float[1,1,10,10] x, float[1,1,1,1] w) => (float y) {"
      "p = " +
      node + " y = Conv(p, w) }");
  return graph.nodes.empty() ? std::nullopt : graph.nodes[0].pooling;
}

TEST(OnnxTest, ReadsWindowsOfPooling) {
  using ::testing::ElementsAre;
  const Window none;
  EXPECT_THAT(Pooling("MaxPool<kernel_shape = [3, 2], strides = [2, 1], "
                      "pads = [1, 0, 0, 1]>(x)")
                  .value(),
              ElementsAre(none, Window{3, 2, 1, 0}, Window{2, 1, 0, 1}));
  // Rounding up is padding where the last window needs it.
  EXPECT_THAT(Pooling("AveragePool<kernel_shape = [3, 2], strides = [2, 2], "
                      "ceil_mode = 1>(x)")
                  .value(),
              ElementsAre(none, Window{3, 2, 0, 1}, Window{2, 2, 0, 0}));
  EXPECT_THAT(Pooling("MaxPool<kernel_shape = [3, 3], strides = [2, 2], "
                      "auto_pad = \"SAME_UPPER\">(x)")
                  .value(),
              ElementsAre(none, Window{3, 2, 0, 1}, Window{3, 2, 0, 1}));
  EXPECT_THAT(Pooling("AveragePool<kernel_shape = [3, 2], strides = [1, 3], "
                      "auto_pad = \"SAME_LOWER\">(x)")
                  .value(),
              ElementsAre(none, Window{3, 1, 1, 1}, Window{2, 3, 1, 0}));
}

TEST(OnnxTest, KeepsAttributesThatAreANumberOrAWord) {
  const Graph graph = ParsedModel(
      "g (float[1,1,10,10] x, float[1,1,1,1] w) => (float y) { p = "
      "AveragePool<kernel_shape = [3, 3], ceil_mode = 1, auto_pad = \"VALID\">"
      "(x) l = LRN<size = 3, alpha = 0.5>(p) y = Conv(l, w) }");
  EXPECT_EQ(graph.nodes[0].NumberOr("ceil_mode", 0), 1);
  EXPECT_EQ(graph.nodes[0].WordOr("auto_pad", ""), "VALID");
  EXPECT_EQ(graph.nodes[0].numbers.count("kernel_shape"), 0U);
  EXPECT_EQ(graph.nodes[1].NumberOr("size", 1), 3);
  EXPECT_EQ(graph.nodes[1].NumberOr("alpha", 1), 0.5);
  EXPECT_EQ(graph.nodes[1].NumberOr("beta", 0.75), 0.75);
}

TEST(OnnxTest, ReadsWhatAveragesDivideBy) {
  const auto divisor = [](const std::string& attributes) {
    const Graph graph = ParsedModel(
        "g (float[1,1,10,10] x, float[1,1,1,1] w) => (float y) { p = "
        "AveragePool<kernel_shape = [3, 3], strides = [2, 2]" +
        attributes + ">(x) y = Conv(p, w) }");
    EXPECT_TRUE(graph.nodes[0].pooling) << attributes;
    return graph.nodes[0].divisor;
  };
  const std::string pads = ", pads = [1, 1, 1, 1]";
  const std::string rounds = ", ceil_mode = 1";
  const std::string counts = ", count_include_pad = 1";
  EXPECT_EQ(divisor(""), Divisor::kWindow);
  EXPECT_EQ(divisor(pads), Divisor::kInside);
  EXPECT_EQ(divisor(rounds), Divisor::kInside);
  EXPECT_EQ(divisor(", auto_pad = \"SAME_UPPER\""), Divisor::kInside);
  EXPECT_EQ(divisor(pads + counts), Divisor::kWindow);
  EXPECT_EQ(divisor(rounds + counts), Divisor::kPadded);
  EXPECT_EQ(divisor(", pads = [0, 0, 1, 1]" + rounds + counts),
            Divisor::kWindow);
}

TEST(OnnxTest, LeavesWindowsOpenThatItDoesNotRead) {
  EXPECT_FALSE(
      Pooling("MaxPool<kernel_shape = [3, 3], dilations = [2, 2]>(x)"));
  EXPECT_FALSE(Pooling("GlobalAveragePool(x)"));
}

TEST(OnnxTest, NamesTheNodeThatCannotBeAConvolution) {
  for (const auto& [x, w, node, code, why] :
       {std::tuple{"N,1,8,8", "1,1,3,3",
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
    const Error error = ModelError(SingleNode(x, w, node));
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
        std::tuple{"N,1,8,8", "1,1,3,3", "Conv(x)"}}) {
    EXPECT_EQ(ModelError(SingleNode(x, w, node)).code, Code::kInvalidArgument)
        << node;
  }
}

TEST(OnnxTest, FollowsShapesThatAreComputed) {
  const Graph graph = ParsedModel(
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
  EXPECT_THAT(ModelError(inputs + "{ a = Add(x, b)  b = Relu(a)  y = Relu(b) }")
                  .message,
              HasSubstr("node 'Add_0' (Add) is on a cycle"));
  EXPECT_THAT(ModelError(inputs + "{ y = Relu(nothing) }").message,
              HasSubstr("reads tensor 'nothing', which nothing computes"));
  EXPECT_THAT(ModelError(inputs + "{ y = Relu(x)  y = Relu(x) }").message,
              HasSubstr("computes tensor 'y', which already exists"));
  EXPECT_THAT(ModelError(inputs + "{ x = Relu(x)  y = Relu(x) }").message,
              HasSubstr("computes tensor 'x'"));
  EXPECT_THAT(
      ModelError("g (float[N,3,H,8] x) => (float y) { y = Relu(x) }").message,
      HasSubstr("input 'x' has the dimension 'H' besides the batch"));
  EXPECT_THAT(ModelError("g (float[N,3,8,8] x) => (float y) { a, b = Unique(x) "
                         "y = Relu(a) }")
                  .message,
              HasSubstr("(Unique): its output 'a' has no shape"));
}

TEST(OnnxTest, NamesCustomOperators) {
  const std::string graph =
      "g (float[N,3,8,8] x, float[4,3,1,1] w) => (float y) {"
      "m = com.example.Mystery(x)  y = Conv(m, w) }";
  const Error error = ModelError(graph);
  EXPECT_EQ(error.code, Code::kUnimplemented);
  EXPECT_THAT(error.message,
              AllOf(HasSubstr("node 'Mystery_0' (com.example.Mystery)"),
                    HasSubstr("output 'm' has no shape")));
  EXPECT_THAT(
      ModelError(SingleNode("N,1,8,8", "1,1,3,3", "NoSuchOp(x, w)")).message,
      HasSubstr("node 'NoSuchOp_0' (NoSuchOp): its output 'y' has no "
                "shape that is known"));
  // The model may tell its output's shape.
  onnx::ModelProto model = OnnxModel(graph);
  auto* declared = model.mutable_graph()->add_value_info();
  *declared = model.graph().input(0);
  declared->set_name("m");
  const Result<Graph> read = ReadModel(model);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(NetworkOf(*read).layers.size(), 1U);
}

TEST(OnnxTest, NamesConvolutionsThatCannotBePlanned) {
  for (const auto& [node, why] :
       {std::pair{"QLinearConv(x, s, z, w, s, z, s, z)", "quantized"},
        std::pair{"ConvInteger(x, w)", "quantized"},
        std::pair{"DeformConv(x, w, s)", "cannot be planned"}}) {
    const Error error = ModelError(
        std::string("g (uint8[N,3,8,8] x, float s, uint8 z, uint8[4,3,1,1] w) "
                    "=> (float y) { y = ") +
        node + " }");
    EXPECT_EQ(error.code, Code::kUnimplemented) << node;
    EXPECT_THAT(error.message, AllOf(HasSubstr("node '"), HasSubstr(why)));
  }
}

TEST(OnnxTest, RefusesShapesThatAreTooLarge) {
  EXPECT_THAT(ModelError("g (float[N,4611686018427387904,8,8] x) => (float y) {"
                         "y = Relu(x) }")
                  .message,
              HasSubstr("cannot be counted"));
  EXPECT_THAT(
      ModelError(SingleNode("N,1,3000000000,8", "1,1,1,1", "Conv(x, w)"))
          .message,
      HasSubstr("input height is 3000000000"));
  EXPECT_THAT(
      ModelError("g (float[N,-3,8,8] x) => (float y) { y = Relu(x) }").code,
      Code::kInvalidArgument);
}

TEST(OnnxTest, RefusesControlFlowAndFunctions) {
  onnx::ModelProto model =
      OnnxModel("g (float[N,3,8,8] x) => (float[N,3,8,8] y) { y = Relu(x) }");
  auto* attribute = model.mutable_graph()->mutable_node(0)->add_attribute();
  attribute->set_name("body");
  attribute->mutable_g()->set_name("inner");
  EXPECT_EQ(ModelError(ReadModel(model)).code, Code::kUnimplemented);
  EXPECT_THAT(ModelError(ReadModel(model)).message,
              HasSubstr("holds a subgraph"));

  model.mutable_graph()->mutable_node(0)->clear_attribute();
  auto* function = model.add_functions();
  function->set_name("Relu");
  EXPECT_THAT(ModelError(ReadModel(model)).message,
              HasSubstr("calls a function"));

  model.clear_functions();
  model.mutable_graph()->add_sparse_initializer();
  EXPECT_THAT(ModelError(ReadModel(model)).message,
              HasSubstr("sparse initializers"));
}

TEST(OnnxTest, RefusesBytesThatAreNotAModel) {
  const auto read = [](const std::string& bytes) {
    return ModelError(ReadOnnx(bytes, "net", BatchSize(1), "m.onnx"));
  };
  EXPECT_THAT(read("").message, HasSubstr("without a node"));
  EXPECT_THAT(read("\x08\xFF").message, HasSubstr("not an ONNX model"));
  EXPECT_THAT(read(std::string(1000, '\xFF')).message,
              HasSubstr("not an ONNX model"));
  const std::string good =
      ReadFile(test::DataPath("onnx/resnet18.onnx"), 1_MiB).value();
  for (std::size_t size = 0; size < good.size(); size += 997) {
    EXPECT_EQ(read(good.substr(0, size)).code, Code::kInvalidArgument) << size;
  }
}

TEST(OnnxTest, BoundsTheBatch) {
  const onnx::ModelProto model =
      OnnxModel(SingleNode("N,3,8,8", "8,3,1,1", "Conv(x, w)"));
  EXPECT_TRUE(ReadModel(model, kMaxBatchSize.count()));
  for (const std::int64_t batch :
       {std::int64_t{0}, std::int64_t{-1}, kMaxBatchSize.count() + 1}) {
    EXPECT_THAT(ModelError(ReadModel(model, batch)).message,
                HasSubstr("1 to 16777216 is accepted"));
  }
}

TEST(OnnxTest, AcceptsModelsOfLaterVersions) {
  onnx::ModelProto model =
      OnnxModel(SingleNode("N,3,8,8", "8,3,1,1", "Conv(x, w)"));
  model.set_ir_version(10);
  model.mutable_opset_import(0)->set_version(21);
  EXPECT_TRUE(ReadModel(model)) << ModelError(ReadModel(model)).message;
}

TEST(OnnxTest, RequiresAConvolutionInANetwork) {
  const auto network = ParseNetwork(
      OnnxModel("g (float[N,3] x) => (float[N,3] y) { y = Relu(x) }")
          .SerializeAsString(),
      "net", BatchSize(1), "m.onnx");
  ASSERT_FALSE(network);
  EXPECT_THAT(network.error().message,
              HasSubstr("none of the model's 1 nodes is a convolution"));
}

}  // namespace
}  // namespace ucudnn
