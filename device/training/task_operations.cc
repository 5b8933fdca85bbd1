#include "device/training/task_operations.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "base/training/dataflow.h"
#include "device/training/task_parts.h"

namespace ucudnn {
namespace {

constexpr std::string_view kAccepted =
    "Conv, ConvTranspose, Gemm, Relu, Sigmoid, HardSigmoid, Swish, HardSwish, "
    "MaxPool, AveragePool, GlobalAveragePool, BatchNormalization, LRN, Resize, "
    "Add, Mul, Concat, Split, Dropout and the padding of convolutions";

class Binder {
 public:
  Binder(const Graph& graph, const TrainingGraph& training,
         const Dataflow& flow)
      : graph_(graph), training_(training), flow_(flow) {
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      nodes_.emplace(graph.nodes[i].name, i);
    }
  }

  Result<std::vector<TaskOperation>> Bind() const {
    std::vector<TaskOperation> operations;
    for (const Task& task : training_.tasks) {
      auto operation = Of(task);
      if (!operation) {
        return Within(fmt::format("task '{}'", Excerpt(task.name, 200)),
                      std::move(operation).error());
      }
      operations.push_back(*std::move(operation));
    }
    return operations;
  }

 private:
  static Result<ImageExtent> ExtentOf(const Tensor& tensor) {
    const std::size_t dims = tensor.shape.size();
    if (dims >= 2 && dims <= 5) return ExtentOfImage(tensor);
    return Fail(Code::kUnimplemented,
                "tensor '{}' has {} dimensions; 2 to 5 are accepted",
                Excerpt(tensor.name), dims);
  }

  Result<TaskOperation> Of(const Task& task) const {
    TaskOperation operation;
    operation.kind = task.kind;
    SetBlocks(task, &operation);
    if (task.kind == TaskKind::kLoss) {
      UCUDNN_RETURN_IF_ERROR(SetLoss(&operation));
      return operation;
    }
    const auto node = nodes_.find(NodeOf(task));
    if (node == nodes_.end()) {
      return Fail(Code::kInvalidArgument, "the model has no such node");
    }
    UCUDNN_RETURN_IF_ERROR(SetNode(node->second, task, &operation));
    return operation;
  }

  // By the kinds of blocks and the order of base/training/build.h: x before y,
  // dy before the old dx.
  void SetBlocks(const Task& task, TaskOperation* operation) const {
    for (const auto* blocks : {&task.reads, &task.writes}) {
      const bool reads = blocks == &task.reads;
      for (const std::size_t block : *blocks) {
        switch (training_.blocks[block].kind) {
          case BlockKind::kInput:
            if (task.kind == TaskKind::kLoss) {
              operation->labels = block;
            } else {
              operation->x.push_back(block);
            }
            break;
          case BlockKind::kActivation:
            if (reads) {
              operation->x.push_back(block);
            } else {
              operation->y = block;
            }
            break;
          case BlockKind::kGradient:
            (!reads          ? operation->dx
             : operation->dy ? operation->old
                             : operation->dy) = block;
            break;
          case BlockKind::kWeight:
            operation->w = block;
            break;
          case BlockKind::kWeightGradient:
            operation->dw = block;
            break;
          case BlockKind::kMomentum:
            operation->v = block;
            break;
          case BlockKind::kStatistics:
            operation->statistics.push_back({block, PixelsOf(block)});
            break;
          case BlockKind::kMask:
            operation->mask = block;
            break;
        }
      }
    }
  }

  // Of an image of the tensor that a block of statistics is of.
  std::int64_t PixelsOf(std::size_t block) const {
    for (const Task& task : training_.tasks) {
      if (task.kind != TaskKind::kForward ||
          std::ranges::find(task.writes, block) == task.writes.end()) {
        continue;
      }
      const Node& node = graph_.nodes[nodes_.at(NodeOf(task))];
      const std::vector<std::int64_t>& shape =
          graph_.tensors[node.outputs[0]].shape;
      return std::accumulate(shape.begin() + 2, shape.end(), std::int64_t{1},
                             std::multiplies<>());
    }
    return 0;
  }

