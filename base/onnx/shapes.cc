#include "base/onnx/shapes.h"

#include <onnx/checker.h>
#include <onnx/shape_inference/implementation.h>

#include <algorithm>
#include <deque>
#include <exception>
#include <vector>

#include "base/limits.h"
#include "base/onnx/operands.h"
#include "base/text.h"

namespace ucudnn {
namespace {

using onnx::NodeProto;
using onnx::TensorProto;
using onnx::TensorShapeProto;
using onnx::TypeProto;

// Calls the library and turns its exceptions into errors.
template <class Call>
Status Guarded(Call call) {
  std::string why;
  try {
    call();
    return {};
  } catch (const std::exception& error) {
    why = error.what();
  } catch (...) {
    why = "the ONNX library refuses it";
  }
  std::replace(why.begin(), why.end(), '\n', ' ');
  return Fail(Code::kInvalidArgument, "it is not valid: {}",
              Excerpt(why, 1000));
}

// Visits the nodes in topological order. The library's own traversal would pass
// unchecked operands to inference functions that rely on them, and does not use
// the values it computes.
class TypeInference {
 public:
  explicit TypeInference(const OnnxModel& model) : graph_(model.proto.graph()) {
    for (const auto& opset : model.proto.opset_import()) {
      opsets_[opset.domain()] = static_cast<int>(opset.version());
    }
    for (const auto& value : graph_.value_info()) {
      declared_[value.name()] = &value.type();
    }
    for (const auto& input : graph_.input()) {
      SetType(input.name(), input.type());
    }
    for (const TensorProto& tensor : graph_.initializer()) {
      data_[tensor.name()] = &tensor;
    }
  }

  Result<OnnxTypes> Infer() {
    for (const NodeProto& node : graph_.node()) {
      if (Status status = InferNode(node); !status) {
        return Within(Shown(node), std::move(status).error());
      }
    }
    return std::move(types_);
  }

 private:
  void SetType(const std::string& name, const TypeProto& type) {
    TypeProto& stored = types_[name];
    stored = type;
    by_name_[name] = &stored;  // references into the map stay valid
  }

  Status InferNode(const NodeProto& const_node) {
    NodeProto node = const_node;  // the library needs a mutable node
    const auto opset = opsets_.find(node.domain());
    const onnx::OpSchema* schema =
        opset == opsets_.end()
            ? nullptr
            : onnx::OpSchemaRegistry::Schema(node.op_type(), opset->second,
                                             node.domain());
    onnx::shape_inference::InferenceContextImpl context(node, by_name_, data_,
                                                        {}, &values_);
    UCUDNN_RETURN_IF_ERROR(CheckOperands(node, context.allInputTypes_));
    if (schema != nullptr) {
      UCUDNN_RETURN_IF_ERROR(Guarded([&] { InferOutputs(*schema, &context); }));
    }
    InferStatistics(node, &context);
    for (int i = 0; i < node.output_size(); ++i) {
      if (node.output(i).empty()) continue;
      const TypeProto& inferred = context.allOutputTypes_[std::size_t(i)];
      const auto declared = declared_.find(node.output(i));
      const bool better = !IsKnown(inferred) && declared != declared_.end();
      SetType(node.output(i), better ? *declared->second : inferred);
      if (schema == nullptr && !IsKnown(types_[node.output(i)])) {
        return Fail(
            Code::kUnimplemented,
            "it is a custom operator, whose output '{}' has no shape in "
            "the model; operators of ONNX are accepted",
            Excerpt(node.output(i)));
      }
    }
    UCUDNN_RETURN_IF_ERROR(CheckOutputs(node));
    if (schema == nullptr) return {};
    return Guarded([&] { ComputeValues(*schema, &node); });
  }

  void InferOutputs(const onnx::OpSchema& schema,
                    onnx::shape_inference::InferenceContextImpl* context) {
    if (schema.has_type_and_shape_inference_function()) {
      schema.GetTypeAndShapeInferenceFunction()(*context);
    } else if (schema.HasFunction()) {
      onnx::shape_inference::InferShapeForFunctionNode(
          *schema.GetFunction(), onnx::OpSchemaRegistry::Instance(), *context);
    }
    schema.CheckInputOutputType(*context);
  }

  // Gives the statistics that a normalization returns in training the type of
  // its scale. The library infers them from version 14 on only.
  static void InferStatistics(
      const NodeProto& node,
      onnx::shape_inference::InferenceContextImpl* context) {
    if (node.op_type() != "BatchNormalization" || node.input_size() < 2) return;
    const TypeProto* scale = context->getInputType(1);
    if (scale == nullptr) return;
    for (int i = 1; i < node.output_size(); ++i) {
      TypeProto& statistics = context->allOutputTypes_[std::size_t(i)];
      if (!IsKnown(statistics)) statistics = *scale;
    }
  }

