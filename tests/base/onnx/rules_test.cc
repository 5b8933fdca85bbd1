// Shapes that operators of each version of the operator set have.

#include "base/onnx/rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/base/onnx/models.h"

namespace ucudnn {
namespace {

using test::ModelError;
using test::OnnxModel;
using test::ReadModel;
using ::testing::AllOf;
using ::testing::HasSubstr;

using Shape = std::vector<std::int64_t>;

// The shape of the tensor y that `nodes` compute at batch 8 from
// x: float[N,6,10,12] and the parameter v: float[6,1,1].
Result<Shape> ShapeOf(const std::string& nodes, int opset) {
  const std::string graph =
      "g (float[N,6,10,12] x, float[6,1,1] v) => (float y) {" + nodes + "}";
  UCUDNN_ASSIGN_OR_RETURN(const Graph read, ReadModel(OnnxModel(graph, opset)));
  for (const Tensor& tensor : read.tensors) {
    if (tensor.name == "y") return tensor.shape;
  }
  return Fail(Code::kNotFound, "no y");
}

std::string Numbers(const std::string& name, const std::string& values) {
  const auto count = std::count(values.begin(), values.end(), ',') + 1;
  return fmt::format(" {} = Constant<value = int64[{}] {{{}}}>() ", name, count,
                     values);
}

struct Example {
  int opset;
  std::string nodes;
  Shape shape;
};

TEST(OnnxRulesTest, KnowWhatOperatorsOfEachVersionCompute) {
  const std::vector<Example> examples = {
      // Axes were attributes, and became inputs.
      {13, "y = ReduceMean<axes = [2, 3]>(x)", {8, 6, 1, 1}},
      {18, Numbers("a", "2,-1") + "y = ReduceMean(x, a)", {8, 6, 1, 1}},
      {18,
       Numbers("a", "1") + "y = ReduceMax<keepdims = 0>(x, a)",
       {8, 10, 12}},
      {18, "y = ReduceMean(x)", {1, 1, 1, 1}},
      {18, "y = ReduceMean<noop_with_empty_axes = 1>(x)", {8, 6, 10, 12}},
      {11, "y = Unsqueeze<axes = [0, 5]>(x)", {1, 8, 6, 10, 12, 1}},
      {13, Numbers("a", "0,-1") + "y = Unsqueeze(x, a)", {1, 8, 6, 10, 12, 1}},
      {13,
       Numbers("a", "1") + "z = Unsqueeze(x, a) y = Squeeze(z)",
       {8, 6, 10, 12}},
      {9,
       "y = Slice<starts = [1, -4], ends = [9, 100], axes = [2, 3]>(x)",
       {8, 6, 8, 4}},
      {13,
       Numbers("s", "-1") + Numbers("e", "-9223372036854775807") +
           Numbers("a", "3") + Numbers("t", "-5") + "y = Slice(x, s, e, a, t)",
       {8, 6, 10, 3}},
      // Parts of equal sizes, of which the last may be smaller.
      {11, "y, z = Split<axis = 1, split = [4, 2]>(x)", {8, 4, 10, 12}},
      {13, "y, z = Split<axis = 1>(x)", {8, 3, 10, 12}},
      {13,
       Numbers("p", "1,5") + "z, y = Split<axis = 1>(x, p)",
       {8, 5, 10, 12}},
      {18, "a, b, c, y = Split<axis = 2, num_outputs = 4>(x)", {8, 6, 1, 12}},
      // Padding of some axes.
      {2, "y = Pad<pads = [0, 0, 1, 2, 0, 0, 3, -4]>(x)", {8, 6, 14, 10}},
      {13, Numbers("p", "0,0,1,2,0,0,3,4") + "y = Pad(x, p)", {8, 6, 14, 18}},
      {18,
       Numbers("p", "1,2,3,4") + Numbers("a", "-1,-2") + "y = Pad(x, p, , a)",
       {8, 6, 16, 16}},
      // Resizing, of which versions 10, 11 and 18 have other operands.
      {7, "y = Upsample<scales = [1.0, 1.0, 2.0, 1.5]>(x)", {8, 6, 20, 18}},
      {10,
       "s = Constant<value = float[4] {1.0, 1.0, 0.5, 0.3}>()"
       "y = Resize(x, s)",
       {8, 6, 5, 3}},
      {13, Numbers("s", "8,6,7,9") + "y = Resize(x, , , s)", {8, 6, 7, 9}},
      {18,
       Numbers("s", "7,9") + "y = Resize<axes = [3, 2], antialias = 1>"
                             "(x, , , s)",
       {8, 6, 9, 7}},
      {18,
       Numbers("s", "5,12") +
           "y = Resize<axes = [2, 3], keep_aspect_ratio_policy = "
           "\"not_larger\">(x, , , s)",
       {8, 6, 5, 6}},
      {19,
       Numbers("s", "5,12") +
           "y = Resize<axes = [2, 3], keep_aspect_ratio_policy = "
           "\"not_smaller\">(x, , , s)",
       {8, 6, 10, 12}},
      // Pooling with dilation; a rounded-up window starts inside the input.
      {19,
       "y = AveragePool<kernel_shape = [3, 3], dilations = [2, 2]>(x)",
       {8, 6, 6, 8}},
      {12,
       "y = MaxPool<kernel_shape = [3, 3], strides = [2, 2], "
       "ceil_mode = 1>(x)",
       {8, 6, 5, 6}},
      {12,
       "y = MaxPool<kernel_shape = [1, 1], strides = [4, 5], "
       "ceil_mode = 1>(x)",
       {8, 6, 3, 3}},
      {12,
       "y, i = MaxPool<kernel_shape = [2, 2], strides = [2, 2], "
       "auto_pad = \"SAME_UPPER\">(x)",
       {8, 6, 5, 6}},
      {12, "y = GlobalAveragePool(x)", {8, 6, 1, 1}},
      // Operators that are newer than 17.
      {20, "y = Gelu<approximate = \"tanh\">(x)", {8, 6, 10, 12}},
      {18, "y = Mish(x)", {8, 6, 10, 12}},
      {21, "y = GroupNormalization<num_groups = 2>(x, v, v)", {8, 6, 10, 12}},
      {23, "y = RMSNormalization(x, v)", {8, 6, 10, 12}},
      // Products, views and parts.
      {13, "y = Flatten<axis = 2>(x)", {48, 120}},
      {13,
       "t = Transpose<perm = [0, 1, 3, 2]>(x) y = MatMul(x, t)",
       {8, 6, 10, 10}},
      {13, Numbers("s", "0,-1,4") + "y = Reshape(x, s)", {8, 180, 4}},
      {13, "y = DepthToSpace<blocksize = 1>(x)", {8, 6, 10, 12}},
      {13, "y = SpaceToDepth<blocksize = 2>(x)", {8, 24, 5, 6}},
      {13, Numbers("r", "1,2,1,3") + "y = Tile(x, r)", {8, 12, 10, 36}},
      {13, Numbers("k", "4") + "y, i = TopK<axis = 2>(x, k)", {8, 6, 4, 12}},
      {13, "y = ArgMax<axis = 1, keepdims = 0>(x)", {8, 10, 12}},
      {13, "y = Add(x, v)", {8, 6, 10, 12}},
      {13, "c = Greater(x, v) y = Where(c, v, x)", {8, 6, 10, 12}},
      {13, "y = Concat<axis = -3>(x, x)", {8, 12, 10, 12}},
      // Left to the ONNX library.
      {13,
       "i = Constant<value = int64[1, 2] {3, 4}>() y = GatherND(x, i)",
       {1, 10, 12}},
      {18,
       "i = Constant<value = int64[1, 2] {3, 4}>() y = GatherND(x, i)",
       {1, 10, 12}}};
  for (const Example& example : examples) {
    const Result<Shape> shape = ShapeOf(example.nodes, example.opset);
    ASSERT_TRUE(shape) << example.nodes << shape.error().message;
    EXPECT_EQ(*shape, example.shape) << example.opset << ": " << example.nodes;
  }
}

TEST(OnnxRulesTest, ComputeSizesFromSizes) {
  const std::string size = Numbers("i", "2") + "s = Shape(x) h = Gather(s, i)" +
                           Numbers("two", "2") + Numbers("three", "3") +
                           Numbers("minus", "-3") + Numbers("z", "0") +
                           Numbers("o", "1");
  const auto reshaped = [&](const std::string& nodes) {
    return ShapeOf(size + nodes + Numbers("r", "-1") +
                       "t = Concat<axis = 0>(n, r) y = Reshape(x, t)",
                   18);
  };
  // The height is 10; the tensor has 8 * 720 elements.
  for (const auto& [nodes, first] :
       {std::pair{"n = Sub(h, two)", 8},
        {"n = Div(h, three)", 3},
        {"d = Sub(two, h) n0 = Div(d, three) n = Neg(n0)", 2},
        {"n0 = Sub(h, minus) n1 = Mod(h, three) n = Mul(n1, two)", 2},
        {"d = Neg(h) n = Mod(d, three)", 2},
        {"f = Cast<to = 1>(h) k = Constant<value = float[1] {0.45}>() "
         "m = Mul(f, k) p = Floor(m) n = Cast<to = 7>(p)",
         4},
        {"n = Max(two, three)", 3},
        {"b = Equal(h, two) n = Where(b, h, three)", 3},
        {"e = Shape<start = 1, end = 3>(x) n = ReduceProd(e)", 60},
        {"a, b, n, c = Split<num_outputs = 4>(s)", 10},
        {"n = Slice(s, two, three)", 10},
        {"c = ConstantOfShape<value = int64[1] {5}>(two) "
         "n = Slice(c, z, o) ",
         5}}) {
    const Result<Shape> shape = reshaped(nodes);
    ASSERT_TRUE(shape) << nodes << ": " << shape.error().message;
    EXPECT_EQ((*shape)[0], first) << nodes;
  }
}

TEST(OnnxRulesTest, ReadConstantsInAllTheirForms) {
  const std::string rest =
      "z = Constant<value_ints = [0]>() n = Unsqueeze(k, z)"
      "t = Concat<axis = 0>(n, l) y = Reshape(x, t)";
  const auto shape = ShapeOf(
      "k = Constant<value_int = 16>() l = Constant<value_ints = [-1, 12]>()" +
          rest,
      18);
  ASSERT_TRUE(shape) << shape.error().message;
  EXPECT_EQ(*shape, (Shape{16, 30, 12}));
}

TEST(OnnxRulesTest, SayWhatDoesNotMatch) {
  struct Refused {
    int opset;
    std::string nodes;
    std::string why;
  };
  const std::vector<Refused> refused = {
      {13, "y = Add(x, w) w = Transpose(v)",
       "shapes [8, 6, 10, 12] and [1, 1, 6] do not match"},
      {13, "t = Transpose(x) y = MatMul(x, t)",
       "rows of 12 elements by columns of 6"},
      {13, Numbers("s", "7,-1") + "y = Reshape(x, s)",
       "fixed batch? Export it with a symbolic one"},
      {13, "y = Transpose<perm = [0, 1, 1, 2]>(x)", "[0, 1, 1, 2]"},
      {13, Numbers("p", "1,4") + "y, z = Split<axis = 1>(x, p)",
       "splits 6 elements into [1, 4]"},
      {13, Numbers("p", "1,2") + "y = Pad(x, p)", "has 2 pads; 8 are expected"},
      {13, "y = ReduceMean<axes = [4]>(x)", "axis is 4"},
      {13, "y = MaxPool<kernel_shape = [11, 1]>(x)", "does not fit"},
      {13, "y = Add(x)", "lacks its input 2"},
      {13, "y = Relu()", "lacks its input 1"},
      {18, "s = NonZero(x) t = Cast<to = 7>(s) y = Reshape(x, t)",
       "node 'NonZero_0'"},
      {18,
       "m = ReduceMax(x) t0 = Cast<to = 7>(m) " + Numbers("r", "1") +
           "t = Reshape(t0, r) y = Reshape(x, t)",
       "depends on the numbers in its input 't'"}};
  for (const auto& [opset, nodes, why] : refused) {
    const auto shape = ShapeOf(nodes, opset);
    ASSERT_FALSE(shape) << nodes;
    EXPECT_THAT(shape.error().message,
                AllOf(HasSubstr("node '"), HasSubstr(why)));
  }
}

TEST(OnnxRulesTest, TakeShapesOfOtherOperatorsFromTheModel) {
  onnx::ModelProto model = OnnxModel(
      "g (float[N,3,8,8] x, float[4,5,1,1] w) => (float y) {"
      "m = Newest(x)  y = Conv(m, w) }",
      23);
  auto* declared = model.mutable_graph()->add_value_info();
  *declared = model.graph().input(0);
  declared->set_name("m");
  declared->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(1)
      ->set_dim_value(5);
  const Result<Graph> graph = ReadModel(model);
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(graph->tensors.back().shape, (Shape{8, 4, 8, 8}));
  // They are not those of another batch.
  auto* batch = model.mutable_graph()
                    ->mutable_input(0)
                    ->mutable_type()
                    ->mutable_tensor_type()
                    ->mutable_shape()
                    ->mutable_dim(0);
  batch->set_dim_value(2);
  EXPECT_THAT(ModelError(ReadModel(model)).message,
              AllOf(HasSubstr("(Newest): its output 'm' has no shape"),
                    HasSubstr("fixed batch of 2")));
}

TEST(OnnxRulesTest, AcceptTheStandardDomainByEitherName) {
  onnx::ModelProto model =
      OnnxModel(test::SingleNode("N,3,8,8", "8,3,1,1", "Conv(x, w)"), 18);
  model.mutable_opset_import(0)->set_domain("ai.onnx");
  EXPECT_TRUE(ReadModel(model)) << ModelError(ReadModel(model)).message;
  model.mutable_graph()->mutable_node(0)->set_domain("ai.onnx");
  EXPECT_TRUE(ReadModel(model)) << ModelError(ReadModel(model)).message;
}

TEST(OnnxRulesTest, DoNotMindTheElementType) {
  for (const int opset : {17, 18, 22}) {
    onnx::ModelProto model = OnnxModel(
        "g (bfloat16[N,3,8,8] x, bfloat16[8,3,1,1] w) => (bfloat16 y) {"
        "c = Conv(x, w) y = Relu(c) }",
        opset);
    const Result<Graph> graph = ReadModel(model);
    ASSERT_TRUE(graph) << graph.error().message;
    EXPECT_EQ(graph->tensors.back().element_bytes, 2);
    EXPECT_TRUE(graph->tensors.back().floating);
  }
}

}  // namespace
}  // namespace ucudnn
