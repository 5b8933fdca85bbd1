// Random models of every operator that the ONNX library knows: reading them
// gives a graph or an error, never a crash or a hang. The library trusts its
// input; we must not.

#include <gtest/gtest.h>
#include <onnx/defs/schema.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <array>
#include <limits>
#include <random>

#include "base/onnx/onnx.h"
#include "base/text.h"
#include "tests/support/trials.h"

namespace ucudnn {
namespace {

class ModelMaker {
 public:
  ModelMaker() {
    for (auto& schema :
         onnx::OpSchemaRegistry::get_all_schemas_with_history()) {
      if (schema.domain().empty()) schemas_.push_back(schema);
    }
  }

  std::size_t operators() const { return schemas_.size(); }

  onnx::ModelProto Make(unsigned seed) {
    random_.seed(seed);
    names_.clear();
    onnx::ModelProto model;
    model.set_ir_version(8);
    model.add_opset_import()->set_version(Below(3) > 0 ? 17 : 1 + Below(17));
    auto* graph = model.mutable_graph();
    for (int i = 1 + Below(6); i > 0; --i) AddInput(graph);
    for (int i = Below(4); i > 0; --i) AddInitializer(graph);
    for (int i = 1 + Below(3); i > 0; --i) AddNode(graph);
    return model;
  }

 private:
  int Below(int n) { return static_cast<int>(random_() % unsigned(n)); }

  std::int64_t Value() {
    constexpr std::array kValues = {std::int64_t{8}, std::int64_t{16},
                                    std::int64_t{1} << 31,
                                    std::numeric_limits<std::int64_t>::max(),
                                    std::numeric_limits<std::int64_t>::min()};
    return Below(3) > 0 ? Below(8) - 2
                        : kValues[std::size_t(Below(int{kValues.size()}))];
  }

  const std::string& NewName() {
    names_.push_back(fmt::format("t{}", names_.size()));
    return names_.back();
  }

  void AddInput(onnx::GraphProto* graph) {
    auto* input = graph->add_input();
    input->set_name(NewName());
    auto* type = input->mutable_type()->mutable_tensor_type();
    type->set_elem_type(Below(2) > 0 ? onnx::TensorProto::FLOAT
                                     : onnx::TensorProto::INT64);
    type->mutable_shape();
    for (int i = Below(6); i > 0; --i) {
      type->mutable_shape()->add_dim()->set_dim_value(Below(6) > 0 ? Below(9)
                                                                   : 1 << 20);
    }
  }

  void AddInitializer(onnx::GraphProto* graph) {
    auto* tensor = graph->add_initializer();
    tensor->set_name(NewName());
    tensor->set_data_type(onnx::TensorProto::INT64);
    const int elements = Below(6);
    if (Below(4) > 0) tensor->add_dims(elements);
    // Sometimes the number does not match the shape.
    for (int i = Below(8) > 0 ? elements : Below(6); i > 0; --i) {
      tensor->add_int64_data(Value());
    }
  }

  void AddNode(onnx::GraphProto* graph) {
    const auto& schema = schemas_[std::size_t(Below(int(schemas_.size())))];
    auto* node = graph->add_node();
    node->set_op_type(schema.Name());
    const auto between = [&](int least, int most) {
      return least + Below(std::min(most - least, 3) + 1);
    };
    const auto known = int(names_.size());
    for (int i = between(schema.min_input(), schema.max_input()); i > 0; --i) {
      const bool left_out = node->input_size() > 0 && Below(12) == 0;
      *node->add_input() = left_out ? "" : names_[std::size_t(Below(known))];
    }
    for (int i = between(schema.min_output(), schema.max_output()); i > 0;
         --i) {
      *node->add_output() = NewName();
    }
    for (const auto& [name, attribute] : schema.attributes()) {
      if (attribute.required || Below(2) > 0) {
        AddAttribute(name, attribute.type, node);
      }
    }
  }

  void AddAttribute(const std::string& name,
                    onnx::AttributeProto::AttributeType type,
                    onnx::NodeProto* node) {
    constexpr std::array kTexts = {"SAME_UPPER", "NOTSET", "VALID", "linear",
                                   "ij,jk->ik",  "...i->", "x"};
    auto* attribute = node->add_attribute();
    attribute->set_name(name);
    attribute->set_type(type);
    attribute->set_s(kTexts[std::size_t(Below(int{kTexts.size()}))]);
    if (type != onnx::AttributeProto::STRING) attribute->clear_s();
    if (type == onnx::AttributeProto::INT) attribute->set_i(Value());
    if (type == onnx::AttributeProto::FLOAT) attribute->set_f(0.5F);
    for (int i = Below(6); i > 0; --i) {
      if (type == onnx::AttributeProto::INTS) attribute->add_ints(Value());
      if (type == onnx::AttributeProto::FLOATS) attribute->add_floats(0.5F);
    }
    if (type == onnx::AttributeProto::TENSOR) {
      auto* tensor = attribute->mutable_t();
      tensor->set_data_type(onnx::TensorProto::INT64);
      tensor->add_dims(1);
      tensor->add_int64_data(Value());
    }
  }

  std::vector<onnx::OpSchema> schemas_;
  std::vector<std::string> names_;
  std::mt19937 random_;
};

TEST(OnnxOperatorsTest, NeverCrashTheReader) {
  ModelMaker maker;
  EXPECT_GT(maker.operators(), 300u);
  int read = 0;
  for (unsigned seed = 0; seed < (kSlowed ? 5000 : 20000); ++seed) {
    const auto graph = ReadOnnx(maker.Make(seed).SerializeAsString(), "net",
                                BatchSize(3), "model");
    if (graph) {
      ++read;
    } else {
      ASSERT_TRUE(IsPlainText(graph.error().message)) << seed;
    }
  }
  EXPECT_GT(read, kSlowed ? 100 : 500);
}

}  // namespace
}  // namespace ucudnn
