#include "base/onnx/onnx.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

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
                                     Operand{"Dropout", 1},
                                     Operand{"Pad", 1},
                                     Operand{"Resize", 1},
                                     Operand{"Upsample", 1}};
  return std::any_of(kUntrained.begin(), kUntrained.end(),
                     [&](const Operand& untrained) {
                       return node.op_type() == untrained.op_type &&
                              operand >= untrained.first;
                     });
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
      UCUDNN_RETURN_IF_ERROR(AddTensor(input.name(), nullptr));
      Tensor& tensor = result_.tensors.back();
      tensor.parameter = model_.parameters.count(input.name()) > 0;
    }
    for (const NodeProto& node : graph.node()) {
      UCUDNN_RETURN_IF_ERROR(AddNode(node));
    }
    return std::move(result_);
  }

 private:
  // Adds the tensor that `node` computes, or an input if it is null.
  Status AddTensor(const std::string& name, const NodeProto* node) {
    const auto fail = [&](std::string_view what) {
      return Fail(Code::kInvalidArgument, "{} '{}'{}: {}",
                  node == nullptr ? "input" : "tensor", Excerpt(name),
                  node == nullptr ? "" : ", computed by " + Shown(*node), what);
    };
    const auto type = types_.find(name);
    if (type == types_.end() || !type->second.tensor_type().has_shape()) {
      return fail("its shape cannot be inferred");
    }
    const auto& proto = type->second.tensor_type();
    const auto element = ElementOf(proto.elem_type());
    if (!element) {
      return fail(fmt::format("its elements are of type {}, which has no size",
                              proto.elem_type()));
    }
    Tensor tensor;
    tensor.name = Excerpt(name, 1000);
    tensor.element_bytes = element->bytes;
    tensor.floating = element->floating;
    for (const auto& dim : proto.shape().dim()) {
      if (!dim.has_dim_value()) {
        return fail("not all of its dimensions can be inferred");
      }
      tensor.shape.push_back(dim.dim_value());
    }
    if (!CheckedProduct(tensor.shape, tensor.element_bytes, kMaxTensorBytes)) {
      return fail(fmt::format("its shape [{}] cannot be counted",
                              fmt::join(tensor.shape, ", ")));
    }
    places_.emplace(name, result_.tensors.size());
    result_.tensors.push_back(std::move(tensor));
    return {};
  }

  Status AddNode(const NodeProto& proto) {
    Node node;
    node.name = proto.name();
    node.op_type = Excerpt(proto.op_type());
    for (int i = 0; i < proto.input_size(); ++i) {
      if (proto.input(i).empty()) continue;
      const std::size_t place = places_.at(proto.input(i));
      Tensor& tensor = result_.tensors[place];
      if (tensor.parameter && tensor.floating &&
          !IsUntrainedOperand(proto, i)) {
        tensor.trained = true;
      }
      node.inputs.push_back(place);
    }
    for (const std::string& output : proto.output()) {
      if (output.empty()) continue;
      node.outputs.push_back(result_.tensors.size());
      UCUDNN_RETURN_IF_ERROR(AddTensor(output, &proto));
    }
    const auto shape = [&](std::size_t tensor) -> const TensorShape& {
      return result_.tensors[tensor].shape;
    };
    if (!node.inputs.empty() && !node.outputs.empty()) {
      node.pooling =
          PoolingOf(proto, shape(node.inputs[0]), shape(node.outputs[0]));
      if (node.pooling) node.divisor = DivisorOf(proto, *node.pooling);
    }
    if (IsConvolution(proto)) {
      if (node.inputs.size() < 2 || node.outputs.empty()) {
        return Fail(Code::kInvalidArgument,
                    "{}: it lacks an input, a filter or an output",
                    Shown(proto));
      }
      Result<PaddedConvolution> conv =
          ConvolutionOf(proto, shape(node.inputs[0]), shape(node.inputs[1]),
                        shape(node.outputs[0]));
      if (!conv) return Within(Shown(proto), std::move(conv).error());
      node.convolution = conv->convolution;
      if (conv->IsPadded()) {
        UCUDNN_RETURN_IF_ERROR(AddPad(proto, *conv, &node.inputs[0]));
      }
    }
    result_.nodes.push_back(std::move(node));
    return {};
  }

  // Adds the node that pads the convolution's input, and makes that its input.
  Status AddPad(const NodeProto& proto, const PaddedConvolution& padded,
                std::size_t* input) {
    Tensor tensor = result_.tensors[*input];
    tensor.parameter = tensor.trained = false;
    tensor.name = UniqueName(proto.name() + ".padded");
    const std::size_t spatial = tensor.shape.size() - 2;
    for (std::size_t i = 0; i < spatial; ++i) {
      tensor.shape[2 + i] +=
          padded.before[3 - spatial + i] + padded.after[3 - spatial + i];
    }
    if (!CheckedProduct(tensor.shape, tensor.element_bytes, kMaxTensorBytes)) {
      return Fail(Code::kInvalidArgument,
                  "{}: its padded input [{}] cannot be counted", Shown(proto),
                  fmt::join(tensor.shape, ", "));
    }
    Node pad;
    pad.name = UniqueName(proto.name() + ".pad");
    pad.op_type = "Pad";
    pad.inputs = {*input};
    pad.outputs = {result_.tensors.size()};
    *input = result_.tensors.size();
    result_.tensors.push_back(std::move(tensor));
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

}  // namespace ucudnn