  Status SetLoss(TaskOperation* operation) const {
    if (flow_.outputs().size() != 1 || !operation->dx) {
      std::vector<std::string> names;
      for (const std::size_t output : flow_.outputs()) {
        const Node& node = graph_.nodes[*flow_.values()[output].producer];
        names.push_back(Excerpt(graph_.tensors[node.outputs[0]].name));
      }
      return Fail(Code::kUnimplemented,
                  "the model computes {}; one output, which depends on trained "
                  "parameters, is accepted",
                  fmt::join(names, " and "));
    }
    const Value& value = flow_.values()[flow_.outputs()[0]];
    operation->what = TaskOperator::kLoss;
    const Node& node = graph_.nodes[*value.producer];
    UCUDNN_ASSIGN_OR_RETURN(operation->input,
                            ExtentOf(graph_.tensors[node.outputs[0]]));
    return {};
  }

  Status SetNode(std::size_t index, const Task& task,
                 TaskOperation* operation) const {
    const Node& node = graph_.nodes[index];
    const Role role = flow_.RoleOf(index);
    if (flow_.HasWeights(index)) SetWeights(index, operation);
    if (role == Role::kNormalisation) {
      UCUDNN_RETURN_IF_ERROR(SetNormalisation(node, operation));
    }
    if (IsUpdate(task.kind)) {
      operation->what = TaskOperator::kUpdate;
      return {};
    }
    if (role == Role::kConv) {
      operation->conv = task.work.conv;
      operation->transposed = node.convolution->transposed;
      return SetConvolution(operation);
    }
    if (role == Role::kGemm) {
      UCUDNN_ASSIGN_OR_RETURN(operation->conv, Connected(index, task.kind));
      return SetConvolution(operation);
    }
    UCUDNN_ASSIGN_OR_RETURN(operation->input,
                            ExtentOf(graph_.tensors[node.inputs[0]]));
    UCUDNN_ASSIGN_OR_RETURN(operation->output,
                            ExtentOf(graph_.tensors[node.outputs[0]]));
    if (task.kind == TaskKind::kBackward && role != Role::kAdd) {
      // What the backward pass calls x and y.
      if (role == Role::kActivation) {
        operation->y = operation->x.at(0);
        operation->x.clear();
      } else if (role == Role::kPoolWithOutput) {
        operation->y = operation->x.at(1);
        operation->x.pop_back();
      }
    }
    if (task.kind == TaskKind::kBackward && !operation->dx) {
      return Fail(Code::kUnimplemented,
                  "nothing before it is trained, which is not supported");
    }
    return SetOperator(index, task, operation);
  }

  Status SetOperator(std::size_t index, const Task& task,
                     TaskOperation* operation) const {
    const Node& node = graph_.nodes[index];
    const std::string_view type = node.op_type;
    if (type == "Relu") {
      operation->what = TaskOperator::kRelu;
    } else if (IsActivation(type)) {
      operation->what = TaskOperator::kActivate;
      return SetActivation(node, operation);
    } else if (type == "LRN") {
      operation->what = TaskOperator::kLocalResponse;
      operation->response = {
          .extent = operation->input,
          .size = static_cast<std::int64_t>(node.NumberOr("size", 1)),
          .alpha = node.NumberOr("alpha", 1e-4),
          .beta = node.NumberOr("beta", 0.75),
          .bias = node.NumberOr("bias", 1)};
    } else if (type == "Resize") {
      operation->what = TaskOperator::kResize;
      return SetResizing(node, operation);
    } else if (type == "Mul") {
      operation->what = TaskOperator::kMultiply;
      return SetFactors(graph_, flow_, index, training_, task, operation);
    } else if (type == "Concat" || type == "Split" ||
               (type == "Pad" && node.pooling)) {
      operation->what =
          type == "Split" ? TaskOperator::kSplit : TaskOperator::kConcat;
      return SetParts(graph_, flow_, index, training_, task, operation);
    } else if (type == "BatchNormalization") {
      operation->what = TaskOperator::kNormalise;
    } else if (type == "Add") {
      operation->what = TaskOperator::kAdd;
      UCUDNN_RETURN_IF_ERROR(CheckTerms(index));
      operation->copies = operation->x.size() == 1
                              ? static_cast<float>(node.inputs.size())
                              : 1.0F;
    } else if (type == "Dropout") {
      operation->what = TaskOperator::kDropout;
      if (operation->old) {
        return Fail(Code::kUnimplemented,
                    "its operand has other readers, which is not supported");
      }
    } else if (type == "MaxPool" || type == "AveragePool" ||
               type == "GlobalAveragePool") {
      operation->what = TaskOperator::kPool;
      return SetPooling(node, operation);
    } else {
      return Fail(Code::kUnimplemented,
                  "operator {} cannot be run; {} are accepted", Excerpt(type),
                  kAccepted);
    }
    return {};
  }

