#ifndef UCUDNN_CLIENT_TRAINING_MEMORY_EXECUTOR_H_
#define UCUDNN_CLIENT_TRAINING_MEMORY_EXECUTOR_H_

// Executes a memory plan (base/training/memory_plan.h) on a device.
//
//   UCUDNN_ASSIGN_OR_RETURN(auto executor, MemoryExecutor::Create(
//       device, operators, graph, training, plan, parameters, {}));
//   UCUDNN_ASSIGN_OR_RETURN(TrainingBatch batch, executor->MakeBatch());
//   ... write batch.images and batch.labels ...
//   UCUDNN_ASSIGN_OR_RETURN(auto step, executor->Step(batch));
//
// Device memory is one arena of exactly plan.peak bytes, in which every block
// lies where the plan says. Tasks run in the device's order of work, transfers
// in a copy queue for each of the plan's other streams, with an event wherever
// one waits for another: what the plan calls safe is safe, whatever the
// durations turn out to be. Blocks that leave have a place in a host arena, and
// so do weights that do not stay. Beside the arenas there is one float a label
// for the losses, and what SharedStatistics keeps.
//
// Rounds add up their weight gradients; each loss counts as its share of the
// mini-batch, so that the sum is the mini-batch's gradient. A round's images
// and labels are loaded before it starts, which is not part of the plan. Images
// that the plan fetches during a round come from where the caller wrote them:
// host memory of the device's, which a copy queue reads by itself. A network
// that reads the images in parts (TrainingInput::split) has an input for each.
//
// From the second step on, tasks that nothing comes between are replayed as
// captured work where the device can (Device::Capture), so that the host keeps
// ahead of the device even where plans divide convolutions into many
// micro-batches. What cannot be captured, or does not fit into
// ExecutionOptions::graph_memory, is enqueued task by task.
//
// With ExecutionOptions::streams captured tasks may run at once that do not use
// each other's memory (stretch_order.h), so that any plan is safe. Whether that
// is faster is measured: the steps after the second run in either way by turns,
// and the faster way is kept.
//
// A graph with TrainingOptions::running_statistics updates those of
// normalisations once a step. Without it they stay as they are.
//
// With other ranks (rank_exchange.h), all passes are enqueued first. Then each
// bucket of gradients is summed as soon as the device has computed it, and the
// updates follow. The host waits before the end only where the exchange is not
// stream-ordered.

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/graph.h"
#include "base/result.h"
#include "base/training/graph.h"
#include "base/training/memory_plan.h"
#include "client/config/variables.h"
#include "client/executor/graph_cache.h"
#include "client/training/memory_arenas.h"
#include "client/training/parameters.h"
#include "client/training/prepared_round.h"
#include "device/device.h"
#include "device/operators/operators.h"
#include "device/training/rank_exchange.h"
#include "device/training/task_operations.h"
#include "device/training/task_runner.h"

namespace ucudnn {

struct ExecutionOptions {
  float rate = 0.01F;  // of learning
  // Of updates, in a graph with blocks for it (TrainingOptions::momentum):
  // v = momentum * v + gradient; w -= rate * v.
  float momentum = 0;
  // Steps that were trained before; dropouts depend on it.
  std::uint32_t first_step = 0;

  // The mini-batch of all ranks, of which the graph's batch is this rank's
  // share, and the images before that share. 0: the graph's batch.
  BatchSize mini_batch = {};
  BatchSize first_image = {};
  // With the other ranks; must outlive the executor. Needs a graph with
  // TrainingOptions::updates_at_end.
  RankExchange* exchange = nullptr;
  // Normalisations take their statistics over the images of all ranks, which
  // needs plans of one round, instead of over this rank's.
  bool exchange_statistics = true;

  // Rounds with statistics of their own instead of the mini-batch's. The last
  // round's run into those that are kept.
  bool allow_sub_batch_statistics = false;
  // Fills every range with NaN when the plan gives it to a block and when it
  // takes it back, and every workspace after its use: whatever reads too early
  // or too late shows in the losses. Nothing is captured then.
  bool poison = false;
  // The device memory that captured work may take beside the arena; 0: nothing
  // is captured.
  Bytes graph_memory = kDefaultGraphMemory;
  // Times every task by itself (StepReport::tasks), which costs the device some
  // microseconds for each.
  bool time_tasks = false;
  // How many tasks of what is captured may run at once, if that is faster
  // (StreamUse).
  int streams = 1;
};

// A mini-batch in host memory that copies to the device fastest. It must not
// outlive the device. If the network reads the images in parts, each part of
// all images follows the one before (client/training/image_parts.h).
struct TrainingBatch {
  std::span<float> images;
  std::span<std::int32_t> labels;
  DeviceBuffer memory;  // of both
};

// What was copied in one direction, and how long that took on the device
// without the waits between copies.
struct CopyTotals {
  std::int64_t copies = 0;
  Bytes bytes;
  Nanoseconds time{0};

