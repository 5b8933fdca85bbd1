#include "base/training/build.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"

namespace ucudnn {
namespace {

// Normalisations compute in float whatever the data type.
constexpr std::int64_t kParameterBytes = 4;
constexpr std::int64_t kLabelBytes = 4;
// Keeps sums and small multiples of sizes within 63 bits.
constexpr std::int64_t kMaxTotalBytes = std::int64_t{1} << 56;

// How a node takes part in training.
enum class Role {
  kNone,  // computes shapes or constants
  kSameBlock,
  kConv,
  kGemm,
  kActivation,
  kNormalisation,
  kPoolWithOutput,  // its backward pass needs X and Y
  kLinear,          // its backward pass needs neither
  kDropout,
  kAdd,
  kConcat,
};

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
    OperatorRole{"Tanh", Role::kActivation},
    OperatorRole{"BatchNormalization", Role::kNormalisation},
    OperatorRole{"MaxPool", Role::kPoolWithOutput},
    OperatorRole{"LRN", Role::kPoolWithOutput},
    OperatorRole{"AveragePool", Role::kLinear},
    OperatorRole{"GlobalAveragePool", Role::kLinear},
    OperatorRole{"Resize", Role::kLinear},
    OperatorRole{"Dropout", Role::kDropout},
    OperatorRole{"Add", Role::kAdd},
    OperatorRole{"Concat", Role::kConcat},
    OperatorRole{"Flatten", Role::kSameBlock},
    OperatorRole{"Identity", Role::kSameBlock},
    OperatorRole{"Reshape", Role::kSameBlock},
    OperatorRole{"Squeeze", Role::kSameBlock},
    OperatorRole{"Unsqueeze", Role::kSameBlock},
    OperatorRole{"Cast", Role::kSameBlock},
};

// The contents of one tensor, or of several that view the same memory in
// different shapes. An in-place activation makes a new value in the same block.
struct Value {
  std::string name;  // of the block it would have
  std::int64_t elements_per_image = 0;
  std::size_t readers = 0;  // tasks
  bool trained = false;     // depends on a trained parameter
  bool in_place_ok = true;  // its producer does not need it again
  std::optional<std::size_t> block;
  std::size_t layer = 0;
  std::optional<std::size_t> gradient;  // its block, once something wrote it
  std::optional<std::size_t> producer;  // node
};

// All parameters of one layer, or of several that share them.
struct Weights {
  std::size_t block = 0;
  std::optional<std::size_t> gradient;
  Bytes gradient_bytes;
  std::string name;       // of the gradient's block
  std::size_t users = 0;  // whose gradients are still to come
};

class Builder {
 public:
  Builder(const Graph& graph, const TrainingOptions& options)
      : graph_(graph), options_(options) {
    result_.network = graph.name;
    result_.precision = options.precision;
    result_.batch = graph.batch;
  }

