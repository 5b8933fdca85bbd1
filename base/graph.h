#ifndef UCUDNN_BASE_GRAPH_H_
#define UCUDNN_BASE_GRAPH_H_

// A network as the graph of everything it computes, with the shapes of its
// tensors at one batch size. The shared arena and memory plans need it, since
// they concern more than the convolutions.

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/conv_problem.h"
#include "base/network.h"
#include "base/units.h"

namespace ucudnn {

struct Tensor {
  std::string name;
  std::vector<std::int64_t> shape;  // none negative; empty for a scalar
  std::int64_t element_bytes = 4;
  bool floating = true;  // gradients pass only through floating-point tensors
  // Stored in the model, also as a Constant node's value: the same for every
  // batch.
  bool parameter = false;
  // A parameter that training changes, unlike running statistics.
  bool trained = false;

  // The size of the whole tensor; ReadOnnx has checked that it fits in 63 bits.
  Bytes size() const;

  friend bool operator==(const Tensor&, const Tensor&) = default;
};

// A node's convolution. A transposed one is stored as the convolution it is the
// adjoint of, as in ConvLayer.
struct NodeConvolution {
  ConvGeometry geometry;
  bool transposed = false;

  friend bool operator==(const NodeConvolution&,
                         const NodeConvolution&) = default;
};

// How an operation reads one spatial dimension: output element o reads `extent`
// elements of the padded input, from o * stride on.
struct Window {
  std::int64_t extent = 1;
  std::int64_t stride = 1;
  std::int64_t before = 0;  // padding
  std::int64_t after = 0;

  // Elements of the output; 0 if the window does not fit.
  std::int64_t OutputOf(std::int64_t input) const;

  friend bool operator==(const Window&, const Window&) = default;
};

// What an AveragePool divides the sum of a window by; they differ at the edges
// of a padded input.
enum class Divisor {
  kWindow,  // the window's elements, so that padding counts as zeros
  kInside,  // those that are in the input
  kPadded,  // those in the padded input, without what rounding up adds to it
};

struct Node {
  std::string name;  // unique in the graph
  std::string op_type;
  // Indices into Graph::tensors. Omitted operands are not listed; a
  // convolution's first input is what it convolves.
  std::vector<std::size_t> inputs;
  std::vector<std::size_t> outputs;
  std::optional<NodeConvolution> convolution;
  // Of MaxPool, AveragePool and Pad, where it is known: depth, height, width.
  std::optional<std::array<Window, 3>> pooling = {};
  Divisor divisor = Divisor::kWindow;  // of AveragePool, where that is known
  // Its attributes that are one number, or a word, by their names in ONNX.
  std::map<std::string, double> numbers = {};
  std::map<std::string, std::string> words = {};

  double NumberOr(const std::string& attribute, double other) const {
    const auto found = numbers.find(attribute);
    return found == numbers.end() ? other : found->second;
  }
  std::string WordOr(const std::string& attribute,
                     const std::string& other) const {
    const auto found = words.find(attribute);
    return found == words.end() ? other : found->second;
  }

  friend bool operator==(const Node&, const Node&) = default;
};

struct Graph {
  std::string name;
  BatchSize batch;
  std::vector<Tensor> tensors;
  // In topological order: a node comes after those that compute its inputs.
  // At most one node computes a tensor.
  std::vector<Node> nodes;

  friend bool operator==(const Graph&, const Graph&) = default;
};

// For each node, the indices of the nodes that compute its inputs, ascending
// and unique. O(nodes + edges, sorted).
std::vector<std::vector<std::size_t>> Predecessors(const Graph& graph);

// The graph's convolutions in node order. A layer needs an input gradient if a
// trained parameter precedes it on a path of floating-point tensors, or of
// those that QuantizeLinear rounds, whose gradients pass as if it did not.
// O(nodes + edges).
Network NetworkOf(const Graph& graph);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_GRAPH_H_