  CopyTotals& operator+=(const CopyTotals& more) {
    copies += more.copies;
    bytes += more.bytes;
    time += more.time;
    return *this;
  }
  // Bytes a microsecond beside a latency of each copy; 0 if nothing is left of
  // the time.
  double Rate(Nanoseconds latency = Nanoseconds(0)) const {
    const Nanoseconds moving = time - copies * latency;
    return moving <= Nanoseconds(0) ? 0
                                    : 1e3 * static_cast<double>(bytes.count()) /
                                          static_cast<double>(moving.count());
  }
};

// Times on the device, waits by what ended them.
struct StepReport {
  // The mean over the mini-batch's labels, or this rank's part of it: the sum
  // over its labels, divided by the mini-batch's.
  double loss = 0;
  Nanoseconds time{0};  // sum of the rounds'
  // Of it, until all gradients are computed. Equals `time` without an exchange.
  Nanoseconds passes{0};
  // Between tasks: until a prefetch, until memory was free after an offload,
  // and until a sync.
  std::map<std::string, Nanoseconds> stalls;
  // The host's time to enqueue the rounds. If it is about `time`, the device
  // waited for the host.
  Nanoseconds enqueue{0};
  CopyTotals offloads;
  CopyTotals prefetches;
  // By task, sums over the rounds and over repetitions; if tasks are timed.
  std::map<std::size_t, Nanoseconds> tasks;
};

// What the network says of images that it is not trained on.
struct Evaluation {
  double loss = 0;  // sum over the labels
  std::int64_t labels = 0;
  std::int64_t correct = 0;  // that the network gives the highest value
};

// How much of a step is replayed.
struct CapturedUse {
  std::size_t graphs = 0;  // one for each stretch of tasks
  Bytes memory;            // that capturing took
  std::string problem;     // why something is not captured; may be empty
};

// Steps of each way that are timed where several streams are asked for, from
// the third step on, by turns.
inline constexpr std::int64_t kStreamTrials = 5;

// How many tasks run at once in captured work.
struct StreamUse {
  int asked = 1;
  int kept = 1;
  std::string why;  // if fewer are kept than asked for
  // The medians of the passes of the steps that were tried; 0 if none were.
  Nanoseconds alone{0};     // one task at a time
  Nanoseconds together{0};  // as many as were asked for

  // What the kept way takes less than one task at a time.
  Nanoseconds gain() const {
    return kept > 1 ? alone - together : Nanoseconds(0);
  }
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

  // A batch to fill for Step, in memory of its own: while one is trained,
  // another thread may fill the next. kResourceExhausted.
  Result<TrainingBatch> MakeBatch();

  // Cuts the images of the next steps elsewhere (DrawTraining): `training` is
  // Create's but for the sizes of blocks, none of which is larger. Algorithms
  // are the plan's or, where one does not suit a part, what the device suggests
  // within the planned workspace. kInvalidArgument if blocks or tasks are
  // others, or work may be captured; errors of the device, after which the
  // executor cannot be used.
  Status Redraw(const TrainingGraph& training,
                std::vector<TaskOperation> operations);

  // Trains one mini-batch, one of MakeBatch. After an error the executor cannot
  // be used.
  Result<StepReport> Step(const TrainingBatch& batch);

  // Runs the forward pass alone over the first `images` of one of MakeBatch,
  // with running statistics and without dropout, in the plan's arena: the tasks
  // of its rounds until the loss. Nothing is exchanged, and the next Step is as
  // without it. After an error the executor cannot be used.
  Result<Evaluation> Evaluate(const TrainingBatch& batch, BatchSize images);

  // The parameters and momentum now, wherever they live between steps.
  Result<Parameters> Download();

  Bytes arena() const { return arenas_.device().size(); }
  Bytes host_arena() const { return arenas_.host_bytes(); }
  CapturedUse captured() const;
  const StreamUse& streams() const { return streams_; }