  // The devices' sums are of whole tensors.
  Status CheckTerms(std::size_t index) const {
    const Node& node = graph_.nodes[index];
    const Value& sum = flow_.values()[flow_.OutputOf(index)];
    const std::vector<std::size_t> operands = flow_.OperandsOf(index);
    const bool all_as_large = std::ranges::all_of(operands, [&](auto value) {
      return flow_.values()[value].elements_per_image == sum.elements_per_image;
    });
    if (operands.size() == node.inputs.size() && all_as_large) return {};
    return Fail(Code::kUnimplemented,
                "it adds numbers, or operands of unlike sizes; computed "
                "tensors of one size are accepted");
  }

  static bool IsActivation(std::string_view type) {
    return type == "Sigmoid" || type == "HardSigmoid" || type == "Swish" ||
           type == "HardSwish";
  }

  Status SetActivation(const Node& node, TaskOperation* operation) const {
    Activation& activation = operation->activation;
    if (node.op_type == "Sigmoid") {
      activation.kind = Activation::Kind::kSigmoid;
    } else if (node.op_type == "HardSigmoid") {
      activation = {Activation::Kind::kHardSigmoid,
                    static_cast<float>(node.NumberOr("alpha", 0.2)),
                    static_cast<float>(node.NumberOr("beta", 0.5))};
    } else if (node.op_type == "HardSwish") {
      activation.kind = Activation::Kind::kHardSwish;
    } else if (node.NumberOr("alpha", 1) == 1) {
      activation.kind = Activation::Kind::kSwish;
    } else {
      return Fail(Code::kUnimplemented, "its alpha is {}; 1 is accepted",
                  node.NumberOr("alpha", 1));
    }
    return {};
  }

  Status SetResizing(const Node& node, TaskOperation* operation) const {
    Resizing& resizing = operation->resizing;
    resizing.input = operation->input;
    resizing.output = operation->output;
    const std::string mode = node.WordOr("mode", "nearest");
    const std::string place =
        node.WordOr("coordinate_transformation_mode", "half_pixel");
    const std::string nearest =
        node.WordOr("nearest_mode", "round_prefer_floor");
    const bool linear = mode == "linear";
    if ((!linear && mode != "nearest") ||
        resizing.input.channels != resizing.output.channels ||
        node.NumberOr("antialias", 0) != 0) {
      return Fail(Code::kUnimplemented,
                  "its mode is '{}', from {} channels to {}; nearest and "
                  "linear of depth, height and width, without antialias, are "
                  "accepted",
                  mode, resizing.input.channels, resizing.output.channels);
    }
    resizing.mode = linear ? Resizing::Mode::kLinear : Resizing::Mode::kNearest;
    resizing.rounds = nearest != "floor";
    if (place == "asymmetric") {
      resizing.place = Resizing::Place::kAsymmetric;
    } else if (place == "align_corners") {
      resizing.place = Resizing::Place::kAlignCorners;
    } else if (place != "half_pixel" && place != "pytorch_half_pixel") {
      return Fail(Code::kUnimplemented,
                  "its coordinates are '{}'; half_pixel, pytorch_half_pixel, "
                  "asymmetric and align_corners are accepted",
                  place);
    }
    if (!linear && nearest != "floor" && nearest != "round_prefer_floor") {
      return Fail(Code::kUnimplemented,
                  "its nearest_mode is '{}'; floor and round_prefer_floor are "
                  "accepted",
                  nearest);
    }
    return {};
  }

  Status SetNormalisation(const Node& node, TaskOperation* operation) const {
    UCUDNN_ASSIGN_OR_RETURN(operation->normalisation.extent,
                            ExtentOf(graph_.tensors[node.outputs[0]]));
    operation->normalisation.epsilon = node.NumberOr("epsilon", 1e-5);
    // ONNX counts the part that stays after an iteration.
    const auto times = static_cast<double>(
        std::max<std::size_t>(operation->statistics.size(), 1));
    operation->running_momentum = static_cast<float>(
        1 - std::pow(node.NumberOr("momentum", 0.9), 1 / times));
    return {};
  }

