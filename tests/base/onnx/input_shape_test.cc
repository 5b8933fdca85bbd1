// Sizes for models that leave some open.

#include "base/onnx/input_shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/base/onnx/models.h"

namespace ucudnn {
namespace {

using test::OnnxModel;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kOpen[] =
    "g (float[N,3,H,W] image, float[8,3,3,3] w) => (float[N,8,H,W] y) {"
    "y = Conv<pads=[1,1,1,1]>(image, w) }";

Result<Graph> Sized(const std::string& graph,
                    const std::vector<InputShape>& shapes) {
  UCUDNN_ASSIGN_OR_RETURN(
      const std::string model,
      WithInputShapes(OnnxModel(graph).SerializeAsString(), shapes, "m.onnx"));
  return ReadOnnx(model, "net", BatchSize(2), "m.onnx");
}

std::string WhyNot(const std::string& graph,
                   const std::vector<InputShape>& shapes) {
  return test::ModelError(Sized(graph, shapes)).message;
}

TEST(InputShapeTest, ReadsSizesAndTheInputsName) {
  EXPECT_EQ(ParseInputShape("3,224,224"), (InputShape{"", {3, 224, 224}}));
  EXPECT_EQ(ParseInputShape("a=b=1"), (InputShape{"a=b", {1}}));
  for (const char* text : {"3,224,224", "a=b=1"}) {
    EXPECT_EQ(ToText(ParseInputShape(text).value()), text);
  }
  for (const char* bad :
       {"", "3,", ",3", "3x224", "x=", "=3", "0", "-1", "3,9999999999"}) {
    const auto shape = ParseInputShape(bad);
    ASSERT_FALSE(shape) << bad;
    EXPECT_THAT(shape.error().message, HasSubstr("INPUT=3,224,224"));
  }
}

TEST(InputShapeTest, SetsTheSizesOfTheInputThatLeavesThemOpen) {
  for (const InputShape& shape :
       {InputShape{"", {3, 16, 20}}, InputShape{"image", {3, 16, 20}}}) {
    const Result<Graph> graph = Sized(kOpen, {shape});
    ASSERT_TRUE(graph) << graph.error().message;
    EXPECT_THAT(graph->tensors[0].shape, ElementsAre(2, 3, 16, 20));
    EXPECT_THAT(graph->tensors.back().shape, ElementsAre(2, 8, 16, 20));
  }
}

TEST(InputShapeTest, SetsEqualSymbolsEverywhere) {
  const Result<Graph> graph = Sized(
      "g (float[N,3,H,W] a, float[N,3,H,W] b) => (float y) { y = Add(a, b) }",
      {{"a", {3, 4, 5}}});
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_THAT(graph->tensors[1].shape, ElementsAre(2, 3, 4, 5));
}

TEST(InputShapeTest, GivesSizesThatAreAllCalledTheSame) {
  const Result<Graph> graph = Sized(
      "g (float[D,3,D,D] x, float[8,3,3,3] w) => (float[D,8,D,D] y) {"
      "y = Conv<pads=[1,1,1,1]>(x, w) }",
      {{"", {3, 16, 20}}});
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_THAT(graph->tensors[0].shape, ElementsAre(2, 3, 16, 20));
}

TEST(InputShapeTest, NamesTheInputThatDoesNotMatch) {
  EXPECT_THAT(WhyNot(kOpen, {{"x", {3, 8, 8}}}),
              AllOf(HasSubstr("no input 'x'"), HasSubstr("image, w")));
  EXPECT_THAT(WhyNot(kOpen, {{"", {8, 8}}}),
              HasSubstr("input 'image' has 4 dimensions, the batch among them; "
                        "3 sizes are accepted, 2 were given"));
  EXPECT_THAT(WhyNot(kOpen, {{"", {4, 8, 8}}}),
              HasSubstr("fixed size 3 where 4 was given"));
  EXPECT_THAT(WhyNot(kOpen, {{"", {3, 8, 8}}, {"image", {3, 8, 9}}}),
              HasSubstr("fixed size 8 where 9 was given"));
  EXPECT_THAT(
      WhyNot("g (float[N,H,H] x) => (float y) { y = Relu(x) }", {{"", {4, 5}}}),
      HasSubstr("'H' would be 4 and 5"));
  EXPECT_THAT(
      WhyNot("g (float[N,3] x) => (float y) { y = Relu(x) }", {{"", {3}}}),
      HasSubstr("no inputs have sizes that are not numbers"));
  EXPECT_THAT(
      WhyNot("g (float[N,H] a, float[N,K] b) => (float y) { y = Add(a, b) }",
             {{"", {3}}}),
      AllOf(HasSubstr("the inputs a, b"), HasSubstr("INPUT=3")));
  const auto broken = WithInputShapes("\x08\xFF", {{"", {3}}}, "m.onnx");
  ASSERT_FALSE(broken);
  EXPECT_THAT(broken.error().message, HasSubstr("m.onnx: "));
}

}  // namespace
}  // namespace ucudnn
