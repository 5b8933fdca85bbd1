#include "base/training/build.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "base/training/dataflow.h"

namespace ucudnn {
namespace {

// Normalisations compute in float whatever the data type.
constexpr std::int64_t kParameterBytes = 4;
constexpr std::int64_t kLabelBytes = 4;
// Keeps sums and small multiples of sizes within 63 bits.
constexpr std::int64_t kMaxTotalBytes = std::int64_t{1} << 56;

// Where a value lies. An in-place activation makes a new value in the same
// block.
struct Place {
  std::size_t block = 0;
  std::size_t layer = 0;
  std::optional<std::size_t> gradient;  // its block, once something wrote it
};

// All parameters of one layer, or of several that share them.
struct Weights {
  std::size_t block = 0;
  std::optional<std::size_t> gradient;
  Bytes gradient_bytes;
  std::string name;                     // of the gradient's block
  std::vector<std::size_t> statistics;  // of normalisations
  std::size_t users = 0;                // whose gradients are still to come
};

class Builder {
 public:
  Builder(const Graph& graph, const Dataflow& flow,
          const TrainingOptions& options)
      : graph_(graph),
        flow_(flow),
        options_(options),
        places_(flow.values().size()) {
    result_.network = graph.name;
    result_.precision = options.precision;
    result_.batch = graph.batch;
  }

  Result<TrainingGraph> Build() && {
    AddInputs();
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (flow_.Computes(i)) Forward(i);
    }
    UCUDNN_RETURN_IF_ERROR(Loss());
    for (std::size_t i = graph_.nodes.size(); i-- > 0;) {
      if (flow_.Computes(i)) Backward(i);
    }
    for (Task& update : late_updates_) {
      result_.tasks.push_back(std::move(update));
    }
    UCUDNN_RETURN_IF_ERROR(CheckSizes());
    return std::move(result_);
  }

 private:
  // A node in the backward pass.
  struct Pass {
    std::size_t node;
    std::vector<std::size_t> inputs;  // values
    std::size_t output;               // value
    std::size_t gradient;             // block of the output's gradient
    std::size_t layer;
  };

  const Value& ValueOf(std::size_t value) const {
    return flow_.values()[value];
  }

  std::size_t BlockOf(std::size_t value) const { return places_[value].block; }

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

  // A block of what the value holds.
  std::size_t AddBlockOf(const Value& value, std::string name, BlockKind kind) {
    return AddBlock(std::move(name), kind, Data(value.elements),
                    Data(value.elements_per_image), false);
  }

  void AddInputs() {
    for (std::size_t i = 0; i < flow_.values().size(); ++i) {
      const Value& value = ValueOf(i);
      if (value.producer) continue;
      places_[i].block = AddBlockOf(value, value.name, BlockKind::kInput);
    }
  }

  // The node's weights, created by the first node that uses them.
  Weights& WeightsOf(std::size_t index) {
    const std::vector<std::size_t> parameters = flow_.ParametersOf(index);
    const auto [place, is_new] = weights_.try_emplace(parameters[0], Weights());
    Weights& weights = place->second;
    if (!is_new) return weights;
    const bool normalisation = flow_.RoleOf(index) == Role::kNormalisation;
    std::int64_t elements = 0;
    std::int64_t trained = 0;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      elements += flow_.Elements(parameters[i]);
      // Running mean and variance are not trained.
      if (!normalisation || i < 2) trained += flow_.Elements(parameters[i]);
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
    if (flow_.RoleOf(index) == Role::kConv) {
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
    } else if (flow_.RoleOf(index) == Role::kGemm) {
      const auto out_features =
          static_cast<double>(graph_.tensors[node.outputs[0]].shape.back());
      const auto weights =
          static_cast<double>(flow_.Elements(flow_.ParametersOf(index)[0]));
      work.operations_per_image =
          2.0 * weights *
          static_cast<double>(
              ValueOf(flow_.OutputOf(index)).elements_per_image) /
          out_features;
    }
    return work;
  }

