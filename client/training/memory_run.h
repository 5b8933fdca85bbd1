#ifndef UCUDNN_CLIENT_TRAINING_MEMORY_RUN_H_
#define UCUDNN_CLIENT_TRAINING_MEMORY_RUN_H_

// Some steps of a training as a memory plan says, and what they took.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <stop_token>
#include <vector>

#include "base/result.h"
#include "base/training/memory_plan.h"
#include "client/training/memory_executor.h"
#include "client/training/prepared_training.h"
#include "device/device.h"
#include "device/operators/operators.h"

namespace ucudnn {

struct MemoryRunOptions {
  std::int64_t steps = 10;
  // The first steps, which load code, are not timed; at least one is.
  std::int64_t warm_up = 2;
  ExecutionOptions execution = {};
  // Called before the first step, when all is prepared; may be empty.
  std::function<Status()> begin = {};
};

struct MemoryRun {
  // A step, with its time on the host. Only its loss is kept unless it counts.
  void Add(const StepReport& step, Nanoseconds wall, bool counts);
  Nanoseconds Median() const;  // of the times

  std::vector<double> losses;  // of all steps
  // Of those that count.
  std::vector<Nanoseconds> times;   // on the device
  std::vector<Nanoseconds> passes;  // of it, until the gradients were there
  std::vector<Nanoseconds> walls;   // with loading the images, on the host
  std::vector<CopyTotals> offloads;
  std::vector<CopyTotals> prefetches;
  // Sums over them.
  StepReport total;
  CapturedUse captured;
  StreamUse streams;
  Bytes host;    // for blocks that leave
  Bytes images;  // on the host, of the mini-batch
  bool interrupted = false;
};

// The copies of one step: their median time.
CopyTotals MedianOf(const std::vector<CopyTotals>& copies);

// Trains on the same random images in every step. Stops after the current step
// once `stop` is requested. Errors of MemoryExecutor.
Result<MemoryRun> RunMemoryPlan(Device& device, Operators& operators,
                                const PreparedTraining& prepared,
                                const MemoryPlan& plan,
                                const MemoryRunOptions& options,
                                const std::stop_token& stop,
                                DeviceBuffer* host = nullptr);

// One object: the plan's promises and what became of them. Of a rank by itself,
// whose passes are all of its step.
nlohmann::ordered_json ToJson(const PreparedTraining& prepared,
                              const MemoryPlan& plan, const MemoryRun& run);

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_TRAINING_MEMORY_RUN_H_