  // Refuses types that only grow from node to node: lists in lists, and more
  // and more dimensions.
  Status CheckOutputs(const NodeProto& node) {
    for (const std::string& output : node.output()) {
      if (output.empty()) continue;
      const TypeProto& type = types_[output];
      if (type.has_sequence_type() || type.has_optional_type() ||
          type.has_map_type()) {
        return Fail(Code::kUnimplemented,
                    "its output '{}' is not a tensor; networks of tensors are "
                    "accepted",
                    Excerpt(output));
      }
      const int rank = type.tensor_type().shape().dim_size();
      dimensions_ += static_cast<std::size_t>(rank);
      if (rank > kMaxOnnxRank || dimensions_ > kMaxOnnxDimensions) {
        return Fail(Code::kInvalidArgument,
                    "its output '{}' has {} dimensions; {} are accepted, and "
                    "{} of all tensors together",
                    Excerpt(output), rank, kMaxOnnxRank, kMaxOnnxDimensions);
      }
      for (const auto& dim : type.tensor_type().shape().dim()) {
        if (dim.has_dim_value() && dim.dim_value() < 0) {
          return Fail(Code::kInvalidArgument,
                      "a dimension of its output '{}' would be {}",
                      Excerpt(output), dim.dim_value());
        }
      }
    }
    return {};
  }

  // Computes those outputs that are known without running the network.
  void ComputeValues(const onnx::OpSchema& schema, NodeProto* node) {
    if (node->op_type() == "Constant") {
      for (const auto& attribute : node->attribute()) {
        if (attribute.has_t() && node->output_size() == 1 &&
            Counts(ElementsOf(attribute.t()))) {
          data_[node->output(0)] = Store(attribute.t());
        }
      }
    }
    onnx::shape_inference::DataPropagationContextImpl context(*node, by_name_,
                                                              data_, values_);
    std::vector<const TensorShapeProto*> values;
    values.reserve(static_cast<std::size_t>(node->input_size()));
    for (int i = 0; i < node->input_size(); ++i) {
      values.push_back(context.getInputData(static_cast<std::size_t>(i)));
    }
    if (schema.has_data_propagation_function() && MayCompute(*node, values) &&
        known_values_ <= kMaxOnnxValuesInAll) {
      schema.GetDataPropagationFunction()(context);
    }
    for (const std::string& output : node->output()) {
      const auto value = values_.find(output);
      if (value != values_.end()) known_values_ += value->second.dim_size();
      if (value == values_.end() || data_.count(output) > 0 ||
          !IsWholeList(value->second, types_[output])) {
        continue;
      }
      TensorProto list;
      list.set_data_type(TensorProto::INT64);
      list.add_dims(value->second.dim_size());
      for (const auto& dim : value->second.dim()) {
        list.add_int64_data(dim.dim_value());
      }
      data_[output] = Store(std::move(list));
    }
  }

  static std::int64_t ElementsOf(const TensorProto& tensor) {
    return CheckedProduct(tensor.dims(), 1, kMaxTensorBytes)
        .value_or(kMaxTensorBytes);
  }

  // Whether a constant of so many elements is worth keeping; counts it if so.
  bool Counts(std::int64_t elements) {
    if (elements > kMaxOnnxValues || known_values_ > kMaxOnnxValuesInAll) {
      return false;
    }
    known_values_ += elements;
    return true;
  }

  // Whether `value` is all that a tensor of this type, a list of int64, holds.
  static bool IsWholeList(const TensorShapeProto& value,
                          const TypeProto& type) {
    const auto& tensor = type.tensor_type();
    return tensor.elem_type() == TensorProto::INT64 && IsKnown(type) &&
           tensor.shape().dim_size() == 1 &&
           tensor.shape().dim(0).dim_value() == value.dim_size() &&
           IsKnown(value);
  }

  const TensorProto* Store(TensorProto tensor) {
    return &stored_.emplace_back(std::move(tensor));
  }

  const onnx::GraphProto& graph_;
  std::unordered_map<std::string, int> opsets_;
  std::unordered_map<std::string, const TypeProto*> declared_;
  OnnxTypes types_;
  std::unordered_map<std::string, TypeProto*> by_name_;  // into types_
  std::deque<TensorProto> stored_;
  std::unordered_map<std::string, const TensorProto*> data_;
  std::unordered_map<std::string, TensorShapeProto> values_;
  std::int64_t known_values_ = 0;  // elements that were computed or kept
  std::size_t dimensions_ = 0;     // of all outputs
};

}  // namespace

Result<OnnxTypes> InferOnnxTypes(const OnnxModel& model) {
  UCUDNN_RETURN_IF_ERROR(
      Guarded([&] { onnx::checker::check_model(model.proto); }));
  return TypeInference(model).Infer();
}

}  // namespace ucudnn
