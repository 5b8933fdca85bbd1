#include "base/onnx/shapes.h"

#include <fmt/ranges.h>
#include <onnx/checker.h>
#include <onnx/shape_inference/implementation.h>

#include <algorithm>
#include <array>
#include <deque>
#include <exception>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "base/onnx/rules.h"
#include "base/text.h"

namespace ucudnn {
namespace {

using onnx::NodeProto;
using onnx::TensorProto;
using onnx::TypeProto;
using Types = std::vector<OnnxType>;

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

// Absent if a dimension is not a number.
std::optional<OnnxType> TypeOf(const TypeProto& proto) {
  const auto& tensor = proto.tensor_type();
  if (!tensor.has_shape()) return std::nullopt;
  OnnxType type{tensor.elem_type(), {}};
  for (const auto& dim : tensor.shape().dim()) {
    if (!dim.has_dim_value()) return std::nullopt;
    type.shape.push_back(dim.dim_value());
  }
  return type;
}

TypeProto ProtoOf(const OnnxType& type) {
  TypeProto proto;
  auto* tensor = proto.mutable_tensor_type();
  tensor->set_elem_type(type.element);
  tensor->mutable_shape();
  for (const std::int64_t extent : type.shape) {
    tensor->mutable_shape()->add_dim()->set_dim_value(extent);
  }
  return proto;
}

// An operand and the fewest dimensions it must have.
struct Rank {
  std::string_view op_type;
  std::size_t operand;
  std::size_t min;
};
constexpr std::array kRanks = {Rank{"GRU", 0, 3}, Rank{"LSTM", 0, 3},
                               Rank{"RNN", 0, 3}, Rank{"GatherND", 0, 1},
                               Rank{"GatherND", 1, 1}};

// Checks what the library's shape inference assumes unchecked: it reads
// dimensions that may be missing. kInvalidArgument if inferring the node's
// shapes with inputs of these types (null where left out) would;
// kUnimplemented for what cannot be trusted at all.
Status CheckOperands(const onnx::NodeProto& node,
                     const std::vector<const OnnxType*>& inputs) {
  if (node.op_type() == "STFT") {
    return Fail(Code::kUnimplemented, "networks without it are accepted");
  }
  for (const Rank& rank : kRanks) {
    if (rank.op_type != node.op_type()) continue;
    const OnnxType* type =
        rank.operand < inputs.size() ? inputs[rank.operand] : nullptr;
    if (type == nullptr || type->shape.size() < rank.min) {
      return Fail(Code::kInvalidArgument,
                  "its input {} has {} dimensions; {} or more are accepted",
                  rank.operand + 1, type == nullptr ? 0 : type->shape.size(),
                  rank.min);
    }
  }
  if (node.op_type() == "GatherND") {
    const std::int64_t last = inputs[1]->shape.back();
    const std::int64_t batch = IntegerAttribute(node, "batch_dims", 0);
    const std::int64_t rank = std::ssize(inputs[0]->shape);
    if (batch < 0 || batch > rank || last < 0 || last > rank - batch) {
      return Fail(Code::kInvalidArgument,
                  "its indices are lists of {} after {} batch dimensions, into "
                  "{} dimensions",
                  last, batch, rank);
    }
  }
  return {};
}

// Visits the nodes in topological order.
class TypeInference {
 public:
  explicit TypeInference(const OnnxModel& model)
      : model_(model), graph_(model.proto.graph()) {
    for (const auto& opset : model.proto.opset_import()) {
      opsets_[opset.domain()] = static_cast<int>(opset.version());
    }
    checker_.set_ir_version(static_cast<int>(model.proto.ir_version()));
    checker_.set_opset_imports(opsets_);
    for (const auto& value : graph_.value_info()) {
      declared_[value.name()] = &value.type();
    }
    for (const TensorProto& tensor : graph_.initializer()) {
      data_[tensor.name()] = &tensor;
      if (auto numbers = NumbersOf(tensor)) {
        numbers_[tensor.name()] = *std::move(numbers);
      }
    }
  }

  Result<OnnxTypes> Infer() {
    for (const auto& input : graph_.input()) {
      std::optional<OnnxType> type = TypeOf(input.type());
      if (!type) {
        return Fail(Code::kInvalidArgument,
                    "input '{}': its shape cannot be inferred",
                    Excerpt(input.name()));
      }
      UCUDNN_RETURN_IF_ERROR(CheckTensor(input.name(), *type));
      types_[input.name()] = *std::move(type);
    }
    for (const NodeProto& node : graph_.node()) {
      if (Status status = InferNode(node); !status) {
        return Within(Shown(node), std::move(status).error());
      }
    }
    return std::move(types_);
  }

