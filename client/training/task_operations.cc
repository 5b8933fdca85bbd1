#include "client/training/task_operations.h"

#include <array>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "base/training/dataflow.h"

namespace ucudnn {
namespace {

Result<ImageExtent> ExtentOf(const Tensor& tensor) {
  const std::vector<std::int64_t>& shape = tensor.shape;
  ImageExtent extent;
  switch (shape.size()) {
    case 2:
      extent.channels = shape[1];
      return extent;
    case 4:
      return ImageExtent{shape[1], shape[2], shape[3]};
    default:
      return Fail(Code::kUnimplemented,
                  "tensor '{}' has {} dimensions; 2 or 4 are accepted",
                  Excerpt(tensor.name), shape.size());
  }
}

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
  Result<TaskOperation> Of(const Task& task) const {
    TaskOperation operation;
    operation.kind = task.kind;
    UCUDNN_RETURN_IF_ERROR(SetBlocks(task, &operation));
    if (task.kind == TaskKind::kLoss) {
      UCUDNN_RETURN_IF_ERROR(SetLoss(&operation));
      return operation;
    }
    const auto node = nodes_.find(
        std::string_view(task.name).substr(0, task.name.rfind('.')));
    if (node == nodes_.end()) {
      return Fail(Code::kInvalidArgument, "the model has no such node");
    }
    UCUDNN_RETURN_IF_ERROR(SetNode(node->second, task, &operation));
    return operation;
  }

  // By the kinds of blocks and the order of base/training/build.h: x before y,
  // dy before the old dx.
  Status SetBlocks(const Task& task, TaskOperation* operation) const {
    for (const std::size_t block : task.reads) {
      switch (training_.blocks[block].kind) {
        case BlockKind::kInput:
          if (task.kind == TaskKind::kLoss) {
            operation->labels = block;
          } else {
            operation->x.push_back(block);
          }
          break;
        case BlockKind::kActivation:
          operation->x.push_back(block);
          break;
        case BlockKind::kGradient:
          (operation->dy ? operation->old : operation->dy) = block;
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
          operation->statistics = block;
          break;
        case BlockKind::kMask:
          operation->mask = block;
          break;
      }
    }
    for (const std::size_t block : task.writes) {
      switch (training_.blocks[block].kind) {
        case BlockKind::kActivation:
          operation->y = block;
          break;
        case BlockKind::kGradient:
          if (operation->dx) {
            return Fail(Code::kUnimplemented,
                        "it has several outputs; one is accepted");
          }
          operation->dx = block;
          break;
        case BlockKind::kStatistics:
          operation->statistics = block;
          break;
        case BlockKind::kMask:
          operation->mask = block;
          break;
        case BlockKind::kWeightGradient:
          operation->dw = block;
          break;
        default:
          break;
      }
    }
    return {};
  }

  Status SetLoss(TaskOperation* operation) const {
    if (flow_.outputs().size() != 1 || !operation->dx) {
      return Fail(Code::kUnimplemented,
                  "the model has {} outputs; one that is trained is accepted",
                  flow_.outputs().size());
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
    return SetOperator(node, operation);
  }

  Status SetOperator(const Node& node, TaskOperation* operation) const {
    const std::string_view type = node.op_type;
    if (type == "Relu") {
      operation->what = TaskOperator::kRelu;
    } else if (type == "BatchNormalization") {
      operation->what = TaskOperator::kNormalise;
    } else if (type == "Add") {
      operation->what = TaskOperator::kAdd;
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
                  "operator {} cannot be run; Conv, ConvTranspose, Gemm, Relu, "
                  "MaxPool, AveragePool, GlobalAveragePool, "
                  "BatchNormalization, Add and Dropout are accepted",
                  Excerpt(type));
    }
    return {};
  }

  Status SetNormalisation(const Node& node, TaskOperation* operation) const {
    UCUDNN_ASSIGN_OR_RETURN(operation->normalisation.extent,
                            ExtentOf(graph_.tensors[node.outputs[0]]));
    operation->normalisation.epsilon = node.NumberOr("epsilon", 1e-5);
    // ONNX counts the part that stays.
    operation->running_momentum =
        static_cast<float>(1 - node.NumberOr("momentum", 0.9));
    return {};
  }

  Status SetPooling(const Node& node, TaskOperation* operation) const {
    Pooling& pooling = operation->pooling;
    pooling.kind = node.op_type == "MaxPool" ? Pooling::Kind::kMax
                                             : Pooling::Kind::kAverage;
    pooling.input = operation->input;
    pooling.output = operation->output;
    if (node.op_type == "GlobalAveragePool") {
      pooling.windows[0].extent = pooling.input.height;
      pooling.windows[1].extent = pooling.input.width;
    } else if (node.divisor == Divisor::kPadded) {
      return Fail(Code::kUnimplemented,
                  "ceil_mode adds to the padding that it averages "
                  "(count_include_pad), which devices do differently; one of "
                  "both is accepted");
    } else if (node.pooling && (*node.pooling)[0] == Window()) {
      if (node.divisor == Divisor::kInside) {
        pooling.kind = Pooling::Kind::kAverageInside;
      }
      pooling.windows = {(*node.pooling)[1], (*node.pooling)[2]};
    } else {
      return Fail(Code::kUnimplemented,
                  "its window is unknown or three-dimensional; one of height "
                  "and width is accepted");
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

std::string_view Name(TaskOperator what) {
  constexpr std::array<std::string_view, 8> kNames = {
      "convolution", "relu",    "pool", "normalisation",
      "sum",         "dropout", "loss", "update"};
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