  Result<TrainingGraph> Build() {
    UCUDNN_RETURN_IF_ERROR(FindInputs());
    roles_.resize(graph_.nodes.size(), Role::kNone);
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (Status status = Classify(i); !status) {
        return Within(Shown(i), std::move(status).error());
      }
    }
    CountReaders();
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) Forward(i);
    UCUDNN_RETURN_IF_ERROR(Loss());
    for (std::size_t i = graph_.nodes.size(); i-- > 0;) Backward(i);
    UCUDNN_RETURN_IF_ERROR(CheckSizes());
    return std::move(result_);
  }

 private:
  std::string Shown(std::size_t node) const {
    return fmt::format("node '{}' ({})", Excerpt(graph_.nodes[node].name, 200),
                       Excerpt(graph_.nodes[node].op_type));
  }

  std::int64_t Elements(std::size_t tensor) const {
    const Tensor& t = graph_.tensors[tensor];
    return t.size().count() / t.element_bytes;
  }

  Result<std::int64_t> ElementsPerImage(std::size_t tensor) const {
    const std::int64_t elements = Elements(tensor);
    if (elements <= 0 || elements % graph_.batch.count() != 0) {
      return Fail(Code::kInvalidArgument,
                  "tensor '{}' has {} elements, which {} images do not share "
                  "evenly",
                  Excerpt(graph_.tensors[tensor].name), elements,
                  graph_.batch.count());
    }
    return elements / graph_.batch.count();
  }

  // Gives every data input of the model a block.
  Status FindInputs() {
    values_of_.resize(graph_.tensors.size());
    parameters_.resize(graph_.tensors.size());
    std::vector<bool> computed(graph_.tensors.size());
    for (const Node& node : graph_.nodes) {
      for (const std::size_t tensor : node.outputs) computed[tensor] = true;
    }
    std::vector<std::size_t> inputs;
    for (std::size_t i = 0; i < graph_.tensors.size(); ++i) {
      const Tensor& tensor = graph_.tensors[i];
      if (computed[i]) continue;
      if (tensor.parameter) {
        parameters_[i] = i;
      } else if (tensor.floating) {
        inputs.push_back(i);
      }
    }
    for (const std::size_t i : inputs) {
      UCUDNN_ASSIGN_OR_RETURN(const std::int64_t elements, ElementsPerImage(i));
      Value value;
      value.name = inputs.size() == 1 ? "input" : graph_.tensors[i].name;
      value.elements_per_image = elements;
      value.in_place_ok = false;
      value.block = AddBlock(value.name, BlockKind::kInput, Bytes(0),
                             Data(elements), false);
      values_of_[i] = values_.size();
      values_.push_back(std::move(value));
    }
    return {};
  }

  // What the node does, and the value that it computes.
  Status Classify(std::size_t index) {
    const Node& node = graph_.nodes[index];
    std::vector<std::size_t> data;  // values
    for (const std::size_t tensor : node.inputs) {
      if (values_of_[tensor]) data.push_back(*values_of_[tensor]);
    }
    const bool floating =
        !node.outputs.empty() && graph_.tensors[node.outputs[0]].floating;
    const auto* known = std::find_if(
        kRoles.begin(), kRoles.end(),
        [&](const OperatorRole& r) { return r.op_type == node.op_type; });
    if (data.empty() || !floating) {
      // Shapes and constants; a view of a parameter is that parameter.
      if (known != kRoles.end() && known->role == Role::kSameBlock &&
          !node.inputs.empty() && !node.outputs.empty()) {
        parameters_[node.outputs[0]] = parameters_[node.inputs[0]];
      }
      return {};
    }
    if (known == kRoles.end()) {
      return Fail(
          Code::kUnimplemented,
          "memory plans do not support this operator; see docs/memory.md "
          "for those that they support");
    }
    roles_[index] = known->role;
    if (known->role == Role::kSameBlock) {
      values_of_[node.outputs[0]] = data[0];
      return {};
    }
    UCUDNN_RETURN_IF_ERROR(CheckOperands(index, data.size()));
    UCUDNN_ASSIGN_OR_RETURN(const std::int64_t elements,
                            ElementsPerImage(node.outputs[0]));
    Value value;
    value.name = node.name + ".Y";
    value.elements_per_image = elements;
    value.producer = index;
    value.trained = HasWeights(index);
    for (const std::size_t input : data) {
      value.trained = value.trained || values_[input].trained;
    }
    switch (known->role) {
      case Role::kActivation:
      case Role::kPoolWithOutput:
        value.in_place_ok = false;
        break;
      default:
        break;
    }
    values_of_[node.outputs[0]] = values_.size();
    values_.push_back(std::move(value));
    return {};
  }

  Status CheckOperands(std::size_t index, std::size_t data) const {
    const Node& node = graph_.nodes[index];
    const Role role = roles_[index];
    const bool many = role == Role::kAdd || role == Role::kConcat;
    if (!many && data != 1) {
      return Fail(Code::kUnimplemented,
                  "{} of its operands are computed; one is accepted", data);
    }
    if (many && data != node.inputs.size()) {
      return Fail(Code::kUnimplemented,
                  "one of its operands is a parameter or a constant; computed "
                  "tensors are accepted");
    }
    if (role == Role::kAdd) {
      for (const std::size_t input : node.inputs) {
        if (Elements(input) != Elements(node.outputs[0])) {
          return Fail(Code::kUnimplemented,
                      "an operand is smaller than the sum; operands of the "
                      "same shape are accepted");
        }
      }
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
                  "{} of its operands are parameters of the model; {} or more "
                  "are accepted",
                  ParametersOf(index).size(), least);
    }
    return {};
  }

  bool HasWeights(std::size_t node) const {
    return roles_[node] == Role::kConv || roles_[node] == Role::kGemm ||
           roles_[node] == Role::kNormalisation;
  }

  // The parameters among the node's operands.
  std::vector<std::size_t> ParametersOf(std::size_t index) const {
    const Node& node = graph_.nodes[index];
    std::vector<std::size_t> list;
    for (const std::size_t tensor : node.inputs) {
      if (parameters_[tensor]) list.push_back(*parameters_[tensor]);
    }
    return list;
  }

  void CountReaders() {
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (roles_[i] == Role::kNone || roles_[i] == Role::kSameBlock) continue;
      for (const std::size_t tensor : graph_.nodes[i].inputs) {
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

  Bytes Data(std::int64_t elements) const {
    return Bytes(elements * ElementBytes(options_.precision));
  }

  std::size_t AddBlock(std::string name, BlockKind kind, Bytes bytes,
                       Bytes bytes_per_image, bool persistent) {
    if (!block_names_.insert(name).second) {
      int copy = 2;
      while (!block_names_.insert(fmt::format("{}.{}", name, copy)).second) {
        ++copy;
      }
      name = fmt::format("{}.{}", name, copy);
    }
    result_.blocks.push_back(
        {std::move(name), kind, bytes, bytes_per_image, persistent});
    return result_.blocks.size() - 1;
  }

  Task& AddTask(const std::string& name, TaskKind kind, std::size_t layer) {
    Task task;
    task.name = name;
    task.kind = kind;
    task.layer = layer;
    result_.tasks.push_back(std::move(task));
    return result_.tasks.back();
  }

  static void Put(std::vector<std::size_t>* list, std::size_t block) {
    if (std::find(list->begin(), list->end(), block) == list->end()) {
      list->push_back(block);
    }
  }

  std::vector<std::size_t> DataOf(std::size_t index) const {
    std::vector<std::size_t> data;
    for (const std::size_t tensor : graph_.nodes[index].inputs) {
      if (values_of_[tensor]) data.push_back(*values_of_[tensor]);
    }
    return data;
  }

  std::size_t OutputOf(std::size_t index) const {
    return *values_of_[graph_.nodes[index].outputs[0]];
  }

  // The node's weights, created by the first node that uses them.
  Weights& WeightsOf(std::size_t index) {
    const std::vector<std::size_t> parameters = ParametersOf(index);
    const auto [place, is_new] = weights_.try_emplace(parameters[0], Weights());
    Weights& weights = place->second;
    if (!is_new) return weights;
    const bool normalisation = roles_[index] == Role::kNormalisation;
    std::int64_t elements = 0;
    std::int64_t trained = 0;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      elements += Elements(parameters[i]);
      // Running mean and variance are not trained.
      if (!normalisation || i < 2) trained += Elements(parameters[i]);
    }
    const std::int64_t size =
        normalisation ? kParameterBytes : ElementBytes(options_.precision);
    const std::string& name = graph_.nodes[index].name;
    weights.block = AddBlock(name + ".W", BlockKind::kWeight,
                             Bytes(elements * size), Bytes(0), true);
    weights.gradient_bytes = Bytes(trained * size);
    weights.name = name + ".dW";
    return weights;
  }

  TaskWork WorkOf(std::size_t index, ConvOp op) const {
    const Node& node = graph_.nodes[index];
    TaskWork work;
    if (roles_[index] == Role::kConv) {
      ConvProblem problem;
      problem.op = op;
      if (node.convolution->transposed && op != ConvOp::kBackwardFilter) {
        problem.op =
            op == ConvOp::kForward ? ConvOp::kBackwardData : ConvOp::kForward;
      }
      problem.geometry = node.convolution->geometry;
      problem.precision = options_.precision;
      work.operations_per_image =
          2.0 * static_cast<double>(problem.geometry.multiply_adds());
      work.conv = problem;
    } else if (roles_[index] == Role::kGemm) {
      const auto out_features =
          static_cast<double>(graph_.tensors[node.outputs[0]].shape.back());
      const auto weights =
          static_cast<double>(Elements(ParametersOf(index)[0]));
      work.operations_per_image =
          2.0 * weights *
          static_cast<double>(values_[OutputOf(index)].elements_per_image) /
          out_features;
    }
    return work;
  }

  // The operand in whose block the node may compute; empty if there is none.
  std::optional<std::size_t> InPlaceOn(
      std::size_t index, const std::vector<std::size_t>& inputs) const {
    const bool fuses = options_.fusion == Fusion::kPaper;
    for (const std::size_t input : inputs) {
      const Value& value = values_[input];
      if (value.readers != 1) continue;
      switch (roles_[index]) {
        case Role::kActivation:
          if (value.in_place_ok) return input;
          break;
        case Role::kNormalisation:
          if (fuses && value.producer &&
              roles_[*value.producer] == Role::kConv) {
            return input;
          }
          break;
        case Role::kAdd:
          if (fuses && value.in_place_ok) return input;
          break;
        default:
          return std::nullopt;
      }
    }
    return std::nullopt;
  }

  void Forward(std::size_t index) {
    const Role role = roles_[index];
    if (role == Role::kNone || role == Role::kSameBlock) return;
    const Node& node = graph_.nodes[index];
    const std::vector<std::size_t> inputs = DataOf(index);
    Value& output = values_[OutputOf(index)];
    const std::optional<std::size_t> shared = InPlaceOn(index, inputs);
    if (shared) {
      output.block = values_[*shared].block;
      output.layer = values_[*shared].layer;
    } else {
      output.block = AddBlock(output.name, BlockKind::kActivation, Bytes(0),
                              Data(output.elements_per_image), false);
      output.layer = result_.layers.size();
      result_.layers.push_back({node.name, node.op_type});
    }
    std::vector<std::size_t> reads;
    for (const std::size_t value : inputs) Put(&reads, *values_[value].block);
    std::vector<std::size_t> writes = {*output.block};
    if (HasWeights(index)) {
      Weights& weights = WeightsOf(index);
      ++weights.users;
      Put(&reads, weights.block);
    }
    if (role == Role::kNormalisation) {
      // Mean and 1 / sigma of each channel.
      const std::int64_t channels = Elements(ParametersOf(index)[0]);
      aside_[index] =
          AddBlock(node.name + ".S", BlockKind::kStatistics,
                   Bytes(2 * channels * kParameterBytes), Bytes(0), false);
      writes.push_back(aside_[index]);
    } else if (role == Role::kDropout) {
      aside_[index] = AddBlock(node.name + ".M", BlockKind::kMask, Bytes(0),
                               Bytes(output.elements_per_image), false);
      writes.push_back(aside_[index]);
    }
    Task& task =
        AddTask(node.name + ".forward", TaskKind::kForward, output.layer);
    task.reads = std::move(reads);
    task.writes = std::move(writes);
    task.recomputable = role != Role::kDropout;
    task.work = WorkOf(index, ConvOp::kForward);
  }

  Status Loss() {
    std::vector<std::size_t> reads;
    std::vector<std::size_t> writes;
    std::int64_t labels = 0;
    bool trained = false;
    for (const std::size_t value : outputs_) {
      Value& output = values_[value];
      trained = trained || output.trained;
      const std::vector<std::int64_t>& shape =
          graph_.tensors[graph_.nodes[*output.producer].outputs[0]].shape;
      // A label for each element of one channel: one for a classifier, one per
      // pixel for a segmentation.
      labels += shape.size() > 1 && shape[1] > 0 &&
                        output.elements_per_image % shape[1] == 0
                    ? output.elements_per_image / shape[1]
                    : 1;
      Put(&reads, *output.block);
      if (output.trained) writes.push_back(NewGradient(value));
    }
    if (!trained) {
      return Fail(Code::kInvalidArgument,
                  "{}: none of its {} nodes has parameters that training "
                  "changes",
                  Excerpt(graph_.name, 200), graph_.nodes.size());
    }
    reads.push_back(AddBlock("labels", BlockKind::kInput, Bytes(0),
                             Bytes(labels * kLabelBytes), false));
    result_.layers.push_back({"loss", "loss"});
    Task& task = AddTask("loss", TaskKind::kLoss, result_.layers.size() - 1);
    task.reads = std::move(reads);
    task.writes = std::move(writes);
    return {};
  }

  // A new block for the value's gradient.
  std::size_t NewGradient(std::size_t value) {
    Value& v = values_[value];
    v.gradient =
        AddBlock("d_" + result_.blocks[*v.block].name, BlockKind::kGradient,
                 Bytes(0), Data(v.elements_per_image), false);
    holders_[*v.gradient] = {value};
    return *v.gradient;
  }

  void ShareGradient(std::size_t value, std::size_t block) {
    values_[value].gradient = block;
    holders_[block].insert(value);
  }

  // `task` computes the gradient of `value`, or adds to it.
  void Contribute(std::size_t value, Task* task) {
    Value& v = values_[value];
    if (!v.trained) return;
    if (v.gradient &&
        std::count(task->writes.begin(), task->writes.end(), *v.gradient) > 0) {
      return;  // an operand that appears twice
    }
    if (v.gradient) {
      const std::size_t old = *v.gradient;
      Put(&task->reads, old);
      if (holders_[old].size() > 1) {
        holders_[old].erase(value);
        v.gradient.reset();
      }
    }
    if (!v.gradient) NewGradient(value);
    Put(&task->writes, *v.gradient);
  }

  void Backward(std::size_t index) {
    const Role role = roles_[index];
    if (role == Role::kNone || role == Role::kSameBlock) return;
    const Node& node = graph_.nodes[index];
    const std::size_t out = OutputOf(index);
    if (!values_[out].trained || !values_[out].gradient) return;
    const std::vector<std::size_t> inputs = DataOf(index);
    const std::size_t x = inputs[0];
    const std::size_t y_block = *values_[out].block;
    const std::size_t dy = *values_[out].gradient;
    const std::size_t layer = values_[out].layer;
    switch (role) {
      case Role::kConv:
      case Role::kGemm: {
        Task& filter = AddTask(node.name + ".backward_filter",
                               TaskKind::kBackwardFilter, layer);
        filter.reads = {*values_[x].block, dy};
        filter.work = WorkOf(index, ConvOp::kBackwardFilter);
        AddWeightGradient(index, &filter);
        if (values_[x].trained) {
          Task& data = AddTask(node.name + ".backward_data",
                               TaskKind::kBackwardData, layer);
          data.reads = {dy, WeightsOf(index).block};
          data.work = WorkOf(index, ConvOp::kBackwardData);
          Contribute(x, &data);
        }
        Update(index, layer);
        break;
      }
      case Role::kNormalisation: {
        Task& task =
            AddTask(node.name + ".backward", TaskKind::kBackward, layer);
        task.reads = {*values_[x].block, dy, aside_[index],
                      WeightsOf(index).block};
        // In a fused layer, the gradient shares the block of the output's
        // gradient.
        if (values_[x].block == values_[out].block) {
          ContributeInPlace(x, out, &task);
        } else {
          Contribute(x, &task);
        }
        AddWeightGradient(index, &task);
        Update(index, layer);
        break;
      }
      case Role::kActivation: {
        Task& task =
            AddTask(node.name + ".backward", TaskKind::kBackward, layer);
        task.reads = {y_block, dy};
        ContributeInPlace(x, out, &task);
        break;
      }
      case Role::kPoolWithOutput:
      case Role::kLinear:
      case Role::kDropout: {
        Task& task =
            AddTask(node.name + ".backward", TaskKind::kBackward, layer);
        if (role == Role::kPoolWithOutput) {
          task.reads = {*values_[x].block, y_block, dy};
        } else if (role == Role::kDropout) {
          task.reads = {dy, aside_[index]};
        } else {
          task.reads = {dy};
        }
        Contribute(x, &task);
        break;
      }
      case Role::kConcat: {
        Task& task =
            AddTask(node.name + ".backward", TaskKind::kBackward, layer);
        task.reads = {dy};
        for (const std::size_t input : inputs) Contribute(input, &task);
        break;
      }
      case Role::kAdd:
        for (const std::size_t input : inputs) {
          if (!values_[input].trained) continue;
          if (!values_[input].gradient) {
            ShareGradient(input, dy);
            continue;
          }
          // Another reader wrote the gradient first.
          Task& task = AddTask(
              fmt::format("{}.backward{}", node.name,
                          sums_[index]++ == 0 ? "" : std::to_string(input)),
              TaskKind::kBackward, layer);
          task.reads = {dy};
          Contribute(input, &task);
        }
        break;
      case Role::kNone:
      case Role::kSameBlock:
        break;
    }
    holders_[dy].erase(out);
  }

  // The same as Contribute, in the block of `out`'s gradient if nothing else
  // needs it.
  void ContributeInPlace(std::size_t value, std::size_t out, Task* task) {
    const std::size_t dy = *values_[out].gradient;
    if (values_[value].trained && !values_[value].gradient &&
        holders_[dy].size() == 1) {
      ShareGradient(value, dy);
      Put(&task->writes, dy);
    } else {
      Contribute(value, task);
    }
  }

  void AddWeightGradient(std::size_t index, Task* task) {
    Weights& weights = WeightsOf(index);
    if (weights.gradient) {
      Put(&task->reads, *weights.gradient);
    } else {
      weights.gradient = AddBlock(weights.name, BlockKind::kWeightGradient,
                                  weights.gradient_bytes, Bytes(0), false);
    }
    Put(&task->writes, *weights.gradient);
  }

  void Update(std::size_t index, std::size_t layer) {
    Weights& weights = WeightsOf(index);
    if (--weights.users > 0) return;
    Task& task =
        AddTask(graph_.nodes[index].name + ".update", TaskKind::kUpdate, layer);
    task.reads = {*weights.gradient, weights.block};
    task.writes = {weights.block};
  }

  Status CheckSizes() const {
    double total = 0;
    for (const MemoryBlock& block : result_.blocks) {
      total += static_cast<double>(block.bytes.count()) +
               static_cast<double>(block.bytes_per_image.count()) *
                   static_cast<double>(graph_.batch.count());
    }
    if (total > static_cast<double>(kMaxTotalBytes)) {
      return Fail(Code::kInvalidArgument,
                  "{}: training it at batch {} takes {:.3g} bytes; up to 2^56 "
                  "are accepted",
                  Excerpt(graph_.name, 200), graph_.batch.count(), total);
    }
    return {};
  }

  const Graph& graph_;
  const TrainingOptions options_;
  TrainingGraph result_;
  std::vector<Role> roles_;                             // of nodes
  std::vector<std::optional<std::size_t>> values_of_;   // of tensors
  std::vector<std::optional<std::size_t>> parameters_;  // of tensors
  std::vector<Value> values_;
  std::vector<std::size_t> outputs_;          // values
  std::map<std::size_t, std::size_t> aside_;  // a node's S or M
  std::map<std::size_t, int> sums_;           // tasks of an Add
  std::map<std::size_t, Weights> weights_;    // by the first parameter
  // For each gradient block, the values whose gradient it holds, until their
  // producers have read it.
  std::map<std::size_t, std::set<std::size_t>> holders_;
  std::set<std::string> block_names_;
};

}  // namespace

