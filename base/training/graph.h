#ifndef UCUDNN_BASE_TRAINING_GRAPH_H_
#define UCUDNN_BASE_TRAINING_GRAPH_H_

// One training iteration as what a memory planner sees of it: blocks of memory,
// and tasks that read and write them. Made from a network's graph by
// base/training/build.h; costs come from base/training/costs.h.
//
//   conv1.forward: input, conv1.W -> conv1.Y
//   relu1.forward: conv1.Y -> conv1.Y                          (in place)
//   loss:          conv1.Y, labels -> d_conv1.Y
//   relu1.backward: conv1.Y, d_conv1.Y -> d_conv1.Y            (in place)
//   conv1.backward_filter: input, d_conv1.Y -> conv1.dW
//   conv1.update:  conv1.dW, conv1.W -> conv1.W
//
// Where an iteration has several rounds, each of a part of the mini-batch,
// every task runs once a round, but updates in the last one only, and gradients
// of weights are added up over the rounds: they stay on the device, and a task
// that writes one reads it as well.

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
};
// "input", "activation", ..., "weight_gradient".
std::string_view Name(BlockKind kind);

// A contiguous piece of memory.
struct MemoryBlock {
  std::string name;  // unique in the graph
  BlockKind kind = BlockKind::kActivation;
  Bytes bytes;            // whatever the batch is
  Bytes bytes_per_image;  // besides
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
  kBackward,  // of what has no filter; of a normalisation all of it
  kBackwardFilter,
  kBackwardData,
  kUpdate,
  kHostUpdate,  // on the host, on its copies
};
// "forward", "loss", ..., "host_update".
std::string_view Name(TaskKind kind);

// One way to run a task on one batch.
struct TaskCost {
  Algorithm algorithm;  // its name is empty where there is no choice
  Bytes workspace;
  Nanoseconds time{0};

  friend bool operator==(const TaskCost&, const TaskCost&) = default;
};

// What a task costs on any batch; see CostsAt.
struct TaskWork {
  // What convolutions and Gemm compute; otherwise bytes are what counts.
  double operations = 0;
  double operations_per_image = 0;
  std::optional<ConvProblem> conv;
  // Measurements instead, where there are any: of convolutions by batch,
  // algorithm and workspace; of others by batch.
  std::vector<MeasuredPoint> measured;
  // A time that nothing else determines.
  std::optional<Nanoseconds> fixed;

  friend bool operator==(const TaskWork&, const TaskWork&) = default;
};

struct Task {
  std::string name;  // unique in the graph
  TaskKind kind = TaskKind::kForward;
  std::size_t layer = 0;            // in TrainingGraph::layers
  std::vector<std::size_t> reads;   // blocks, each once
  std::vector<std::size_t> writes;  // blocks, each once
  // May run again, whenever its inputs are there, with the same outcome.
  bool recomputable = false;
  TaskWork work = {};

  friend bool operator==(const Task&, const Task&) = default;
};

// A layer as planners count them: a node of the model, with the activations
// that are computed in place on what it computes.
struct TrainingLayer {
  std::string name;
  std::string op_type;  // of the node, as ONNX names it; "loss" of the last

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

// The ways to run `task` undivided on `batch` images that no other one beats in
// both time and workspace: by rising workspace and strictly falling time, so
// that the first needs the least memory and the last is the fastest. Measured
// points of just this batch where the task has measurements (none, if this
// batch was not measured), else what the device model gives. Names of
// algorithms are unique among them.
std::vector<TaskCost> CostsAt(const TrainingGraph& graph, const Task& task,
                              BatchSize batch);

// What CostsAt gives of a convolution for every batch up to `batch` that was
// measured, as points for divisions (solver/wr.h); empty of other tasks.
// Without measurements: for the batch itself and the powers of two below it.
std::vector<MeasuredPoint> PointsOf(const TrainingGraph& graph,
                                    const Task& task, BatchSize batch);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_TRAINING_GRAPH_H_
