#include "base/training/dataflow.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/text.h"

namespace ucudnn {
namespace {

struct OperatorRole {
  std::string_view op_type;
  Role role;
};
constexpr std::array kRoles = {
    OperatorRole{"Conv", Role::kConv},
    OperatorRole{"ConvTranspose", Role::kConv},
    OperatorRole{"Gemm", Role::kGemm},
    OperatorRole{"Relu", Role::kActivation},
    OperatorRole{"Clip", Role::kActivation},
    OperatorRole{"LeakyRelu", Role::kActivation},
    OperatorRole{"Sigmoid", Role::kActivation},
    OperatorRole{"HardSigmoid", Role::kActivation},
    OperatorRole{"Tanh", Role::kActivation},
    OperatorRole{"HardSwish", Role::kActivationOfInput},
    OperatorRole{"Swish", Role::kActivationOfInput},
    OperatorRole{"Gelu", Role::kActivationOfInput},
    OperatorRole{"Mish", Role::kActivationOfInput},
    OperatorRole{"BatchNormalization", Role::kNormalisation},
    OperatorRole{"MaxPool", Role::kPoolWithOutput},
    OperatorRole{"LRN", Role::kPoolWithOutput},
    OperatorRole{"AveragePool", Role::kLinear},
    OperatorRole{"GlobalAveragePool", Role::kLinear},
    OperatorRole{"Resize", Role::kLinear},
    OperatorRole{"Pad", Role::kLinear},
    OperatorRole{"ReduceMean", Role::kLinear},
    OperatorRole{"Slice", Role::kLinear},
    OperatorRole{"Transpose", Role::kLinear},
    OperatorRole{"Dropout", Role::kDropout},
    OperatorRole{"Add", Role::kAdd},
    OperatorRole{"Mul", Role::kMul},
    OperatorRole{"Concat", Role::kConcat},
    OperatorRole{"Split", Role::kSplit},
    OperatorRole{"Flatten", Role::kSameBlock},
    OperatorRole{"Identity", Role::kSameBlock},
    OperatorRole{"Reshape", Role::kSameBlock},
    OperatorRole{"Squeeze", Role::kSameBlock},
    OperatorRole{"Unsqueeze", Role::kSameBlock},
    OperatorRole{"Cast", Role::kSameBlock},
    OperatorRole{"CastLike", Role::kSameBlock},
};

}  // namespace

Result<Dataflow> Dataflow::Of(const Graph& graph) {
  Dataflow flow(graph);
  UCUDNN_RETURN_IF_ERROR(flow.FindInputs());
  flow.roles_.resize(graph.nodes.size(), Role::kNone);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (Status status = flow.Classify(i); !status) {
      return Within(
          fmt::format("node '{}' ({})", Excerpt(graph.nodes[i].name, 200),
                      Excerpt(graph.nodes[i].op_type)),
          std::move(status).error());
    }
  }
  flow.CountReaders();
  return flow;
}

Status Dataflow::FindInputs() {
  values_of_.resize(graph_->tensors.size());
  parameters_.resize(graph_->tensors.size());
  for (std::size_t i = 0; i < graph_->tensors.size(); ++i) {
    if (graph_->tensors[i].parameter) parameters_[i] = i;
  }
  const std::vector<std::size_t> inputs = InputsOf(*graph_);
  for (const std::size_t i : inputs) {
    Value value;
    UCUDNN_RETURN_IF_ERROR(SetElements(i, IsPerImage(i), &value));
    value.name = inputs.size() == 1 ? "input" : graph_->tensors[i].name;
    value.in_place_ok = false;
    values_of_[i] = values_.size();
    values_.push_back(std::move(value));
  }
  return {};
}

