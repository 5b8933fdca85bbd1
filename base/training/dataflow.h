#ifndef UCUDNN_BASE_TRAINING_DATAFLOW_H_
#define UCUDNN_BASE_TRAINING_DATAFLOW_H_

// What each node and tensor of a network is in training: which nodes compute
// anything, which tensors view the same values, which parameters a node has,
// and which values depend on trained parameters.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/graph.h"
#include "base/result.h"

namespace ucudnn {

// How a node takes part in training.
enum class Role {
  kNone,       // computes shapes or constants
  kSameBlock,  // views its operand in another shape
  kConv,
  kGemm,
  kActivation,         // its backward pass needs Y
  kActivationOfInput,  // its backward pass needs X
  kNormalisation,
  kPoolWithOutput,  // its backward pass needs X and Y
  kLinear,          // its backward pass needs neither
  kDropout,
  kAdd,
  kMul,  // its backward pass needs the other operand
  kConcat,
  kSplit,  // has several outputs
};

// The contents of one tensor, or of several that view the same memory in
// different shapes.
struct Value {
  std::string name;  // of the block that it would have
  std::int64_t elements_per_image = 0;
  std::int64_t elements = 0;            // instead, of what images do not change
  std::size_t readers = 0;              // nodes, and the loss
  bool trained = false;                 // depends on a trained parameter
  bool in_place_ok = true;              // its producer does not need it again
  std::optional<std::size_t> producer;  // node; absent for the model's inputs
};

class Dataflow {
 public:
  // kUnimplemented, naming the node, for an operator that memory plans do not
  // support or that is used differently; kInvalidArgument for a tensor that the
  // images do not share evenly. An input whose first dimension is not the batch
  // is the same for all images, and so is what follows from such inputs alone.
  // O(nodes, edges). `graph` must outlive the result.
  static Result<Dataflow> Of(const Graph& graph);

  Role RoleOf(std::size_t node) const { return roles_[node]; }
  // Whether the node computes a value.
  bool Computes(std::size_t node) const {
    return roles_[node] != Role::kNone && roles_[node] != Role::kSameBlock;
  }
  bool HasWeights(std::size_t node) const {
    return roles_[node] == Role::kConv || roles_[node] == Role::kGemm ||
           roles_[node] == Role::kNormalisation;
  }

  // The model's inputs first, then in the order of the nodes.
  const std::vector<Value>& values() const { return values_; }
  // The values that the loss reads.
  const std::vector<std::size_t>& outputs() const { return outputs_; }
  // The values that the node reads.
  std::vector<std::size_t> OperandsOf(std::size_t node) const;
  // The value that the node computes, of a Split the first of them.
  std::size_t OutputOf(std::size_t node) const {
    return *values_of_[graph_->nodes[node].outputs[0]];
  }
  std::vector<std::size_t> OutputsOf(std::size_t node) const;
  // Elements, an image if so, of the operand of a Mul that is computed without
  // the model's inputs, as the random numbers of stochastic depth are.
  Value AsideOf(std::size_t node) const;
  // The parameters (tensors) among the node's operands.
  std::vector<std::size_t> ParametersOf(std::size_t node) const;
  // Elements of a tensor at the graph's batch.
  std::int64_t Elements(std::size_t tensor) const;

 private:
  explicit Dataflow(const Graph& graph) : graph_(&graph) {}

  Status FindInputs();
  Status Classify(std::size_t node);
  Status CheckOperands(std::size_t node, std::size_t operands) const;
  Status CheckTerms(std::size_t node) const;
  void CountReaders();
  // Sets the value's elements to the tensor's.
  Status SetElements(std::size_t tensor, bool per_image, Value* value) const;
  bool IsPerImage(std::size_t tensor) const;

  const Graph* graph_;
  std::vector<Role> roles_;                             // of nodes
  std::vector<std::optional<std::size_t>> values_of_;   // of tensors
  std::vector<std::optional<std::size_t>> parameters_;  // of tensors
  std::vector<Value> values_;
  std::vector<std::size_t> outputs_;
};

// The model's inputs (tensors), ascending: floating, neither parameters nor
// computed by a node. O(tensors + nodes).
std::vector<std::size_t> InputsOf(const Graph& graph);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_TRAINING_DATAFLOW_H_