  // The operand in whose block the node may compute; empty if there is none.
  std::optional<std::size_t> InPlaceOn(
      std::size_t index, const std::vector<std::size_t>& inputs) const {
    const bool fuses = options_.fusion == Fusion::kPaper;
    for (const std::size_t input : inputs) {
      const Value& value = ValueOf(input);
      if (value.readers != 1) continue;
      switch (flow_.RoleOf(index)) {
        case Role::kActivation:
          if (value.in_place_ok) return input;
          break;
        case Role::kNormalisation:
          if (fuses && value.producer &&
              flow_.RoleOf(*value.producer) == Role::kConv) {
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
    const Role role = flow_.RoleOf(index);
    const Node& node = graph_.nodes[index];
    const std::vector<std::size_t> inputs = flow_.OperandsOf(index);
    const Value& output = ValueOf(flow_.OutputOf(index));
    Place& place = places_[flow_.OutputOf(index)];
    std::vector<std::size_t> writes;
    if (const std::optional<std::size_t> shared = InPlaceOn(index, inputs)) {
      place = places_[*shared];
      writes.push_back(place.block);
    } else {
      for (const std::size_t value : flow_.OutputsOf(index)) {
        places_[value].block = AddBlockOf(ValueOf(value), ValueOf(value).name,
                                          BlockKind::kActivation);
        places_[value].layer = result_.layers.size();
        writes.push_back(places_[value].block);
      }
      result_.layers.push_back({node.name, node.op_type});
    }
    std::vector<std::size_t> reads;
    for (const std::size_t value : inputs) Put(&reads, BlockOf(value));
    if (flow_.HasWeights(index)) {
      Weights& weights = WeightsOf(index);
      ++weights.users;
      Put(&reads, weights.block);
    }
    if (role == Role::kNormalisation) {
      // Mean and 1 / sigma of each channel.
      const std::int64_t channels =
          flow_.Elements(flow_.ParametersOf(index)[0]);
      aside_[index] =
          AddBlock(node.name + ".S", BlockKind::kStatistics,
                   Bytes(2 * channels * kParameterBytes), Bytes(0), false);
      writes.push_back(aside_[index]);
      WeightsOf(index).statistics.push_back(aside_[index]);
    } else if (role == Role::kDropout) {
      aside_[index] = AddBlock(node.name + ".M", BlockKind::kMask, Bytes(0),
                               Bytes(output.elements_per_image), false);
      writes.push_back(aside_[index]);
    }
    const Value aside = flow_.AsideOf(index);
    if (aside.elements + aside.elements_per_image > 0) {
      aside_[index] = AddBlockOf(aside, node.name + ".M", BlockKind::kMask);
      writes.push_back(aside_[index]);
    }
    Task& task =
        AddTask(node.name + ".forward", TaskKind::kForward, place.layer);
    task.reads = std::move(reads);
    task.writes = std::move(writes);
    task.recomputable =
        role == Role::kNormalisation || aside_.count(index) == 0;
    task.work = WorkOf(index, ConvOp::kForward);
  }

  Status Loss() {
    std::vector<std::size_t> reads;
    std::vector<std::size_t> writes;
    std::int64_t labels = 0;
    bool trained = false;
    for (const std::size_t value : flow_.outputs()) {
      const Value& output = ValueOf(value);
      trained = trained || output.trained;
      const std::vector<std::int64_t>& shape =
          graph_.tensors[graph_.nodes[*output.producer].outputs[0]].shape;
      // A label for each element of one channel: one for a classifier, one per
      // pixel for a segmentation.
      labels += shape.size() > 1 && shape[1] > 0 &&
                        output.elements_per_image % shape[1] == 0
                    ? output.elements_per_image / shape[1]
                    : 1;
      Put(&reads, BlockOf(value));
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
    const std::size_t gradient =
        AddBlockOf(ValueOf(value), "d_" + result_.blocks[BlockOf(value)].name,
                   BlockKind::kGradient);
    places_[value].gradient = gradient;
    holders_[gradient] = {value};
    return gradient;
  }

  void ShareGradient(std::size_t value, std::size_t block) {
    places_[value].gradient = block;
    holders_[block].insert(value);
  }

  // `task` computes the gradient of `value`, or adds to it.
  void Contribute(std::size_t value, Task* task) {
    if (!ValueOf(value).trained) return;
    std::optional<std::size_t>& gradient = places_[value].gradient;
    if (gradient &&
        std::count(task->writes.begin(), task->writes.end(), *gradient) > 0) {
      return;  // an operand that appears twice
    }
    if (gradient) {
      const std::size_t old = *gradient;
      Put(&task->reads, old);
      if (holders_[old].size() > 1) {
        holders_[old].erase(value);
        gradient.reset();
      }
    }
    if (!gradient) NewGradient(value);
    Put(&task->writes, *gradient);
  }

  // The same, in the block of the output's gradient if nothing else needs it.
  void ContributeInPlace(std::size_t value, const Pass& pass, Task* task) {
    if (ValueOf(value).trained && !places_[value].gradient &&
        holders_[pass.gradient].size() == 1) {
      ShareGradient(value, pass.gradient);
      Put(&task->writes, pass.gradient);
    } else {
      Contribute(value, task);
    }
  }

  void Backward(std::size_t index) {
    const std::size_t output = flow_.OutputOf(index);
    const Place& place = places_[output];
    if (!ValueOf(output).trained || !place.gradient) return;
    const Pass pass = {index, flow_.OperandsOf(index), output, *place.gradient,
                       place.layer};
    switch (flow_.RoleOf(index)) {
      case Role::kConv:
      case Role::kGemm:
        BackwardOfWeighted(pass);
        break;
      case Role::kNormalisation:
        BackwardOfNormalisation(pass);
        break;
      case Role::kAdd:
        BackwardOfAdd(pass);
        break;
      case Role::kMul:
        BackwardOfMul(pass);
        break;
      default:
        BackwardOfOthers(pass);
        break;
    }
    for (const std::size_t value : flow_.OutputsOf(index)) {
      holders_[*places_[value].gradient].erase(value);
    }
  }

  void BackwardOfWeighted(const Pass& pass) {
    const std::string& name = graph_.nodes[pass.node].name;
    const std::size_t input = pass.inputs[0];
    Task& filter = AddTask(name + ".backward_filter", TaskKind::kBackwardFilter,
                           pass.layer);
    filter.reads = {BlockOf(input), pass.gradient};
    filter.work = WorkOf(pass.node, ConvOp::kBackwardFilter);
    AddWeightGradient(pass.node, &filter);
    if (ValueOf(input).trained) {
      Task& data =
          AddTask(name + ".backward_data", TaskKind::kBackwardData, pass.layer);
      data.reads = {pass.gradient, WeightsOf(pass.node).block};
      data.work = WorkOf(pass.node, ConvOp::kBackwardData);
      Contribute(input, &data);
    }
    Update(pass);
  }

  void BackwardOfNormalisation(const Pass& pass) {
    const std::size_t input = pass.inputs[0];
    Task& task = AddBackwardTask(pass);
    task.reads = {BlockOf(input), pass.gradient, aside_[pass.node],
                  WeightsOf(pass.node).block};
    // In a fused layer, the gradient shares the block of the output's gradient.
    if (BlockOf(input) == BlockOf(pass.output)) {
      ContributeInPlace(input, pass, &task);
    } else {
      Contribute(input, &task);
    }
    AddWeightGradient(pass.node, &task);
    Update(pass);
  }

  // The operands share the sum's gradient, except those whose gradient another
  // reader has written already: a task adds to these; and smaller ones, for
  // which a task adds up the gradients of the elements that they were added to.
  void BackwardOfAdd(const Pass& pass) {
    int sums = 0;
    for (const std::size_t input : pass.inputs) {
      if (!ValueOf(input).trained) continue;
      if (!places_[input].gradient && IsAsLarge(input, pass.output)) {
        ShareGradient(input, pass.gradient);
        continue;
      }
      const std::string suffix = sums++ == 0 ? "" : std::to_string(input);
      Task& task = AddBackwardTask(pass, suffix);
      task.reads = {pass.gradient};
      Contribute(input, &task);
    }
  }

  bool IsAsLarge(std::size_t a, std::size_t b) const {
    return ValueOf(a).elements == ValueOf(b).elements &&
           ValueOf(a).elements_per_image == ValueOf(b).elements_per_image;
  }

  // One operand's gradient needs the other operands.
  void BackwardOfMul(const Pass& pass) {
    Task& task = AddBackwardTask(pass);
    for (const std::size_t input : pass.inputs) {
      const auto is_other_trained = [&](std::size_t other) {
        return other != input && ValueOf(other).trained;
      };
      const bool twice =
          std::count(pass.inputs.begin(), pass.inputs.end(), input) > 1;
      if (twice || std::any_of(pass.inputs.begin(), pass.inputs.end(),
                               is_other_trained)) {
        Put(&task.reads, BlockOf(input));
      }
    }
    if (aside_.count(pass.node) > 0) Put(&task.reads, aside_[pass.node]);
    Put(&task.reads, pass.gradient);
    for (const std::size_t input : pass.inputs) Contribute(input, &task);
  }

  // Operators without weights whose operands each get a gradient of their own.
  void BackwardOfOthers(const Pass& pass) {
    const Role role = flow_.RoleOf(pass.node);
    Task& task = AddBackwardTask(pass);
    if (role == Role::kActivation || role == Role::kActivationOfInput) {
      task.reads = {
          BlockOf(role == Role::kActivation ? pass.output : pass.inputs[0]),
          pass.gradient};
      ContributeInPlace(pass.inputs[0], pass, &task);
      return;
    }
    if (role == Role::kPoolWithOutput) {
      task.reads = {BlockOf(pass.inputs[0]), BlockOf(pass.output),
                    pass.gradient};
    } else if (role == Role::kDropout) {
      task.reads = {pass.gradient, aside_[pass.node]};
    } else {
      for (const std::size_t value : flow_.OutputsOf(pass.node)) {
        Put(&task.reads, *places_[value].gradient);
      }
    }
    for (const std::size_t input : pass.inputs) Contribute(input, &task);
  }

  Task& AddBackwardTask(const Pass& pass, std::string_view suffix = "") {
    return AddTask(
        fmt::format("{}.backward{}", graph_.nodes[pass.node].name, suffix),
        TaskKind::kBackward, pass.layer);
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

  // Adds the update of the node's weights after the last of their gradients.
  void Update(const Pass& pass) {
    Weights& weights = WeightsOf(pass.node);
    if (--weights.users > 0) return;
    Task task;
    task.name = graph_.nodes[pass.node].name + ".update";
    task.kind = TaskKind::kUpdate;
    task.layer = pass.layer;
    task.reads = {*weights.gradient, weights.block};
    task.writes = {weights.block};
    if (options_.running_statistics) {
      std::ranges::copy(weights.statistics, std::back_inserter(task.reads));
    }
    if (options_.momentum) {
      const std::size_t momentum =
          AddBlock(graph_.nodes[pass.node].name + ".V", BlockKind::kMomentum,
                   weights.gradient_bytes, Bytes(0), true);
      task.reads.push_back(momentum);
      task.writes.push_back(momentum);
    }
    (options_.updates_at_end ? late_updates_ : result_.tasks)
        .push_back(std::move(task));
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
  const Dataflow& flow_;
  const TrainingOptions options_;
  TrainingGraph result_;
  std::vector<Place> places_;                 // of values
  std::map<std::size_t, std::size_t> aside_;  // a node's S or M
  std::map<std::size_t, Weights> weights_;    // by the first parameter
  std::vector<Task> late_updates_;
  // For each gradient block, the values whose gradient it holds, until their
  // producers have read it.
  std::map<std::size_t, std::set<std::size_t>> holders_;
  std::set<std::string> block_names_;
};

}  // namespace

Result<TrainingGraph> BuildTrainingGraph(const Graph& graph,
                                         const TrainingOptions& options) {
  UCUDNN_ASSIGN_OR_RETURN(const Dataflow flow, Dataflow::Of(graph));
  return Builder(graph, flow, options).Build();
}

}  // namespace ucudnn