Status Dataflow::Classify(std::size_t index) {
  const Node& node = graph_->nodes[index];
  std::vector<std::size_t> data;  // values
  for (const std::size_t tensor : node.inputs) {
    if (values_of_[tensor]) data.push_back(*values_of_[tensor]);
  }
  // Of these, only the type or the shape of an operand matters.
  const bool like = node.op_type == "RandomUniformLike" ||
                    node.op_type == "RandomNormalLike" ||
                    (node.op_type == "CastLike" && !values_of_[node.inputs[0]]);
  if (like) data.clear();
  const bool floating =
      !node.outputs.empty() && graph_->tensors[node.outputs[0]].floating;
  const auto* known = std::find_if(
      kRoles.begin(), kRoles.end(),
      [&](const OperatorRole& r) { return r.op_type == node.op_type; });
  if (!data.empty() && node.op_type == "QuantizeLinear") {
    return Fail(Code::kUnimplemented,
                "memory plans do not support quantization; export the model "
                "before it is quantized");
  }
  if (data.empty() || !floating) {
    // Shapes and constants; a view of a parameter is that parameter.
    if (known != kRoles.end() && known->role == Role::kSameBlock &&
        !node.inputs.empty() && !node.outputs.empty()) {
      parameters_[node.outputs[0]] = parameters_[node.inputs[0]];
    }
    return {};
  }
  if (known == kRoles.end()) {
    return Fail(Code::kUnimplemented,
                "memory plans do not support this operator; their manual "
                "lists those that they do");
  }
  roles_[index] = known->role;
  if (known->role == Role::kSameBlock) {
    values_of_[node.outputs[0]] = data[0];
    return {};
  }
  UCUDNN_RETURN_IF_ERROR(CheckOperands(index, data.size()));
  Value value;
  value.producer = index;
  value.trained = HasWeights(index);
  bool per_image = false;
  for (const std::size_t input : data) {
    value.trained = value.trained || values_[input].trained;
    per_image = per_image || values_[input].elements_per_image > 0;
  }
  value.in_place_ok =
      known->role != Role::kActivation && known->role != Role::kPoolWithOutput;
  const std::size_t outputs =
      known->role == Role::kSplit ? node.outputs.size() : 1;
  for (std::size_t i = 0; i < outputs; ++i) {
    value.name =
        i == 0 ? node.name + ".Y" : fmt::format("{}.Y{}", node.name, i);
    UCUDNN_RETURN_IF_ERROR(SetElements(node.outputs[i], per_image, &value));
    values_of_[node.outputs[i]] = values_.size();
    values_.push_back(value);
  }
  return {};
}

Status Dataflow::CheckOperands(std::size_t index, std::size_t data) const {
  const Node& node = graph_->nodes[index];
  const Role role = roles_[index];
  if (role == Role::kAdd || role == Role::kMul) return CheckTerms(index);
  const bool many = role == Role::kConcat;
  if (!many && data != 1) {
    return Fail(Code::kUnimplemented,
                "{} of its operands are computed; one is accepted", data);
  }
  if (many && data != node.inputs.size()) {
    return Fail(Code::kUnimplemented,
                "one of its operands is a parameter or a constant; computed "
                "tensors are accepted");
  }
  if (node.op_type == "ReduceMean" && IsPerImage(node.inputs[0]) &&
      !IsPerImage(node.outputs[0])) {
    return Fail(Code::kUnimplemented,
                "it averages over the images of the batch; averages within "
                "each image are accepted");
  }
  if (!many && !values_of_[node.inputs[0]]) {
    return Fail(Code::kUnimplemented,
                "its first operand is a parameter or a constant");
  }
  const std::size_t least = role == Role::kConv || role == Role::kGemm ? 1
                            : role == Role::kNormalisation             ? 4
                                                                       : 0;
  if (ParametersOf(index).size() < least) {
    return Fail(Code::kUnimplemented,
                "{} of its operands are parameters of the model, and others "
                "are computed; {} or more parameters are accepted",
                ParametersOf(index).size(), least);
  }
  return {};
}

