#include "base/onnx/onnx.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "base/onnx/conv.h"
#include "base/onnx/model.h"
#include "base/onnx/shapes.h"
#include "base/text.h"

namespace ucudnn {
namespace {

using onnx::NodeProto;
using onnx::ValueInfoProto;

// Operands that are stored in the model but not trained.
bool IsUntrainedOperand(const NodeProto& node, int operand) {
  struct Operand {
    std::string_view op_type;
    int first;  // this operand and all after it
  };
  constexpr std::array kUntrained = {Operand{"BatchNormalization", 3},
                                     Operand{"Clip", 1},
                                     Operand{"DequantizeLinear", 1},
                                     Operand{"Dropout", 1},
                                     Operand{"Pad", 1},
                                     Operand{"QuantizeLinear", 1},
                                     Operand{"Resize", 1},
                                     Operand{"Upsample", 1}};
  return std::any_of(kUntrained.begin(), kUntrained.end(),
                     [&](const Operand& untrained) {
                       return node.op_type() == untrained.op_type &&
                              operand >= untrained.first;
                     });
}

// Whether the node computes its output's elements from those of its operands at
// the same places. Exporters store numbers that a program has, such as the 3 of
// x + 3, as they store parameters.
bool IsArithmetic(const NodeProto& node) {
  constexpr std::array<std::string_view, 7> kArithmetic = {
      "Add", "Sub", "Mul", "Div", "Pow", "Max", "Min"};
  return std::ranges::count(kArithmetic, node.op_type()) > 0;
}

// Turns a model with inferred shapes into a graph.
class GraphBuilder {
 public:
  GraphBuilder(const OnnxModel& model, const OnnxTypes& types,
               std::string_view name, BatchSize batch)
      : model_(model), types_(types) {
    result_.name = name;
    result_.batch = batch;
  }

  Result<Graph> Build() {
    const onnx::GraphProto& graph = model_.proto.graph();
    for (const ValueInfoProto& input : graph.input()) {
      AddTensor(input.name()).parameter =
          model_.parameters.count(input.name()) > 0;
    }
    for (const NodeProto& node : graph.node()) {
      UCUDNN_RETURN_IF_ERROR(AddNode(node));
    }
    return std::move(result_);
  }

 private:
  // Adds the tensor of this name, whose type has been checked.
  Tensor& AddTensor(const std::string& name) {
    const OnnxType& type = types_.at(name);
    const auto element = ElementOf(type.element);
    Tensor tensor;
    tensor.name = Excerpt(name, 1000);
    tensor.element_bytes = element->bytes;
    tensor.floating = element->floating;
    tensor.shape = type.shape;
    places_.emplace(name, result_.tensors.size());
    viewed_.push_back(result_.tensors.size());
    result_.tensors.push_back(std::move(tensor));
    return result_.tensors.back();
  }

  Status AddNode(const NodeProto& proto) {
    Node node;
    node.name = proto.name();
    node.op_type = Excerpt(proto.op_type());
    for (const onnx::AttributeProto& attribute : proto.attribute()) {
      if (attribute.type() == onnx::AttributeProto::FLOAT) {
        node.numbers[attribute.name()] = double{attribute.f()};
      } else if (attribute.type() == onnx::AttributeProto::INT) {
        node.numbers[attribute.name()] = static_cast<double>(attribute.i());
      } else if (attribute.type() == onnx::AttributeProto::STRING) {
        node.words[attribute.name()] = Excerpt(attribute.s());
      }
    }
    for (int i = 0; i < proto.input_size(); ++i) {
      if (proto.input(i).empty()) continue;
      const std::size_t place = places_.at(proto.input(i));
      Tensor& tensor = result_.tensors[viewed_.at(place)];
      if (tensor.parameter && tensor.floating &&
          !IsUntrainedOperand(proto, i) &&
          (IsLayerWeight(proto, i) ||
           (constants_.count(viewed_.at(place)) == 0 && !IsView(proto) &&
            !(IsArithmetic(proto) && ElementsOf(tensor.shape) == 1)))) {
        tensor.trained = true;
      }
      node.inputs.push_back(place);
    }
    for (const std::string& output : proto.output()) {
      if (output.empty()) continue;
      node.outputs.push_back(result_.tensors.size());
      if (proto.op_type() == "Constant") {
        constants_.insert(result_.tensors.size());
      }
      AddTensor(output).parameter = proto.op_type() == "Constant";
      if (IsView(proto) && !node.inputs.empty()) {
        viewed_.back() = viewed_.at(node.inputs[0]);
      }
    }
    const auto shape = [&](std::size_t tensor) -> const TensorShape& {
      return result_.tensors[tensor].shape;
    };
    if (IsPooling(proto)) {
      UCUDNN_ASSIGN_OR_RETURN(const PooledShape pooled,
                              PoolingOf(proto, shape(node.inputs[0])));
      node.pooling = pooled.windows;
      if (node.pooling) node.divisor = DivisorOf(proto, *node.pooling);
    }
    if (!IsConvolution(proto)) {
      result_.nodes.push_back(std::move(node));
      return {};
    }
    const TensorShape& read = shape(node.inputs[0]);
    const std::int64_t images = read[0] / result_.batch.count();
    if (images * result_.batch.count() != read[0]) {
      return Fail(Code::kUnimplemented,
                  "{}: it convolves {} images where the batch is {}; a whole "
                  "number of images for each of the batch is accepted",
                  Shown(proto), read[0], result_.batch.count());
    }
    UCUDNN_ASSIGN_OR_RETURN(PaddedConvolution conv,
                            ConvolutionOf(proto, read, shape(node.inputs[1])));
    conv.convolution.geometry.images = images;
    UCUDNN_RETURN_IF_ERROR(Validate(conv.convolution.geometry));
    node.convolution = conv.convolution;
    if (!conv.IsPadded()) {
      result_.nodes.push_back(std::move(node));
    } else if (conv.convolution.transposed) {
      UCUDNN_RETURN_IF_ERROR(AddCrop(proto, conv, std::move(node)));
    } else {
      UCUDNN_RETURN_IF_ERROR(AddPad(proto, conv, &node.inputs[0]));
      result_.nodes.push_back(std::move(node));
    }
    return {};
  }

