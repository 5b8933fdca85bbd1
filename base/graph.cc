#include "base/graph.h"

#include <algorithm>

namespace ucudnn {

Bytes Tensor::size() const {
  std::int64_t bytes = element_bytes;
  for (const std::int64_t extent : shape) bytes *= extent;
  return Bytes(bytes);
}

std::int64_t Window::OutputOf(std::int64_t input) const {
  const std::int64_t steps = input + before + after - extent;
  return steps < 0 ? 0 : steps / stride + 1;
}

std::vector<std::vector<std::size_t>> Predecessors(const Graph& graph) {
  std::vector<std::optional<std::size_t>> producers(graph.tensors.size());
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const std::size_t tensor : graph.nodes[i].outputs) {
      producers[tensor] = i;
    }
  }
  std::vector<std::vector<std::size_t>> predecessors(graph.nodes.size());
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    std::vector<std::size_t>& list = predecessors[i];
    for (const std::size_t tensor : graph.nodes[i].inputs) {
      if (producers[tensor]) list.push_back(*producers[tensor]);
    }
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
  }
  return predecessors;
}

Network NetworkOf(const Graph& graph) {
  // Which tensors depend on a trained parameter.
  std::vector<bool> trained(graph.tensors.size());
  for (std::size_t i = 0; i < trained.size(); ++i) {
    trained[i] = graph.tensors[i].trained && graph.tensors[i].floating;
  }
  Network network{graph.name, {}};
  for (const Node& node : graph.nodes) {
    if (node.convolution) {
      network.layers.push_back({node.name, node.convolution->geometry,
                                node.convolution->transposed,
                                trained[node.inputs.front()]});
    }
    const bool any =
        std::any_of(node.inputs.begin(), node.inputs.end(),
                    [&](std::size_t tensor) { return trained[tensor]; });
    for (const std::size_t tensor : node.outputs) {
      if (any && (graph.tensors[tensor].floating ||
                  node.op_type == "QuantizeLinear")) {
        trained[tensor] = true;
      }
    }
  }
  return network;
}

}  // namespace ucudnn
