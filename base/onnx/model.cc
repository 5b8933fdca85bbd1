#include "base/onnx/model.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <map>
#include <queue>
#include <set>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "base/onnx/checks.h"
#include "base/onnx/fuse.h"
#include "base/onnx/wire.h"
#include "base/text.h"

namespace ucudnn {
namespace {

using onnx::GraphProto;
using onnx::NodeProto;
using onnx::TensorProto;
using onnx::ValueInfoProto;

// The latest version of the format that the library knows. Other versions
// differ from it only in what does not affect shapes.
constexpr std::int64_t kKnownFormat = 8;

// Gives each node a unique name.
void NameNodes(GraphProto* graph) {
  std::map<std::string, int> uses;
  for (const NodeProto& node : graph->node()) ++uses[node.name()];
  std::set<std::string> taken;
  for (const auto& [name, count] : uses) {
    if (count == 1) taken.insert(name);
  }
  for (int i = 0; i < graph->node_size(); ++i) {
    NodeProto* node = graph->mutable_node(i);
    const std::string& name = node->name();
    if (!name.empty() && uses[name] == 1 && IsPlainText(name) &&
        name.size() <= kMaxLayerNameBytes) {
      continue;
    }
    std::string own = fmt::format("{}_{}", Excerpt(node->op_type()), i);
    while (!taken.insert(own).second) own += '_';
    node->set_name(own);
  }
}

// Whether a dimension is called `symbol` more than once in one shape: then it
// is an exporter's word for "unknown" ("?", "None"), not the batch.
bool IsPlaceholder(const std::string& symbol, const GraphProto& graph) {
  const auto repeats = [&](const ValueInfoProto& value) {
    const auto& dims = value.type().tensor_type().shape().dim();
    return std::count_if(dims.begin(), dims.end(), [&](const auto& dim) {
             return dim.has_dim_param() && dim.dim_param() == symbol;
           }) > 1;
  };
  return std::any_of(graph.input().begin(), graph.input().end(), repeats) ||
         std::any_of(graph.value_info().begin(), graph.value_info().end(),
                     repeats);
}

// Sets the first dimension of `data`, and all dimensions of the same name, to
// the batch.
Status SetBatch(const std::vector<ValueInfoProto*>& data, BatchSize batch,
                OnnxModel* model) {
  GraphProto* graph = model->proto.mutable_graph();
  std::unordered_set<std::string> symbols;
  for (ValueInfoProto* input : data) {
    auto* type = input->mutable_type()->mutable_tensor_type();
    if (!type->has_shape() || type->shape().dim_size() == 0) continue;
    auto* first = type->mutable_shape()->mutable_dim(0);
    if (first->has_dim_param() && !first->dim_param().empty() &&
        !IsPlaceholder(first->dim_param(), *graph)) {
      symbols.insert(first->dim_param());
    }
    if (first->has_dim_value() && first->dim_value() != batch.count()) {
      model->fixed_batch = first->dim_value();
    }
    first->set_dim_value(batch.count());
  }
  ForEachSize(graph, [&](auto* dim) {
    if (dim->has_dim_param() && symbols.count(dim->dim_param()) > 0) {
      dim->set_dim_value(batch.count());
    }
  });
  for (const ValueInfoProto& input : graph->input()) {
    for (const auto& dim : input.type().tensor_type().shape().dim()) {
      if (dim.has_dim_value()) continue;
      return Fail(Code::kInvalidArgument,
                  "input '{}' has the dimension '{}' besides the batch, which "
                  "is not a number; export the model with a fixed size, or "
                  "give the sizes with --input-shape",
                  Excerpt(input.name()),
                  dim.has_dim_param() ? Excerpt(dim.dim_param()) : "?");
    }
  }
  // These shapes were recorded for the model's own batch.
  if (model->fixed_batch) graph->clear_value_info();
  // Types are inferred, so outputs need not be declared.
  graph->clear_output();
  return {};
}

// Whether weights are inputs of the model instead of initializers: whether a
// layer's weight is an input that nothing initializes, or a view of one.
bool WeightsAreInputs(const GraphProto& graph,
                      const std::unordered_set<std::string>& uninitialized) {
  std::unordered_map<std::string, std::string> viewed;
  for (const NodeProto& node : graph.node()) {
    if (IsView(node) && node.input_size() > 0 && node.output_size() > 0) {
      viewed[node.output(0)] = node.input(0);
    }
  }
  const auto is_input = [&](std::string tensor) {
    // The nodes are not sorted yet, and may form a cycle.
    for (int steps = 0; steps < 16; ++steps) {
      const auto view = viewed.find(tensor);
      if (view == viewed.end()) break;
      tensor = view->second;
    }
    return uninitialized.count(tensor) > 0;
  };
  for (const NodeProto& node : graph.node()) {
    if (node.op_type() == "MatMul") continue;  // may be of two data tensors
    for (int i = 0; i < node.input_size(); ++i) {
      if (IsLayerWeight(node, i) && is_input(node.input(i))) return true;
    }
  }
  return false;
}

// The inputs that are data. Those with a symbolic first dimension are. Of the
// others, all are that nothing initializes unless weights are inputs; then, if
// no input is symbolic, the first is.
std::vector<bool> DataInputs(
    const GraphProto& graph,
    const std::unordered_set<std::string>& uninitialized) {
  const auto symbolic = [](const ValueInfoProto& input) {
    const auto& shape = input.type().tensor_type().shape();
    return shape.dim_size() > 0 && !shape.dim(0).has_dim_value();
  };
  const bool any =
      std::any_of(graph.input().begin(), graph.input().end(), symbolic);
  const bool weights = WeightsAreInputs(graph, uninitialized);
  std::vector<bool> data;
  for (int i = 0; i < graph.input_size(); ++i) {
    const ValueInfoProto& input = graph.input(i);
    data.push_back(uninitialized.count(input.name()) > 0 &&
                   (symbolic(input) || !weights || (!any && i == 0)));
  }
  return data;
}

// Makes every initializer an input too, separates data from parameters and sets
// the batch.
Status FindInputs(BatchSize batch, OnnxModel* model) {
  GraphProto* graph = model->proto.mutable_graph();
  std::unordered_set<std::string> uninitialized;
  for (const ValueInfoProto& input : graph->input()) {
    if (!uninitialized.insert(input.name()).second) {
      return Fail(Code::kInvalidArgument, "two inputs are named '{}'",
                  Excerpt(input.name()));
    }
  }
  std::unordered_set<std::string> initializers;
  google::protobuf::RepeatedPtrField<TensorProto> kept;
  std::int64_t kept_elements = 0;
  std::vector<ValueInfoProto> added;
  for (TensorProto& tensor : *graph->mutable_initializer()) {
    if (!initializers.insert(tensor.name()).second) {
      return Fail(Code::kInvalidArgument, "two initializers are named '{}'",
                  Excerpt(tensor.name()));
    }
    if (uninitialized.erase(tensor.name()) == 0) {
      ValueInfoProto input;
      input.set_name(tensor.name());
      auto* type = input.mutable_type()->mutable_tensor_type();
      type->set_elem_type(tensor.data_type());
      type->mutable_shape();
      for (const std::int64_t extent : tensor.dims()) {
        type->mutable_shape()->add_dim()->set_dim_value(extent);
      }
      added.push_back(std::move(input));
    }
    for (const auto& entry : tensor.external_data()) {
      if (entry.key() == "location") {
        model->elsewhere[tensor.name()] = entry.value();
      }
    }
    const auto elements = CheckedProduct(tensor.dims(), 1, kMaxOnnxValues);
    if (CheckRead(tensor) && elements &&
        kept_elements + *elements <= kMaxOnnxValuesInAll) {
      kept_elements += *elements;
      kept.Add()->Swap(&tensor);
    }
  }
  graph->mutable_initializer()->Swap(&kept);

  const std::vector<bool> is_data = DataInputs(*graph, uninitialized);
  std::vector<ValueInfoProto*> batched;
  std::vector<ValueInfoProto*> fixed;
  for (int i = 0; i < graph->input_size(); ++i) {
    ValueInfoProto* input = graph->mutable_input(i);
    if (!is_data[static_cast<std::size_t>(i)]) {
      model->parameters.insert(input->name());
      continue;
    }
    const auto& shape = input->type().tensor_type().shape();
    if (shape.dim_size() == 0) continue;
    const bool symbolic = !shape.dim(0).has_dim_value();
    // The first fixed size is the batch if there is no symbolic one; inputs of
    // other sizes do not depend on it.
    if (symbolic) batched.push_back(input);
    if (!symbolic &&
        (fixed.empty() ||
         shape.dim(0).dim_value() ==
             fixed[0]->type().tensor_type().shape().dim(0).dim_value())) {
      fixed.push_back(input);
    }
  }
  if (batched.empty()) batched = fixed;
  UCUDNN_RETURN_IF_ERROR(SetBatch(batched, batch, model));
  for (ValueInfoProto& input : added) {
    model->parameters.insert(input.name());
    graph->add_input()->Swap(&input);
  }
  return {};
}

// Gives each domain that nodes use but the model does not import a version:
// ONNX's checker refuses domains without one, and accepts any for operators
// that it does not know.
void NameDomains(onnx::ModelProto* model) {
  std::set<std::string> known;
  for (const auto& opset : model->opset_import()) known.insert(opset.domain());
  for (const NodeProto& node : model->graph().node()) {
    if (IsStandard(node) || !known.insert(node.domain()).second) continue;
    auto* opset = model->add_opset_import();
    opset->set_domain(node.domain());
    opset->set_version(1);
  }
}

// Refuses more tensors than shape inference may take.
Status CountTensors(const GraphProto& graph) {
  auto count = static_cast<std::size_t>(graph.input_size());
  for (const NodeProto& node : graph.node()) {
    count += static_cast<std::size_t>(node.output_size());
  }
  if (count <= kMaxOnnxTensors) return {};
  return Fail(Code::kInvalidArgument,
              "it has {} tensors; up to {} are accepted", count,
              kMaxOnnxTensors);
}

// Puts the nodes into topological order.
Status SortNodes(GraphProto* graph) {
  const auto count = static_cast<std::size_t>(graph->node_size());
  const auto node = [&](std::size_t i) -> const NodeProto& {
    return graph->node(static_cast<int>(i));
  };
  std::unordered_map<std::string, std::size_t> producers;
  std::unordered_set<std::string> given;
  for (const ValueInfoProto& input : graph->input()) {
    given.insert(input.name());
  }
  for (std::size_t i = 0; i < count; ++i) {
    for (const std::string& output : node(i).output()) {
      if (output.empty()) continue;
      if (given.count(output) > 0 || !producers.emplace(output, i).second) {
        return Fail(Code::kInvalidArgument,
                    "{} computes tensor '{}', which already exists",
                    Shown(node(i)), Excerpt(output));
      }
    }
  }
  std::vector<std::vector<std::size_t>> readers(count);
  std::vector<std::size_t> waits(count);
  for (std::size_t i = 0; i < count; ++i) {
    for (const std::string& input : node(i).input()) {
      if (input.empty() || given.count(input) > 0) continue;
      const auto producer = producers.find(input);
      if (producer == producers.end()) {
        return Fail(Code::kInvalidArgument,
                    "{} reads tensor '{}', which nothing computes",
                    Shown(node(i)), Excerpt(input));
      }
      readers[producer->second].push_back(i);
      ++waits[i];
    }
  }
  // Among the nodes that are ready, the first in the model's order comes next.
  std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>>
      ready;
  for (std::size_t i = 0; i < count; ++i) {
    if (waits[i] == 0) ready.push(i);
  }
  google::protobuf::RepeatedPtrField<NodeProto> sorted;
  while (!ready.empty()) {
    const std::size_t next = ready.top();
    ready.pop();
    sorted.Add()->Swap(graph->mutable_node(static_cast<int>(next)));
    for (const std::size_t reader : readers[next]) {
      if (--waits[reader] == 0) ready.push(reader);
    }
  }
  if (sorted.size() != graph->node_size()) {
    const auto stuck = std::find_if(waits.begin(), waits.end(),
                                    [](std::size_t wait) { return wait > 0; });
    return Fail(Code::kInvalidArgument,
                "{} is on a cycle, or after one; a network without cycles is "
                "expected",
                Shown(node(std::size_t(stuck - waits.begin()))));
  }
  graph->mutable_node()->Swap(&sorted);
  return {};
}

}  // namespace

Status ParseOnnx(std::string_view bytes, onnx::ModelProto* model) {
  if (bytes.size() > std::size_t{std::numeric_limits<int>::max()}) {
    return Fail(Code::kInvalidArgument,
                "it is larger than 2 GiB, the limit of ONNX models");
  }
  if (OnnxOverhead(bytes, kMaxOnnxOverheadBytes) > kMaxOnnxOverheadBytes) {
    return Fail(Code::kInvalidArgument,
                "its {} bytes are too many small parts: besides texts and "
                "weights, parts of up to {} in memory are accepted",
                bytes.size(), FormatBytes(Bytes(kMaxOnnxOverheadBytes)));
  }
  if (!model->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return Fail(Code::kInvalidArgument, "its {} bytes are not an ONNX model",
                bytes.size());
  }
  GraphProto* graph = model->mutable_graph();
  if (graph->node_size() == 0) {
    return Fail(Code::kInvalidArgument,
                "it is an ONNX model without a node; a network is expected");
  }
  if (graph->node_size() > kMaxOnnxNodes) {
    return Fail(Code::kInvalidArgument,
                "it has {} nodes; up to {} are accepted", graph->node_size(),
                kMaxOnnxNodes);
  }
  ForEachSize(graph, [](auto* dim) {
    if (dim->has_dim_value() && dim->dim_value() < 0) dim->clear_dim_value();
  });
  for (NodeProto& node : *graph->mutable_node()) {
    if (IsStandard(node)) node.clear_domain();
  }
  for (auto& opset : *model->mutable_opset_import()) {
    if (opset.domain() == "ai.onnx") opset.clear_domain();
  }
  if (graph->sparse_initializer_size() > 0) {
    return Fail(Code::kUnimplemented,
                "it has sparse initializers; dense ones are accepted");
  }
  return {};
}

bool IsStandard(const NodeProto& node) {
  return node.domain().empty() || node.domain() == "ai.onnx";
}

bool IsLayerWeight(const NodeProto& node, int operand) {
  constexpr std::array<std::string_view, 5> kLayers = {
      "Conv", "ConvTranspose", "Gemm", "MatMul", "BatchNormalization"};
  return operand > 0 && std::ranges::count(kLayers, node.op_type()) > 0;
}

bool IsView(const NodeProto& node) {
  constexpr std::array<std::string_view, 8> kViews = {
      "Identity",  "Reshape", "Squeeze",        "Unsqueeze",
      "Transpose", "Cast",    "QuantizeLinear", "DequantizeLinear"};
  return std::ranges::count(kViews, node.op_type()) > 0;
}

std::string Shown(const NodeProto& node) {
  return fmt::format("node '{}' ({}{}{})", Excerpt(node.name(), 200),
                     IsStandard(node) ? "" : Excerpt(node.domain()),
                     IsStandard(node) ? "" : ".", Excerpt(node.op_type()));
}

std::optional<OnnxElement> ElementOf(int type) {
  switch (type) {
    case TensorProto::FLOAT:
      return OnnxElement{4, true};
    case TensorProto::FLOAT16:
    case TensorProto::BFLOAT16:
      return OnnxElement{2, true};
    case TensorProto::DOUBLE:
    case TensorProto::COMPLEX64:
      return OnnxElement{8, true};
    case TensorProto::COMPLEX128:
      return OnnxElement{16, true};
    case TensorProto::BOOL:
    case TensorProto::INT8:
    case TensorProto::UINT8:
      return OnnxElement{1, false};
    case 17:  // FLOAT8E4M3FN and its variants, which the library does not name
    case 18:
    case 19:
    case 20:
      return OnnxElement{1, true};
    case TensorProto::INT16:
    case TensorProto::UINT16:
      return OnnxElement{2, false};
    case TensorProto::INT32:
    case TensorProto::UINT32:
      return OnnxElement{4, false};
    case TensorProto::INT64:
    case TensorProto::UINT64:
      return OnnxElement{8, false};
    default:
      return std::nullopt;
  }
}

Result<OnnxModel> PrepareOnnx(std::string_view bytes, BatchSize batch) {
  OnnxModel model;
  UCUDNN_RETURN_IF_ERROR(ParseOnnx(bytes, &model.proto));
  model.proto.set_ir_version(kKnownFormat);
  model.proto.mutable_graph()->set_name("graph");
  NameNodes(model.proto.mutable_graph());
  UCUDNN_RETURN_IF_ERROR(CheckNodes(model.proto));
  // No node calls them; the library would read the tensors in them.
  model.proto.clear_functions();
  model.proto.clear_training_info();
  NameDomains(&model.proto);
  UCUDNN_RETURN_IF_ERROR(FindInputs(batch, &model));
  UCUDNN_RETURN_IF_ERROR(CountTensors(model.proto.graph()));
  UCUDNN_RETURN_IF_ERROR(SortNodes(model.proto.mutable_graph()));
  FuseOperators(model.proto.mutable_graph());
  return model;
}

}  // namespace ucudnn
