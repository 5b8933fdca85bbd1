#include "base/onnx/fuse.h"

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/onnx/model.h"
#include "base/onnx/operation.h"

namespace ucudnn {
namespace {

using onnx::GraphProto;
using onnx::NodeProto;

class Fuser {
 public:
  explicit Fuser(GraphProto* graph) : graph_(*graph) {
    for (NodeProto& node : *graph->mutable_node()) {
      for (const std::string& output : node.output()) {
        producers_[output] = &node;
      }
      for (const std::string& input : node.input()) ++readers_[input];
    }
    for (const auto& tensor : graph->initializer()) {
      constants_[tensor.name()] = &tensor;
    }
  }

  void Fuse() {
    for (NodeProto& node : *graph_.mutable_node()) {
      if (!IsStandard(node)) continue;
      if (node.op_type() == "Mul") FuseSwish(&node);
      if (node.op_type() == "Add") FuseNormalization(&node);
    }
    google::protobuf::RepeatedPtrField<NodeProto> kept;
    for (NodeProto& node : *graph_.mutable_node()) {
      if (fused_.count(&node) == 0) kept.Add()->Swap(&node);
    }
    graph_.mutable_node()->Swap(&kept);
  }

 private:
  // The node of this type that computes `tensor` for `readers` readers.
  const NodeProto* Producer(const std::string& tensor, std::string_view op_type,
                            int readers = 1) const {
    const auto producer = producers_.find(tensor);
    if (producer == producers_.end()) return nullptr;
    const NodeProto* node = producer->second;
    const bool same = IsStandard(*node) && node->op_type() == op_type &&
                      node->input_size() > 0 && fused_.count(node) == 0 &&
                      readers_.at(tensor) == readers;
    return same ? node : nullptr;
  }

  // The two operands of a node, in both orders.
  static std::vector<std::pair<std::string, std::string>> Operands(
      const NodeProto& node) {
    if (node.input_size() != 2) return {};
    return {{node.input(0), node.input(1)}, {node.input(1), node.input(0)}};
  }

  void Replace(NodeProto* last, std::string_view op_type,
               std::initializer_list<std::string> inputs,
               std::initializer_list<const NodeProto*> parts) {
    last->set_op_type(std::string(op_type));
    last->clear_attribute();
    last->clear_input();
    for (const std::string& input : inputs) last->add_input(input);
    fused_.insert(parts);
  }

  void FuseSwish(NodeProto* mul) {
    for (const auto& [x, s] : Operands(*mul)) {
      const NodeProto* sigmoid = Producer(s, "Sigmoid");
      if (sigmoid == nullptr || sigmoid->input(0) != x) continue;
      Replace(mul, "Swish", {x}, {sigmoid});
      return;
    }
  }

  // Whether the node averages over all axes of four but the second.
  bool AveragesImages(const NodeProto& node) const {
    std::vector<std::int64_t> axes;
    if (const auto* attribute = FindAttribute(node, "axes")) {
      axes.assign(attribute->ints().begin(), attribute->ints().end());
    } else if (node.input_size() > 1) {
      const onnx::TensorProto* tensor = nullptr;
      const auto constant = constants_.find(node.input(1));
      const auto producer = producers_.find(node.input(1));
      if (constant != constants_.end()) {
        tensor = constant->second;
      } else if (producer != producers_.end()) {
        const auto* value = FindAttribute(*producer->second, "value");
        if (value != nullptr && value->has_t()) tensor = &value->t();
      }
      const auto numbers =
          tensor == nullptr ? std::nullopt : NumbersOf(*tensor);
      if (numbers) axes.assign(numbers->begin(), numbers->end());
    }
    return axes == std::vector<std::int64_t>{0, 2, 3} &&
           IntegerAttribute(node, "keepdims", 1) != 0;
  }

  void FuseNormalization(NodeProto* add) {
    for (const auto& [scaled, bias] : Operands(*add)) {
      const NodeProto* mul = Producer(scaled, "Mul");
      if (mul == nullptr) continue;
      for (const auto& [normal, scale] : Operands(*mul)) {
        const NodeProto* div = Producer(normal, "Div");
        if (div != nullptr && IsStored(bias) && IsStored(scale) &&
            FuseNormalization(*div, {scale, bias}, *mul, add)) {
          return;
        }
      }
    }
  }

  bool IsStored(const std::string& tensor) const {
    const auto producer = producers_.find(tensor);
    return producer == producers_.end() ||
           producer->second->op_type() == "Constant";
  }

  bool FuseNormalization(const NodeProto& div,
                         const std::pair<std::string, std::string>& weights,
                         const NodeProto& mul, NodeProto* add) {
    if (div.input_size() != 2) return false;
    // The difference is read by the square, twice, and by the division.
    const NodeProto* sub = Producer(div.input(0), "Sub", 3);
    const NodeProto* root = Producer(div.input(1), "Sqrt");
    if (sub == nullptr || root == nullptr || sub->input_size() != 2) {
      return false;
    }
    const NodeProto* mean = Producer(sub->input(1), "ReduceMean");
    const NodeProto* sum = Producer(root->input(0), "Add");
    if (mean == nullptr || sum == nullptr || !AveragesImages(*mean) ||
        mean->input(0) != sub->input(0)) {
      return false;
    }
    for (const auto& [variance_of, epsilon] : Operands(*sum)) {
      const NodeProto* variance = Producer(variance_of, "ReduceMean");
      if (variance == nullptr || !AveragesImages(*variance) ||
          !IsStored(epsilon)) {
        continue;
      }
      const NodeProto* square = Producer(variance->input(0), "Mul");
      if (square == nullptr || square->input_size() != 2 ||
          square->input(0) != sub->output(0) ||
          square->input(1) != sub->output(0)) {
        continue;
      }
      // Running statistics, which the parts do not have, are as large.
      const auto& [scale, bias] = weights;
      Replace(add, "BatchNormalization",
              {sub->input(0), scale, bias, scale, bias},
              {mean, sub, square, variance, sum, root, &div, &mul});
      return true;
    }
    return false;
  }

  GraphProto& graph_;
  std::unordered_map<std::string, const NodeProto*> producers_;
  std::unordered_map<std::string, int> readers_;
  std::unordered_map<std::string, const onnx::TensorProto*> constants_;
  std::unordered_set<const NodeProto*> fused_;
};

}  // namespace

void FuseOperators(GraphProto* graph) { Fuser(graph).Fuse(); }

}  // namespace ucudnn