  // Adds a tensor that is larger than `tensor` by what `padded` adds.
  Result<std::size_t> AddLarger(const NodeProto& proto, std::size_t tensor,
                                const PaddedConvolution& padded) {
    Tensor larger = result_.tensors[tensor];
    larger.parameter = larger.trained = false;
    larger.name = UniqueName(proto.name() + ".padded");
    const std::size_t spatial = larger.shape.size() - 2;
    for (std::size_t i = 0; i < spatial; ++i) {
      larger.shape[2 + i] +=
          padded.before[3 - spatial + i] + padded.after[3 - spatial + i];
    }
    if (!CheckedProduct(larger.shape, larger.element_bytes, kMaxTensorBytes)) {
      return Fail(Code::kInvalidArgument,
                  "{}: its padded tensor [{}] cannot be counted", Shown(proto),
                  fmt::join(larger.shape, ", "));
    }
    viewed_.push_back(result_.tensors.size());
    result_.tensors.push_back(std::move(larger));
    return result_.tensors.size() - 1;
  }

  // Adds the transposed convolution `node` with its whole output, and the node
  // that takes away from it what its padding leaves out.
  Status AddCrop(const NodeProto& proto, const PaddedConvolution& padded,
                 Node node) {
    UCUDNN_ASSIGN_OR_RETURN(const std::size_t whole,
                            AddLarger(proto, node.outputs[0], padded));
    Node crop;
    crop.name = UniqueName(proto.name() + ".crop");
    crop.op_type = "Slice";
    crop.inputs = {whole};
    crop.outputs = {node.outputs[0]};
    node.outputs[0] = whole;
    result_.nodes.push_back(std::move(node));
    result_.nodes.push_back(std::move(crop));
    return {};
  }

  // Adds the node that pads the convolution's input, and makes that its input.
  Status AddPad(const NodeProto& proto, const PaddedConvolution& padded,
                std::size_t* input) {
    UCUDNN_ASSIGN_OR_RETURN(const std::size_t whole,
                            AddLarger(proto, *input, padded));
    Node pad;
    pad.name = UniqueName(proto.name() + ".pad");
    pad.op_type = "Pad";
    pad.inputs = {*input};
    pad.outputs = {whole};
    pad.pooling.emplace();
    for (std::size_t i = 0; i < padded.before.size(); ++i) {
      (*pad.pooling)[i].before = padded.before[i];
      (*pad.pooling)[i].after = padded.after[i];
    }
    *input = whole;
    result_.nodes.push_back(std::move(pad));
    return {};
  }

  // `name`, with as many underscores as make it differ from the model's.
  std::string UniqueName(std::string name) {
    if (names_.empty()) {
      for (const NodeProto& node : model_.proto.graph().node()) {
        names_.insert(node.name());
      }
    }
    while (places_.count(name) > 0 || !names_.insert(name).second) name += '_';
    return name;
  }

  const OnnxModel& model_;
  const OnnxTypes& types_;
  std::unordered_set<std::string>
      names_;  // of nodes, and those that were added
  std::unordered_map<std::string, std::size_t> places_;  // in tensors
  std::vector<std::size_t> viewed_;  // for each tensor, what it is a view of
  std::unordered_set<std::size_t> constants_;  // that nodes have as values
  Graph result_;
};

Result<Graph> Read(std::string_view bytes, std::string_view name,
                   BatchSize batch) {
  if (batch < BatchSize(1) || batch > kMaxBatchSize) {
    return Fail(Code::kInvalidArgument, "the batch is {}; 1 to {} is accepted",
                batch.count(), kMaxBatchSize.count());
  }
  UCUDNN_ASSIGN_OR_RETURN(const OnnxModel model, PrepareOnnx(bytes, batch));
  UCUDNN_ASSIGN_OR_RETURN(const OnnxTypes types, InferOnnxTypes(model));
  return GraphBuilder(model, types, name, batch).Build();
}

}  // namespace

Result<Graph> ReadOnnx(std::string_view model, std::string_view name,
                       BatchSize batch, std::string_view source) {
  Result<Graph> graph = Read(model, name, batch);
  if (!graph) return Within(source, std::move(graph).error());
  return graph;
}

Result<std::string> WithoutWeights(std::string_view model,
                                   std::string_view source) {
  onnx::ModelProto proto;
  if (Status status = ParseOnnx(model, &proto); !status) {
    return Within(source, std::move(status).error());
  }
  const auto strip = [](onnx::TensorProto* tensor) {
    if (CheckedProduct(tensor->dims(), 1, kMaxOnnxValues)) return;
    tensor->clear_raw_data();
    tensor->clear_float_data();
    tensor->clear_double_data();
    tensor->clear_int32_data();
    tensor->clear_int64_data();
    tensor->clear_uint64_data();
  };
  onnx::GraphProto* graph = proto.mutable_graph();
  for (onnx::TensorProto& tensor : *graph->mutable_initializer()) {
    strip(&tensor);
  }
  for (NodeProto& node : *graph->mutable_node()) {
    for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
      if (attribute.has_t()) strip(attribute.mutable_t());
    }
  }
  return proto.SerializeAsString();
}

}  // namespace ucudnn