// Operands of a sum or product that are not values must be numbers, which take
// no memory, or of a product something that is computed aside.
Status Dataflow::CheckTerms(std::size_t index) const {
  const Node& node = graph_->nodes[index];
  std::size_t aside = 0;
  for (const std::size_t tensor : node.inputs) {
    if (values_of_[tensor] || Elements(tensor) == 1) continue;
    if (parameters_[tensor] || roles_[index] == Role::kAdd || ++aside > 1) {
      return Fail(Code::kUnimplemented,
                  "its operand '{}' of {} elements is a parameter or a "
                  "constant; computed tensors and single numbers are accepted",
                  Excerpt(graph_->tensors[tensor].name), Elements(tensor));
    }
  }
  return {};
}

Value Dataflow::AsideOf(std::size_t node) const {
  Value value;
  if (roles_[node] != Role::kMul) return value;
  for (const std::size_t tensor : graph_->nodes[node].inputs) {
    if (values_of_[tensor] || Elements(tensor) == 1) continue;
    (void)SetElements(tensor, IsPerImage(tensor), &value);
  }
  return value;
}

std::vector<std::size_t> Dataflow::OutputsOf(std::size_t node) const {
  if (roles_[node] != Role::kSplit) return {OutputOf(node)};
  std::vector<std::size_t> outputs;
  for (const std::size_t tensor : graph_->nodes[node].outputs) {
    outputs.push_back(*values_of_[tensor]);
  }
  return outputs;
}

void Dataflow::CountReaders() {
  for (std::size_t i = 0; i < graph_->nodes.size(); ++i) {
    if (!Computes(i)) continue;
    for (const std::size_t tensor : graph_->nodes[i].inputs) {
      if (values_of_[tensor]) ++values_[*values_of_[tensor]].readers;
    }
  }
  for (std::size_t i = 0; i < values_.size(); ++i) {
    // A value that no node reads is an output of the model; the loss reads
    // it.
    if (values_[i].readers == 0 && values_[i].producer) {
      outputs_.push_back(i);
      values_[i].readers = 1;
    }
  }
}

std::vector<std::size_t> Dataflow::OperandsOf(std::size_t node) const {
  std::vector<std::size_t> operands;
  for (const std::size_t tensor : graph_->nodes[node].inputs) {
    if (values_of_[tensor]) operands.push_back(*values_of_[tensor]);
  }
  return operands;
}

std::vector<std::size_t> Dataflow::ParametersOf(std::size_t node) const {
  std::vector<std::size_t> list;
  for (const std::size_t tensor : graph_->nodes[node].inputs) {
    if (parameters_[tensor]) list.push_back(*parameters_[tensor]);
  }
  return list;
}

std::int64_t Dataflow::Elements(std::size_t tensor) const {
  const Tensor& t = graph_->tensors[tensor];
  return t.size().count() / t.element_bytes;
}

bool Dataflow::IsPerImage(std::size_t tensor) const {
  const std::vector<std::int64_t>& shape = graph_->tensors[tensor].shape;
  return !shape.empty() && shape[0] == graph_->batch.count();
}

Status Dataflow::SetElements(std::size_t tensor, bool per_image,
                             Value* value) const {
  const std::int64_t elements = Elements(tensor);
  const std::int64_t images = per_image ? graph_->batch.count() : 1;
  if (elements <= 0 || elements % images != 0) {
    return Fail(Code::kInvalidArgument,
                "tensor '{}' has {} elements, which {} images do not share "
                "evenly",
                Excerpt(graph_->tensors[tensor].name), elements,
                graph_->batch.count());
  }
  value->elements_per_image = per_image ? elements / images : 0;
  value->elements = per_image ? 0 : elements;
  return {};
}

std::vector<std::size_t> InputsOf(const Graph& graph) {
  std::vector<bool> computed(graph.tensors.size());
  for (const Node& node : graph.nodes) {
    for (const std::size_t tensor : node.outputs) computed[tensor] = true;
  }
  std::vector<std::size_t> inputs;
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    const Tensor& tensor = graph.tensors[i];
    if (tensor.floating && !tensor.parameter && !computed[i]) {
      inputs.push_back(i);
    }
  }
  return inputs;
}

}  // namespace ucudnn
