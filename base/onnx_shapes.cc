#include "base/onnx_shapes.h"

#include <onnx/checker.h>
#include <onnx/shape_inference/implementation.h>

#include <algorithm>
#include <exception>
#include <unordered_map>
#include <unordered_set>

#include "base/text.h"

namespace ucudnn {
namespace {

// How often inference may start again; each time it gets behind one more
// computed shape.
constexpr int kMaxRounds = 8;

using Values = std::unordered_map<std::string, onnx::TensorShapeProto>;
using Types = std::unordered_map<std::string, const onnx::TypeProto*>;

Status Infer(onnx::ModelProto* model, bool check, Values* values) {
  std::string why;
  try {
    if (check) onnx::checker::check_model(*model);
    onnx::shape_inference::InferShapes(
        *model, onnx::OpSchemaRegistry::Instance(),
        onnx::ShapeInferenceOptions(/*check_type=*/true, /*strict=*/1,
                                    /*data_prop=*/true),
        values);
    return {};
  } catch (const std::exception& error) {
    why = error.what();
  } catch (...) {
    why = "its shapes cannot be inferred";
  }
  std::replace(why.begin(), why.end(), '\n', ' ');
  return Fail(Code::kInvalidArgument, "it is not a valid model: {}",
              Excerpt(why, 1000));
}

bool IsKnown(const onnx::TensorShapeProto& shape) {
  return std::all_of(shape.dim().begin(), shape.dim().end(),
                     [](const auto& dim) { return dim.has_dim_value(); });
}

Types TypesOf(const onnx::GraphProto& graph) {
  Types types;
  for (const auto* list : {&graph.value_info(), &graph.input()}) {
    for (const auto& value : *list) types[value.name()] = &value.type();
  }
  return types;
}

std::unordered_set<std::string> NamesIn(const onnx::GraphProto& graph) {
  std::unordered_set<std::string> names;
  for (const auto& input : graph.input()) names.insert(input.name());
  for (const auto& tensor : graph.initializer()) names.insert(tensor.name());
  for (const auto& node : graph.node()) {
    names.insert(node.output().begin(), node.output().end());
  }
  return names;
}

bool HasUnknownOutput(const onnx::NodeProto& node, const Types& types) {
  return std::any_of(node.output().begin(), node.output().end(),
                     [&](const auto& output) {
                       const auto type = types.find(output);
                       return !output.empty() &&
                              (type == types.end() ||
                               !type->second->tensor_type().has_shape() ||
                               !IsKnown(type->second->tensor_type().shape()));
                     });
}

// Whether `value` is all that a tensor of this type, a list of int64, holds.
bool IsWholeList(const onnx::TensorShapeProto& value,
                 const onnx::TypeProto& type) {
  const auto& tensor = type.tensor_type();
  return tensor.elem_type() == onnx::TensorProto::INT64 && tensor.has_shape() &&
         tensor.shape().dim_size() == 1 &&
         tensor.shape().dim(0).dim_value() == value.dim_size() &&
         IsKnown(value);
}

// Hands the inferred values to the nodes whose outputs wait for them, as
// initializers. Whether there was any.
bool InsertValues(const Values& values, OnnxModel* model) {
  onnx::GraphProto* graph = model->proto.mutable_graph();
  const Types types = TypesOf(*graph);
  std::unordered_set<std::string> names = NamesIn(*graph);
  std::unordered_map<std::string, std::string> inserted;
  bool any = false;
  for (onnx::NodeProto& node : *graph->mutable_node()) {
    if (!HasUnknownOutput(node, types)) continue;
    for (std::string& input : *node.mutable_input()) {
      const auto value = values.find(input);
      const auto type = types.find(input);
      if (value == values.end() || type == types.end() ||
          model->parameters.count(input) > 0 ||
          !IsWholeList(value->second, *type->second)) {
        continue;
      }
      const auto [alias, is_new] = inserted.emplace(input, "value of " + input);
      if (is_new) {
        while (!names.insert(alias->second).second) alias->second += '_';
        onnx::TensorProto* tensor = graph->add_initializer();
        tensor->set_name(alias->second);
        tensor->set_data_type(onnx::TensorProto::INT64);
        tensor->add_dims(value->second.dim_size());
        for (const auto& dim : value->second.dim()) {
          tensor->add_int64_data(dim.dim_value());
        }
        model->aliases.emplace(alias->second, input);
      }
      input = alias->second;
      any = true;
    }
  }
  return any;
}

}  // namespace

Status InferOnnxShapes(OnnxModel* model) {
  for (int round = 0; round < kMaxRounds; ++round) {
    Values values;
    UCUDNN_RETURN_IF_ERROR(Infer(&model->proto, round == 0, &values));
    if (!InsertValues(values, model)) return {};
  }
  return {};
}

}  // namespace ucudnn
