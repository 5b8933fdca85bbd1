#ifndef UCUDNN_CLIENT_TRAINING_MEMORY_EXECUTOR_H_
#define UCUDNN_CLIENT_TRAINING_MEMORY_EXECUTOR_H_

// Executes a memory plan (base/training/memory_plan.h) on a device.
//
//   UCUDNN_ASSIGN_OR_RETURN(auto executor, MemoryExecutor::Create(
//       device, operators, graph, training, plan, parameters, {}));
//   UCUDNN_ASSIGN_OR_RETURN(auto step, executor->Step(images, labels));
//
// Device memory is one arena of exactly plan.peak bytes, in which every block
// lies where the plan says. Tasks run in the device's order of work, transfers
// in a copy queue for each of the plan's other streams, with an event wherever
// one waits for another: what the plan calls safe is safe, whatever the
// durations turn out to be. Blocks that leave have a place in a host arena, and
// so do weights that do not stay. Beside the arenas there is one float a label
// for the losses.
//
// Rounds add up their weight gradients; each loss counts as its share of the
// mini-batch, so that the sum is the mini-batch's gradient. A round's images
// and labels are loaded before it starts, which is not part of the plan.
//
// Running statistics of normalisations are not updated: the plan only reads
// them.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/graph.h"
#include "base/result.h"
#include "base/training/graph.h"
#include "base/training/memory_plan.h"
#include "client/training/parameters.h"
#include "client/training/task_operations.h"
#include "client/training/task_runner.h"
#include "device/device.h"
#include "device/operators/operators.h"

namespace ucudnn {

struct ExecutionOptions {
  float rate = 0.01F;  // of learning
  // Rounds with statistics of their own instead of the mini-batch's.
  bool allow_sub_batch_statistics = false;
  // Fills every range with NaN when the plan gives it to a block and when it
  // takes it back, and every workspace after its use: whatever reads too early
  // or too late shows in the losses.
  bool poison = false;
};

// Times on the device, waits by what ended them.
struct StepReport {
  double loss = 0;      // mean over the labels
  Nanoseconds time{0};  // sum of the rounds'
  // Between tasks: until a prefetch, until memory was free after an offload,
  // and until a sync.
  std::map<std::string, Nanoseconds> stalls;
};

class MemoryExecutor {
 public:
  // All arguments must outlive the result, except `parameters`, which are
  // copied to the device. `training` was built from `graph`, and the plan made
  // for it with measured algorithms. Allocates and prepares everything, and
  // copies once in every queue, so that what can fail does so before the first
  // step.
  //
  // `host`, if any, is host memory of the device's that is used if it is large
  // enough, and replaced if not: allocating it may take seconds.
  //
  // kInvalidArgument if the plan breaks a rule (solver/check/memory_plan.h) or
  // is for several GPUs; kFailedPrecondition, naming the option, if it has
  // sub-batches and the network normalises over them; kResourceExhausted,
  // naming the arena's size, if it cannot be had; errors of OperationsOf and of
  // the device.
  static Result<std::unique_ptr<MemoryExecutor>> Create(
      Device& device, Operators& operators, const Graph& graph,
      const TrainingGraph& training, const MemoryPlan& plan,
      const Parameters& parameters, const ExecutionOptions& options,
      DeviceBuffer* host = nullptr);

  // Trains one mini-batch. `images` and `labels` have the sizes of the graph's
  // blocks at its batch. After an error the executor cannot be used.
  Result<StepReport> Step(std::span<const float> images,
                          std::span<const std::int32_t> labels);

  // The parameters now, wherever they live between steps.
  Result<Parameters> Download();

  Bytes arena() const { return arena_.size(); }
  Bytes host_arena() const { return host_bytes_; }

 private:
  // An event of the plan, ready to run.
  struct Command {
    const MemoryEvent* event = nullptr;
    std::vector<std::size_t> waits;  // commands of other streams
    bool signals = false;            // another stream waits for it
    std::vector<float*> blocks;      // of compute, where its task's blocks lie
    char* device = nullptr;          // alloc, free, transfers
    Bytes bytes;
    char* host = nullptr;  // transfers; null: of the round's input
    PreparedParts parts;
    std::unique_ptr<Event> done;
    // Before and after the waits of compute.
    std::unique_ptr<Event> idle;
    std::unique_ptr<Event> busy;
    std::string cause;
  };
  struct Round {
    const MemoryRound* planned = nullptr;
    std::vector<Command> commands;
  };

  MemoryExecutor(Device& device, Operators& operators,
                 const TrainingGraph& training, const MemoryPlan& plan,
                 const ExecutionOptions& options)
      : device_(device),
        training_(training),
        plan_(plan),
        options_(options),
        operators_(operators) {}

  Status Check() const;
  Status AllocateArenas(DeviceBuffer* host);
  Status MakeQueues();
  Status PrepareRounds();
  Status PrepareCompute(const std::vector<char*>& places, BatchSize batch,
                        Command* command);
  Status UploadParameters(const Parameters& parameters);
  // Where blocks lie when a round starts, null if they are not on the device.
  std::vector<char*> ResidentPlaces() const;
  // The round's part of an input, on the host.
  const char* InputOf(std::size_t block, std::int64_t first) const;

  Status LoadInputs(const Round& round, std::int64_t first);
  Status RunRound(Round& round, std::int64_t first, StepReport* report,
                  double* loss);
  Status RunCommand(Round& round, Command& command, RoundState* state);
  Status Await(const Round& round, const Command& command);
  Status Copy(const Command& command, std::int64_t first);
  Status Poison(MemoryStream stream, char* data, Bytes bytes);
  Status Finish(Round& round, StepReport* report);
  Result<double> LossOf(std::int64_t labels);

  Device& device_;
  const TrainingGraph& training_;
  const MemoryPlan& plan_;
  const ExecutionOptions options_;
  Operators& operators_;
  std::vector<TaskOperation> operations_;
  std::optional<TaskRunner> runner_;

  DeviceBuffer arena_;
  DeviceBuffer own_host_;
  char* host_ = nullptr;
  Bytes host_bytes_;
  std::vector<std::optional<std::int64_t>> host_offsets_;  // by block
  DeviceBuffer probabilities_;
  DeviceBuffer poison_;  // on the host, NaN
  std::map<MemoryStream, std::unique_ptr<CopyQueue>> queues_;
  std::map<MemoryStream, std::unique_ptr<Event>> ends_;
  std::unique_ptr<Event> start_;
  std::unique_ptr<Event> stop_;
  std::vector<Round> rounds_;

  std::span<const float> images_;
  std::span<const std::int32_t> labels_;
  std::size_t labels_block_ = 0;
  std::int64_t labels_per_image_ = 1;
  std::uint32_t steps_ = 0;
  std::vector<bool> fresh_;
};

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_TRAINING_MEMORY_EXECUTOR_H_
