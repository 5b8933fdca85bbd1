#ifndef UCUDNN_BASE_TRAINING_GRAPH_H_
#define UCUDNN_BASE_TRAINING_GRAPH_H_

// One training iteration as a memory planner sees it: blocks of memory, and
// tasks that read and write them. Made from a network's graph by
// base/training/build.h; costs come from base/training/costs.h.
//
//   conv1.forward: input, conv1.W -> conv1.Y
//   relu1.forward: conv1.Y -> conv1.Y                          (in place)
//   loss:          conv1.Y, labels -> d_conv1.Y
//   relu1.backward: conv1.Y, d_conv1.Y -> d_conv1.Y            (in place)
//   conv1.backward_filter: input, d_conv1.Y -> conv1.dW
//   conv1.update:  conv1.dW, conv1.W -> conv1.W
//
// An iteration may have several rounds, each on a part of the mini-batch. Then
// every task runs once per round, except updates, which run in the last round
// only. Weight gradients accumulate over the rounds: they stay on the device,
// and a task that writes one reads it as well.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/conv_problem.h"
#include "base/profile.h"
#include "base/training/device_model.h"
#include "base/units.h"

namespace ucudnn {

enum class BlockKind {
  kInput,           // images and labels; the host keeps a copy
  kActivation,      // what a layer computes
  kStatistics,      // of a normalisation
  kMask,            // of a dropout
  kGradient,        // of an activation
  kWeight,          // all parameters of a layer
  kWeightGradient,  // of those that are trained
  kMomentum,        // of a layer's updates: one value for each trained one
};
inline constexpr std::array kBlockKinds = {
    BlockKind::kInput,          BlockKind::kActivation, BlockKind::kStatistics,
    BlockKind::kMask,           BlockKind::kGradient,   BlockKind::kWeight,
    BlockKind::kWeightGradient, BlockKind::kMomentum};
// "input", "activation", ..., "momentum".
std::string_view Name(BlockKind kind);

// A contiguous piece of memory.
struct MemoryBlock {
  std::string name;  // unique in the graph
  BlockKind kind = BlockKind::kActivation;
  Bytes bytes;            // independent of the batch
  Bytes bytes_per_image;  // in addition
  // Holds its contents from one iteration to the next.
  bool persistent = false;

  Bytes SizeAt(BatchSize batch) const {
    return bytes + bytes_per_image * batch.count();
  }

  friend bool operator==(const MemoryBlock&, const MemoryBlock&) = default;
};

enum class TaskKind {
  kForward,
  kLoss,
  kBackward,  // of layers without a filter; all of a normalisation
  kBackwardFilter,
  kBackwardData,
  kUpdate,
  kHostUpdate,  // on the host, on its copies
};
inline constexpr std::array kTaskKinds = {
    TaskKind::kForward,        TaskKind::kLoss,         TaskKind::kBackward,
    TaskKind::kBackwardFilter, TaskKind::kBackwardData, TaskKind::kUpdate,
    TaskKind::kHostUpdate};
// "forward", "loss", ..., "host_update".
std::string_view Name(TaskKind kind);

// Whether the task updates weights, wherever it runs.
constexpr bool IsUpdate(TaskKind kind) {
  return kind == TaskKind::kUpdate || kind == TaskKind::kHostUpdate;
}

// One way to run a task on one batch.
struct TaskCost {
  Algorithm algorithm;  // its name is empty if there is no choice
  Bytes workspace;
  Nanoseconds time{0};

  friend bool operator==(const TaskCost&, const TaskCost&) = default;
};

// What a task without algorithms was measured to take.
struct TaskTimeAt {
  BatchSize batch;
  Nanoseconds time{0};

  friend bool operator==(const TaskTimeAt&, const TaskTimeAt&) = default;
};

// The time on the line between two measured batches, by rising batch and at
// least one. Below the first it is that of the first; beyond the last it grows
// with the batch.
Nanoseconds TimeOnLine(const std::vector<TaskTimeAt>& line, BatchSize batch);

// What a task costs on any batch; see CostsAt.
struct TaskWork {
  // Of convolutions and Gemm; the cost of other tasks follows from their bytes.
  double operations = 0;
  double operations_per_image = 0;
  std::optional<ConvProblem> conv;
  // Measurements, which replace the estimate: by batch, and of tasks that have
  // algorithms by algorithm and workspace.
  std::vector<MeasuredPoint> measured;
  // Of a task without algorithms, instead of these: its time at any batch is on
  // this line, unless it is empty.
  std::vector<TaskTimeAt> line = {};
  // A fixed time, which overrides everything else.
  std::optional<Nanoseconds> fixed;

  // Whether it has algorithms to choose from and can run in parts: a
  // convolution, or a task measured with named algorithms.
  bool HasAlgorithms() const {
    return conv || (!measured.empty() && !measured[0].algorithm.name.empty());
  }

  friend bool operator==(const TaskWork&, const TaskWork&) = default;
};

// How a task runs again where that is not how it ran first: a framework's own
// operator made a tensor, and a recipe computes it again.
struct TaskRecipe {
  Nanoseconds time{0};
  // Blocks that the task itself does not use, each once.
  std::vector<std::size_t> reads;
  std::vector<std::size_t> writes;  // temporary

  friend bool operator==(const TaskRecipe&, const TaskRecipe&) = default;
};

struct Task {
  std::string name;  // unique in the graph
  TaskKind kind = TaskKind::kForward;
  std::size_t layer = 0;            // in TrainingGraph::layers
  std::vector<std::size_t> reads;   // blocks, each once
  std::vector<std::size_t> writes;  // blocks, each once
  // Can run again whenever its inputs are present, with the same result.
  bool recomputable = false;
  TaskWork work = {};
  std::optional<TaskRecipe> recipe = {};  // only in recorded steps

  friend bool operator==(const Task&, const Task&) = default;
};

// The node of a task, "conv1" of "conv1.forward": several nodes may be in one
// layer.
std::string_view NodeOf(const Task& task);

// A layer as planners count it: a node of the model with the activations that
// run in place on its output.
struct TrainingLayer {
  std::string name;
  std::string op_type;  // the node's, as in ONNX; "loss" for the last

  friend bool operator==(const TrainingLayer&, const TrainingLayer&) = default;
};

struct TrainingGraph {
  std::string network;
  Precision precision = Precision::kFp32;
  BatchSize batch;  // the mini-batch of an iteration
  DeviceModel device;
  std::vector<MemoryBlock> blocks;
  // In the model's order, the loss last.
  std::vector<TrainingLayer> layers;
  // In program order: forward, loss, then backward by layers in reverse.
  std::vector<Task> tasks;

  friend bool operator==(const TrainingGraph&, const TrainingGraph&) = default;
};

// The Pareto front of ways to run `task` undivided on `batch` images: in order
// of increasing workspace and strictly decreasing time, so that the first needs
// the least memory and the last is the fastest. The time on the line if the
// task has one; measured points of exactly this batch if it has measurements
// (none, if this batch was not measured); else the device model's estimates.
// The names of algorithms are unique among them.
std::vector<TaskCost> CostsAt(const TrainingGraph& graph, const Task& task,
                              BatchSize batch);

// The CostsAt of a convolution for every measured batch up to `batch`, as
// points for divisions into micro-batches; empty for other tasks.
// Without measurements: for the batch itself and the powers of two below it.
std::vector<MeasuredPoint> PointsOf(const TrainingGraph& graph,
                                    const Task& task, BatchSize batch);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_TRAINING_GRAPH_H_