Result<TrainingGraph> BuildTrainingGraph(const Graph& graph,
                                         const TrainingOptions& options) {
  return Builder(graph, options).Build();
}

Result<Graph> ChainOf(const Network& network, BatchSize batch) {
  Graph graph;
  graph.name = network.name;
  graph.batch = batch;
  const auto tensor = [&](std::string name, std::vector<std::int64_t> shape) {
    Tensor t;
    t.name = std::move(name);
    t.shape = std::move(shape);
    graph.tensors.push_back(std::move(t));
    return graph.tensors.size() - 1;
  };
  const auto node = [&](std::string name, std::string op_type,
                        std::vector<std::size_t> inputs, std::size_t output) {
    Node n;
    n.name = std::move(name);
    n.op_type = std::move(op_type);
    n.inputs = std::move(inputs);
    n.outputs = {output};
    graph.nodes.push_back(std::move(n));
  };
  std::optional<std::size_t> last;  // the previous layer's output
  std::int64_t channels = 0;
  Spatial extent{};
  for (std::size_t i = 0; i < network.layers.size(); ++i) {
    const ConvLayer& layer = network.layers[i];
    const ConvGeometry& g = layer.geometry;
    const std::int64_t in = layer.transposed ? g.filters : g.channels;
    const std::int64_t out = layer.transposed ? g.channels : g.filters;
    const Spatial in_extent = layer.transposed ? g.output() : g.input;
    const Spatial out_extent = layer.transposed ? g.input : g.output();
    const auto shape = [&](std::int64_t c, const Spatial& s) {
      std::vector<std::int64_t> result = {batch.count(), c};
      result.insert(result.end(), s.begin() + (3 - g.spatial_dims), s.end());
      return result;
    };
    if (!last) {
      last = tensor("input", shape(in, in_extent));
    } else {
      bool smaller = false;
      bool larger = false;
      for (std::size_t axis = 0; axis < 3; ++axis) {
        smaller = smaller || in_extent[axis] < extent[axis];
        larger = larger || in_extent[axis] > extent[axis];
      }
      if (in != channels || larger) {
        return Fail(Code::kInvalidArgument,
                    "row {} ('{}') reads {} channels of {}x{}x{}, but the row "
                    "before it gives {} of {}x{}x{}; as CSV a chain of "
                    "convolutions is accepted, and networks with branches as "
                    "ONNX models",
                    i + 1, Excerpt(layer.name), in, in_extent[0], in_extent[1],
                    in_extent[2], channels, extent[0], extent[1], extent[2]);
      }
      if (smaller) {
        const std::size_t pooled =
            tensor(layer.name + ".pooled", shape(in, in_extent));
        node(layer.name + ".pool", "MaxPool", {*last}, pooled);
        // The window that reads the whole input without padding.
        std::array<Window, 3> windows;
        for (std::size_t axis = 0; axis < 3; ++axis) {
          windows[axis].stride = extent[axis] / in_extent[axis];
          windows[axis].extent =
              extent[axis] - (in_extent[axis] - 1) * windows[axis].stride;
        }
        graph.nodes.back().pooling = windows;
        last = pooled;
      }
    }
    std::vector<std::int64_t> filter = {g.filters, g.channels / g.groups};
    filter.insert(filter.end(), g.filter.begin() + (3 - g.spatial_dims),
                  g.filter.end());
    const std::size_t weight = tensor(layer.name + ".weight", filter);
    graph.tensors[weight].parameter = graph.tensors[weight].trained = true;
    const std::size_t y = tensor(layer.name, shape(out, out_extent));
    node(layer.name, layer.transposed ? "ConvTranspose" : "Conv",
         {*last, weight}, y);
    graph.nodes.back().convolution = {g, layer.transposed};
    const std::size_t relu =
        tensor(layer.name + ".relu", shape(out, out_extent));
    node(layer.name + ".relu", "Relu", {y}, relu);
    last = relu;
    channels = out;
    extent = out_extent;
  }
  return graph;
}

}  // namespace ucudnn