 private:
  Status InferNode(const NodeProto& node) {
    const auto opset = opsets_.find(node.domain());
    OnnxOperation operation{
        node, opset == opsets_.end() ? 1 : opset->second, {}, {}};
    for (const std::string& input : node.input()) {
      const auto type = types_.find(input);
      const auto numbers = numbers_.find(input);
      const bool given = !input.empty();
      operation.types.push_back(given ? &type->second : nullptr);
      operation.numbers.push_back(
          given && numbers != numbers_.end() ? &numbers->second : nullptr);
    }
    UCUDNN_ASSIGN_OR_RETURN(Types types, TypesOf(operation));
    types.resize(static_cast<std::size_t>(node.output_size()));
    for (int i = 0; i < node.output_size(); ++i) {
      if (node.output(i).empty()) continue;
      UCUDNN_RETURN_IF_ERROR(
          CheckTensor(node.output(i), types[static_cast<std::size_t>(i)]));
    }
    KeepNumbers(operation, types);
    for (int i = 0; i < node.output_size(); ++i) {
      types_[node.output(i)] = std::move(types[static_cast<std::size_t>(i)]);
    }
    return {};
  }

  Result<Types> TypesOf(const OnnxOperation& operation) {
    Result<std::optional<Types>> own = InferOutputs(operation);
    if (!own && own.error().code != Code::kNotFound) {
      return tl::unexpected<Error>(std::move(own).error());
    }
    if (own && *own) return **std::move(own);
    if (std::optional<Types> declared = Declared(operation.node)) {
      return *std::move(declared);
    }
    if (!own) return Unknown(operation, std::move(own).error());
    return FromLibrary(operation);
  }

  // The error for an operand whose numbers are not known.
  Result<Types> Unknown(const OnnxOperation& operation, Error error) const {
    for (const std::string& input : operation.node.input()) {
      const auto file = model_.elsewhere.find(input);
      if (file == model_.elsewhere.end()) continue;
      return Fail(Code::kInvalidArgument,
                  "its shape depends on the numbers in initializer '{}', which "
                  "lie in another file, '{}'; save the model with small "
                  "tensors inside (in Python, size_threshold=1024 of "
                  "onnx.save_model)",
                  Excerpt(input), Excerpt(file->second));
    }
    return Fail(Code::kInvalidArgument, "{}", error.message);
  }

  // The types of the outputs, if the model tells all of them.
  std::optional<Types> Declared(const NodeProto& node) const {
    Types types;
    for (const std::string& output : node.output()) {
      const auto declared = declared_.find(output);
      if (output.empty()) {
        types.emplace_back();
        continue;
      }
      if (declared == declared_.end()) return std::nullopt;
      std::optional<OnnxType> type = TypeOf(*declared->second);
      if (!type) return std::nullopt;
      types.push_back(*std::move(type));
    }
    return types;
  }

