#ifndef UCUDNN_CLIENT_TRAINING_PREPARED_TRAINING_H_
#define UCUDNN_CLIENT_TRAINING_PREPARED_TRAINING_H_

// A network that is ready to be trained on a device: its graph measured there,
// with parameters; and plans for it.

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/conv_problem.h"
#include "base/graph.h"
#include "base/result.h"
#include "base/training/build.h"
#include "base/training/device_model.h"
#include "base/training/graph.h"
#include "base/training/memory_plan.h"
#include "client/training/parameters.h"
#include "device/device.h"
#include "device/operators/operators.h"
#include "device/training/measure_tasks.h"
#include "device/training/task_operations.h"
#include "solver/memory/policies.h"
#include "solver/memory/request.h"
#include "solver/memory/split/split.h"

namespace ucudnn {

struct TrainingInput {
  std::string contents;  // an ONNX model, or a chain of convolutions as CSV
  std::string source;    // what errors call it
  std::string name = "network";
  BatchSize batch;
  // Its first layers are computed in parts of the images.
  std::optional<SplitOptions> split = {};
  TrainingOptions graph = {};
  // Of the link; measured if absent.
  std::optional<DeviceModel> model;
  std::uint64_t seed = 1;  // of parameters
  int repeats = 3;         // of each measurement
  Bytes max_workspace = 1_GiB;
  // Normalisations are measured as ranks run them that exchange statistics.
  bool exchanged_statistics = false;
  // What is measured, the batch among them; MeasuredBatches if empty.
  std::vector<BatchSize> batches;
};

struct PreparedTraining {
  Graph whole;             // as the model has it
  Graph graph;             // with TrainingInput::split
  TrainingGraph training;  // with measurements
  std::vector<TaskOperation> operations;
  Parameters parameters;

  // Whether some statistics depend on which images are trained at once.
  bool NormalisesOverImages() const;
};

// The network without measurements. Errors of reading it, SplitGraph,
// BuildTrainingGraph and OperationsOf; kUnimplemented unless it has one input.
Result<std::unique_ptr<PreparedTraining>> ReadTraining(
    const TrainingInput& input);

// The network with the parts of a draw, which a stochastic split makes anew for
// each step (MemoryExecutor::Redraw): without measurements and parameters.
Result<std::unique_ptr<PreparedTraining>> DrawTraining(
    const PreparedTraining& prepared, const TrainingInput& input,
    std::uint64_t draw);

// Measures on `device`, which takes seconds. Errors of MeasureDeviceModel and
// MeasureTasks.
Status MeasureTraining(Device& device, Operators& operators,
                       const TrainingInput& input, const std::stop_token& stop,
                       PreparedTraining* prepared);

struct TrainingRequest {
  std::string policy = "best";  // of MemoryPolicies, or undivided: baseline
  Bytes budget;
  std::chrono::milliseconds time_limit = std::chrono::seconds(60);
  // If not, a network that normalises over images is planned undivided.
  bool allow_sub_batch_statistics = false;
  // What `best` may do besides moving activations (docs/memory.md).
  bool recompute = false;
  bool offload_weights = false;
  int streams = 1;  // MemoryRequest::streams
};

// `undivided` is baseline without sub-batches. kInvalidArgument, naming what
// there is.
Result<const MemoryPolicy*> FindTrainingPolicy(std::string_view name);

// What the policy is asked for, without the time limit.
MemoryRequest MemoryRequestOf(const TrainingRequest& request);
// Whether a mini-batch, or a rank's share of it, must be trained at once.
bool MustBeWhole(const PreparedTraining& prepared,
                 const TrainingRequest& request);

// kInvalidArgument for an unknown policy; kFailedPrecondition, naming the
// smallest budget that would do, if there is no plan within this one. Thread
// safe.
Result<MemoryPlan> PlanTraining(const PreparedTraining& prepared,
                                const TrainingRequest& request,
                                const std::stop_token& stop);

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_TRAINING_PREPARED_TRAINING_H_