 private:
  MemoryExecutor(Device& device, Operators& operators,
                 const TrainingGraph& training, const MemoryPlan& plan,
                 const ExecutionOptions& options)
      : device_(device),
        training_(training),
        plan_(plan),
        options_(options),
        operators_(operators),
        graph_budget_(options.graph_memory) {}

  Status Check() const;
  Status CheckRounds() const;
  Status CheckExchange() const;
  Status AllocateMemory(DeviceBuffer* host);
  Status MakeQueues();
  Status UploadParameters(const Parameters& parameters);
  bool normalises() const;
  BatchSize mini_batch() const {
    return options_.mini_batch > BatchSize() ? options_.mini_batch
                                             : training_.batch;
  }
  // The round's part of an input, on the host.
  const char* InputOf(std::size_t block, std::int64_t first) const;
  RoundState StateOf(const PreparedRound& round, std::int64_t first);

  // Captures all rounds as they come in an iteration; where `forked`, the
  // stretches whose tasks may run at once. kDataLoss if the device is lost;
  // other failures are noted in `problem`.
  Status CaptureRounds(bool forked, std::string* problem);
  // Whether more can be captured.
  Result<bool> CaptureRound(PreparedRound& round, bool adds, bool forked,
                            std::string* problem);
  Result<std::unique_ptr<CapturedWork>> CaptureStretch(
      const PreparedRound& round, const Stretch& stretch,
      const RoundState& state, bool forked);
  // Finds out whether several streams are faster: what it needs to know before
  // the first step, and after each that was tried.
  void BeginTrial();
  void EndTrial();
  bool captured_forks() const;
  bool IsWorthCapturing(const PreparedRound& round,
                        const Stretch& stretch) const;

  Status LoadInputs(const PreparedRound& round, std::int64_t first);
  Status RunRound(PreparedRound& round, std::int64_t first, StepReport* report,
                  double* loss);
  Status RunCommand(PreparedRound& round, std::size_t index,
                    const RoundState& state);
  Status RunCompute(PreparedRound& round, std::size_t index,
                    const RoundState& state);
  // Whether captured work has the command's task, which is then enqueued.
  Result<bool> Replay(PreparedRound& round, std::size_t index,
                      const RoundState& state);
  Status EnqueueTask(const Command& command, const RoundState& state);
  Status Await(const PreparedRound& round, const Command& command);
  Status Copy(const Command& command, std::int64_t first);
  Status Poison(MemoryStream stream, char* data, Bytes bytes);
  Status Finish(PreparedRound& round, StepReport* report);
  Status AddTimes(const PreparedRound& round, StepReport* report) const;
  Result<double> LossOf(std::int64_t labels);
  // Runs the round's tasks until the loss, which is returned.
  Result<const Command*> RunForward(PreparedRound& round, std::int64_t first);
  // How many of the labels from image `first` on the network gives the highest
  // of the values that the loss reads.
  Result<std::int64_t> Correct(const Command& loss, std::int64_t first,
                               std::int64_t images);

  Device& device_;
  const TrainingGraph& training_;
  const MemoryPlan& plan_;
  const ExecutionOptions options_;
  Operators& operators_;
  std::vector<TaskOperation> operations_;
  std::optional<TaskRunner> runner_;

  MemoryArenas arenas_;
  DeviceBuffer probabilities_;
  DeviceBuffer poison_;  // on the host, NaN
  std::map<MemoryStream, std::unique_ptr<CopyQueue>> queues_;
  std::map<MemoryStream, std::unique_ptr<Event>> ends_;
  std::unique_ptr<Event> start_;
  std::unique_ptr<Event> stop_;
  std::unique_ptr<Event> passed_;
  std::optional<SharedStatistics> shared_;
  std::vector<PreparedRound> rounds_;
  GraphBudget graph_budget_;
  std::string graph_problem_;
  StreamUse streams_;
  bool tries_ = false;                              // both ways by turns
  bool forks_ = false;                              // in this step
  std::array<std::vector<Nanoseconds>, 2> trials_;  // passes, by forks_

  const TrainingBatch* batch_ = nullptr;  // during a step
  std::size_t labels_block_ = 0;
  // Of each input block but the labels, in a batch: where its images begin, and
  // the size of one.
  struct Input {
    Bytes first;
    Bytes each;
  };
  std::map<std::size_t, Input> inputs_;
  Bytes images_;  // all of them
  std::int64_t labels_per_image_ = 1;
  std::uint32_t steps_ = 0;  // of this executor
};

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_TRAINING_MEMORY_EXECUTOR_H_