  // What the library infers for operators that networks seldom have.
  Result<Types> FromLibrary(const OnnxOperation& operation) {
    NodeProto node = operation.node;  // the library needs a mutable node
    // Of later versions than the library knows, DFT alone changed without
    // another number of inputs or other attributes.
    const onnx::OpSchema* schema =
        IsStandard(node) && (operation.opset < 20 || node.op_type() != "DFT")
            ? onnx::OpSchemaRegistry::Schema(node.op_type(), operation.opset,
                                             node.domain())
            : nullptr;
    if (schema == nullptr) return NoShape(node, 0);
    UCUDNN_RETURN_IF_ERROR(
        Guarded([&] { onnx::checker::check_node(node, checker_, {}); }));
    std::deque<TypeProto> types;
    std::deque<TensorProto> lists;
    std::unordered_map<std::string, TypeProto*> by_name;
    std::unordered_map<std::string, const TensorProto*> data;
    for (std::size_t i = 0; i < operation.types.size(); ++i) {
      const std::string& name = node.input(static_cast<int>(i));
      if (name.empty()) continue;
      by_name[name] = &types.emplace_back(ProtoOf(*operation.types[i]));
      const auto initial = data_.find(name);
      if (initial != data_.end()) {
        data[name] = initial->second;
      } else if (operation.types[i]->element == TensorProto::INT64 &&
                 operation.numbers[i] != nullptr) {
        TensorProto& list = lists.emplace_back();
        list.set_data_type(TensorProto::INT64);
        for (const std::int64_t extent : operation.Shape(i)) {
          list.add_dims(extent);
        }
        for (const OnnxNumber number : *operation.numbers[i]) {
          list.add_int64_data(static_cast<std::int64_t>(number));
        }
        data[name] = &list;
      }
    }
    onnx::shape_inference::InferenceContextImpl context(node, by_name, data,
                                                        {});
    UCUDNN_RETURN_IF_ERROR(CheckOperands(node, operation.types));
    UCUDNN_RETURN_IF_ERROR(Guarded([&] {
      if (schema->has_type_and_shape_inference_function()) {
        schema->GetTypeAndShapeInferenceFunction()(context);
      } else if (schema->HasFunction()) {
        onnx::shape_inference::InferShapeForFunctionNode(
            *schema->GetFunction(), onnx::OpSchemaRegistry::Instance(),
            context);
      }
    }));
    Types inferred;
    for (int i = 0; i < node.output_size(); ++i) {
      const TypeProto& proto = context.allOutputTypes_[std::size_t(i)];
      std::optional<OnnxType> type = TypeOf(proto);
      if (node.output(i).empty()) type.emplace();
      if (!type) {
        if (proto.has_sequence_type() || proto.has_optional_type() ||
            proto.has_map_type()) {
          return Fail(Code::kUnimplemented,
                      "its output '{}' is not a tensor; networks of tensors "
                      "are accepted",
                      Excerpt(node.output(i)));
        }
        return NoShape(node, i);
      }
      inferred.push_back(*std::move(type));
    }
    return inferred;
  }

  // The error for an output whose shape nothing tells.
  Result<Types> NoShape(const NodeProto& node, int output) const {
    return Fail(
        Code::kUnimplemented,
        "its output '{}' has no shape that is known; operators of ONNX that "
        "networks commonly have are accepted, and others whose outputs' shapes "
        "the model tells{}",
        Excerpt(node.output_size() > output ? node.output(output) : ""),
        model_.fixed_batch
            ? fmt::format(" (this one does so for its fixed batch of {} only: "
                          "export it with a symbolic batch)",
                          *model_.fixed_batch)
            : " (value_info, which exporters write and onnx.shape_inference "
              "adds)");
  }

  // Refuses what only grows from node to node, as dimensions may.
  Status CheckTensor(const std::string& name, const OnnxType& type) {
    dimensions_ += type.shape.size();
    if (type.shape.size() > std::size_t{kMaxOnnxRank} ||
        dimensions_ > kMaxOnnxDimensions) {
      return Fail(Code::kInvalidArgument,
                  "tensor '{}' has {} dimensions; {} are accepted, and {} "
                  "of all tensors together",
                  Excerpt(name), type.shape.size(), kMaxOnnxRank,
                  kMaxOnnxDimensions);
    }
    const auto element = ElementOf(type.element);
    if (!element) {
      return Fail(Code::kInvalidArgument,
                  "tensor '{}': its elements are of type {}, which has no size",
                  Excerpt(name), type.element);
    }
    if (!CheckedProduct(type.shape, element->bytes, kMaxTensorBytes)) {
      return Fail(Code::kInvalidArgument,
                  "tensor '{}': its shape [{}] cannot be counted",
                  Excerpt(name), fmt::join(type.shape, ", "));
    }
    return {};
  }

  void KeepNumbers(const OnnxOperation& operation, const Types& types) {
    if (known_numbers_ > kMaxOnnxValuesInAll) return;
    auto numbers = ComputeOutputs(operation, types);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if (!numbers[i]) continue;
      known_numbers_ += std::ssize(*numbers[i]);
      numbers_[operation.node.output(static_cast<int>(i))] =
          *std::move(numbers[i]);
    }
  }

  const OnnxModel& model_;
  const onnx::GraphProto& graph_;
  std::unordered_map<std::string, int> opsets_;
  onnx::checker::CheckerContext checker_;
  std::unordered_map<std::string, const TypeProto*> declared_;
  OnnxTypes types_;
  std::unordered_map<std::string, const TensorProto*> data_;
  std::unordered_map<std::string, OnnxNumbers> numbers_;
  std::int64_t known_numbers_ = 0;  // elements that were computed
  std::size_t dimensions_ = 0;      // of all tensors
};

}  // namespace

Result<OnnxTypes> InferOnnxTypes(const OnnxModel& model) {
  return TypeInference(model).Infer();
}

}  // namespace ucudnn