  Status SetPooling(const Node& node, TaskOperation* operation) const {
    Pooling& pooling = operation->pooling;
    pooling.kind = node.op_type == "MaxPool" ? Pooling::Kind::kMax
                                             : Pooling::Kind::kAverage;
    pooling.input = operation->input;
    pooling.output = operation->output;
    if (node.op_type == "GlobalAveragePool") {
      for (std::size_t axis = 0; axis < pooling.windows.size(); ++axis) {
        pooling.windows[axis].extent = pooling.input.axes()[axis];
      }
    } else if (node.divisor == Divisor::kPadded) {
      return Fail(Code::kUnimplemented,
                  "ceil_mode adds to the padding that it averages "
                  "(count_include_pad), which devices do differently; one of "
                  "both is accepted");
    } else if (node.pooling) {
      if (node.divisor == Divisor::kInside) {
        pooling.kind = Pooling::Kind::kAverageInside;
      }
      pooling.windows = *node.pooling;
    } else {
      return Fail(Code::kUnimplemented,
                  "its windows are not known; explicit padding without "
                  "dilation is accepted");
    }
    return {};
  }

  void SetWeights(std::size_t index, TaskOperation* operation) const {
    const std::vector<std::size_t> parameters = flow_.ParametersOf(index);
    operation->filters = flow_.Elements(parameters[0]);
    operation->trained = operation->filters;
    if (parameters.size() < 2) return;
    operation->biases = flow_.Elements(parameters[1]);
    operation->trained += operation->biases;
  }

  Status SetConvolution(TaskOperation* operation) const {
    operation->what = TaskOperator::kConvolution;
    const ConvGeometry& g = operation->conv->geometry;
    if (g.images != 1) {
      return Fail(Code::kUnimplemented,
                  "it convolves {} images for each of the batch; one is "
                  "accepted",
                  g.images);
    }
    const Spatial out = g.output();
    // Pixels are all that biases need.
    operation->input = {g.channels, g.input[0] * g.input[1], g.input[2]};
    operation->output = {g.filters, out[0] * out[1], out[2]};
    if (operation->transposed) std::swap(operation->input, operation->output);
    return {};
  }

  // A fully connected layer as a convolution of one pixel.
  Result<ConvProblem> Connected(std::size_t index, TaskKind kind) const {
    ConvProblem problem;
    problem.op = kind == TaskKind::kForward        ? ConvOp::kForward
                 : kind == TaskKind::kBackwardData ? ConvOp::kBackwardData
                                                   : ConvOp::kBackwardFilter;
    problem.precision = training_.precision;
    problem.geometry.filters =
        graph_.tensors[graph_.nodes[index].outputs[0]].shape.back();
    problem.geometry.channels =
        flow_.Elements(flow_.ParametersOf(index)[0]) / problem.geometry.filters;
    const std::int64_t outputs =
        flow_.values()[flow_.OutputOf(index)].elements_per_image;
    if (outputs != problem.geometry.filters) {
      return Fail(Code::kUnimplemented,
                  "it computes {} values an image with {} outputs; one row an "
                  "image is accepted",
                  outputs, problem.geometry.filters);
    }
    return problem;
  }

  const Graph& graph_;
  const TrainingGraph& training_;
  const Dataflow& flow_;
  std::map<std::string_view, std::size_t> nodes_;
};

}  // namespace

ImageExtent ExtentOfImage(const Tensor& tensor) {
  ImageExtent extent;
  const std::vector<std::int64_t>& shape = tensor.shape;
  if (shape.size() > 1) extent.channels = shape[1];
  if (shape.size() > 2) extent.width = shape.back();
  if (shape.size() > 3) extent.height = shape.end()[-2];
  if (shape.size() > 4) extent.depth = shape.end()[-3];
  return extent;
}

std::string_view Name(TaskOperator what) {
  constexpr std::array<std::string_view, 14> kNames = {
      "convolution", "relu",          "pool",           "normalisation",
      "sum",         "activation",    "local response", "resizing",
      "product",     "concatenation", "split",          "dropout",
      "loss",        "update"};
  return kNames[static_cast<std::size_t>(what)];
}

Result<std::vector<TaskOperation>> OperationsOf(const Graph& graph,
                                                const TrainingGraph& training) {
  if (training.precision != Precision::kFp32 &&
      training.precision != Precision::kTf32) {
    return Fail(Code::kUnimplemented,
                "memory plans are executed in FP32 and TF32, not in {}",
                Name(training.precision));
  }
  UCUDNN_ASSIGN_OR_RETURN(const Dataflow flow, Dataflow::Of(graph));
  return Binder(graph, training, flow).Bind();
}

}  // namespace ucudnn
