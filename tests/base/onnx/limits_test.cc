// Models that are small in a file and would be large in memory.

#include "base/limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/onnx/network_file.h"
#include "base/onnx/wire.h"
#include "tests/base/onnx/models.h"

namespace ucudnn {
namespace {

using test::ModelError;
using test::OnnxModel;
using test::ReadModel;
using ::testing::HasSubstr;

// A convolution beside `nodes`, which may use x: float[N,3,8,8].
onnx::ModelProto With(const std::string& nodes) {
  return OnnxModel(
      "g (float[N,3,8,8] x, float[8,3,1,1] w) => (float[N,8,8,8] y) {" + nodes +
      " y = Conv(x, w) }");
}

TEST(OnnxLimitsTest, ComputesNoValuesThatDouble) {
  // 2^28 values if they were computed: some 16 GB.
  std::string nodes = "v0 = Shape(x)";
  for (int i = 0; i < 26; ++i) {
    nodes += fmt::format(" v{0} = Concat<axis=0>(v{1}, v{1})", i + 1, i);
  }
  const auto graph = ReadModel(With(nodes));
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(graph->tensors[28].shape.at(0), std::int64_t{4} << 26);
}

TEST(OnnxLimitsTest, ComputesNoValuesThatAreRepeatedOften) {
  std::string nodes =
      "v = Constant<value=int64[8] {1,2,3,4,5,6,7,8}>() c = Concat<axis=0>(v";
  for (int i = 1; i < 20'000; ++i) nodes += ",v";
  // Reshape would need the values.
  EXPECT_THAT(
      ModelError(ReadModel(With(nodes + ") r = Reshape(x, c)"))).message,
      HasSubstr("depends on the numbers in its input 'c'"));
}

TEST(OnnxLimitsTest, RefusesDimensionsThatDouble) {
  std::string nodes = "v0 = Constant<value=int64[1,1] {0}>()";
  for (int i = 0; i < 40; ++i) {
    nodes += fmt::format(" v{} = Gather(v{}, v{})", i + 1, i, i);
  }
  EXPECT_THAT(ModelError(ReadModel(With(nodes))).message,
              HasSubstr("dimensions; 64 are accepted"));
}

TEST(OnnxLimitsTest, RefusesTypesThatNest) {
  const Error error = ModelError(ReadModel(With("s = SequenceConstruct(x)")));
  EXPECT_EQ(error.code, Code::kUnimplemented);
  EXPECT_THAT(error.message, HasSubstr("output 's' is not a tensor"));
}

TEST(OnnxLimitsTest, RefusesManySmallPartsBeforeParsingThem) {
  // Empty nodes: two bytes each in the file.
  std::string nodes;
  for (int i = 0; i < 1'000'000; ++i) nodes += std::string("\x0a\0", 2);
  std::string model = "\x3a";  // ModelProto.graph
  for (std::size_t size = nodes.size(); size > 0; size >>= 7U) {
    model += static_cast<char>((size & 0x7FU) | (size > 0x7FU ? 0x80U : 0U));
  }
  const auto graph = ReadOnnx(model + nodes, "net", BatchSize(1), "m.onnx");
  EXPECT_THAT(ModelError(graph).message, HasSubstr("too many small parts"));
}

TEST(OnnxLimitsTest, RefusesTooManyNodes) {
  onnx::ModelProto model = With("");
  for (int i = 0; i < kMaxOnnxNodes; ++i) {
    auto* node = model.mutable_graph()->add_node();
    node->set_op_type("Relu");
    node->add_input("x");
    node->add_output(fmt::format("r{}", i));
  }
  EXPECT_THAT(ModelError(ReadModel(model)).message,
              HasSubstr("50001 nodes; up to 50000 are accepted"));
}

TEST(OnnxLimitsTest, RefusesTooManyConvolutions) {
  onnx::ModelProto model = With("");
  for (std::size_t i = 0; i < kMaxLayers; ++i) {
    auto* node = model.mutable_graph()->add_node();
    node->set_op_type("Conv");
    node->add_input("x");
    node->add_input("w");
    node->add_output(fmt::format("c{}", i));
  }
  const auto network =
      ParseNetwork(model.SerializeAsString(), "net", BatchSize(1), "m.onnx");
  ASSERT_FALSE(network);
  EXPECT_THAT(network.error().message,
              HasSubstr("10001 convolutions; up to 10000 are accepted"));
}

TEST(OnnxLimitsTest, LooksForNoOtherFiles) {
  for (const char* file : {"/etc/passwd", "there-is-none"}) {
    onnx::ModelProto model = With("c = Constant<value=float[2] {1.0,2.0}>()");
    auto* tensor = model.mutable_graph()
                       ->mutable_node(0)
                       ->mutable_attribute(0)
                       ->mutable_t();
    tensor->clear_float_data();
    tensor->set_data_location(onnx::TensorProto::EXTERNAL);
    auto* location = tensor->add_external_data();
    location->set_key("location");
    location->set_value(file);
    const Error error = ModelError(ReadModel(model));
    EXPECT_EQ(error.code, Code::kInvalidArgument);
    EXPECT_THAT(error.message, HasSubstr("its data lies in another file"));
  }
}

TEST(OnnxOverheadTest, CountsWhatParsingAdds) {
  constexpr std::int64_t kMax = std::int64_t{1} << 30;
  onnx::ModelProto model = With("");
  auto* w = model.mutable_graph()->add_initializer();
  const std::int64_t empty = OnnxOverhead(model.SerializeAsString(), kMax);
  w->set_raw_data(std::string(100'000, 'x'));
  const std::int64_t raw = OnnxOverhead(model.SerializeAsString(), kMax);
  EXPECT_LT(raw - empty, 100);  // the weights themselves do not count
  w->clear_raw_data();
  for (int i = 0; i < 100'000; ++i) w->add_int64_data(1);
  const std::int64_t small = OnnxOverhead(model.SerializeAsString(), kMax);
  EXPECT_NEAR(static_cast<double>(small - empty), 700'000, 100);
}

}  // namespace
}  // namespace ucudnn
