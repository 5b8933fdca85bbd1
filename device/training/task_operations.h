#ifndef UCUDNN_DEVICE_TRAINING_TASK_OPERATIONS_H_
#define UCUDNN_DEVICE_TRAINING_TASK_OPERATIONS_H_

// What each task of a training graph computes: the operator, its shapes, and
// which of the task's blocks are which operands.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/conv_problem.h"
#include "base/graph.h"
#include "base/result.h"
#include "base/training/graph.h"
#include "device/operators/operators.h"

namespace ucudnn {

enum class TaskOperator {
  kConvolution,  // also of fully connected layers, with bias
  kRelu,
  kPool,
  kNormalise,
  kAdd,
  kActivate,
  kLocalResponse,
  kResize,
  kMultiply,
  kConcat,
  kSplit,
  kDropout,
  kLoss,
  kUpdate,
};
// "convolution", "relu", ..., "update".
std::string_view Name(TaskOperator what);

// One of several tensors of a task: `depth` slices of `height` rows of `width`
// elements, from element `first` on, of each plane of the tensor that they make
// together.
struct TensorPart {
  std::size_t block = 0;
  std::optional<std::size_t> old = {};  // as TaskOperation::old
  std::int64_t first = 0;
  std::int64_t depth = 1;
  std::int64_t height = 1;
  std::int64_t width = 0;
};

// What a normalisation leaves for its backward pass and its update.
struct StatisticsBlock {
  std::size_t block = 0;
  std::int64_t pixels = 0;  // of an image, of which they are
};

struct TaskOperation {
  TaskOperator what = TaskOperator::kConvolution;
  TaskKind kind = TaskKind::kForward;

  std::optional<ConvProblem> conv;
  bool transposed = false;  // the layer is; the problem is its adjoint
  Pooling pooling = {};
  Normalisation normalisation = {};  // also of its updates
  float running_momentum = 0;        // of its running statistics
  ImageExtent input = {};            // of x
  ImageExtent output = {};           // of y
  std::int64_t filters = 0;          // elements of the weights before the bias
  std::int64_t biases = 0;           // of the bias; 0: there is none
  std::int64_t trained = 0;          // elements of the weights that are trained
  float copies = 1;                  // how often the sum has its only operand
  Activation activation = {};
  LocalResponse response = {};
  Resizing resizing = {};
  // Of Concat, Split and Pad: their parts, or the gradients of those; and the
  // planes of an image, and the elements of a plane, of its slices and of its
  // rows, that the parts make together.
  std::vector<TensorPart> parts = {};
  std::int64_t planes = 1;
  std::int64_t plane = 0;
  std::int64_t slice = 0;
  std::int64_t row = 0;
  bool pads = false;  // there are zeros around the part
  // Of a product: how many elements of x[0] each of x[1] multiplies, and the
  // gradients of both.
  std::int64_t span = 1;
  std::array<std::optional<TensorPart>, 2> factors = {};

  // Blocks; absent if the task has no such operand.
  std::vector<std::size_t> x;  // several of a sum
  std::optional<std::size_t> y, dy, dx, w, dw, v, mask, labels;
  // Several of an update of parameters that nodes share.
  std::vector<StatisticsBlock> statistics = {};
  // Holds what the task adds dx to. It may be dx.
  std::optional<std::size_t> old;
};

// Of a tensor of a batch, whose shape is N, C and up to three axes: width,
// height and width, or depth, height and width.
ImageExtent ExtentOfImage(const Tensor& tensor);

// One for each task. `graph` is what `training` was built from.
// kUnimplemented, naming the node and what is accepted, if a task cannot be
// computed: other operators than those of TaskOperator, Sigmoid, HardSigmoid,
// Swish and HardSwish among them; tensors of more than three axes beside batch
// and channels; averages that divide by Divisor::kPadded; several losses;
// precisions other than FP32 and TF32.
Result<std::vector<TaskOperation>> OperationsOf(const Graph& graph,
                                                const TrainingGraph& training);

}  // namespace ucudnn

#endif  // UCUDNN_DEVICE_TRAINING_TASK_OPERATIONS_H_
