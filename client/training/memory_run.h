#ifndef UCUDNN_CLIENT_TRAINING_MEMORY_RUN_H_
#define UCUDNN_CLIENT_TRAINING_MEMORY_RUN_H_

// Some steps of a training as a memory plan says, and what they took.

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <stop_token>
#include <string>
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
};

struct MemoryRun {
  std::vector<double> losses;      // of all steps
  std::vector<Nanoseconds> times;  // of those that count, on the device
  std::vector<Nanoseconds> walls;  // with loading the images, on the host
  std::map<std::string, Nanoseconds> stalls;  // mean of those that count
  std::map<std::string, Nanoseconds> planned_stalls;
  Nanoseconds enqueue{0};  // the host's; mean of those that count
  // Of one step: the median time of those that count.
  CopyTotals offloads;
  CopyTotals prefetches;
  // By task, if tasks are timed: means of those that count, and the plan's.
  std::map<std::size_t, Nanoseconds> tasks;
  std::map<std::size_t, Nanoseconds> planned_tasks;
  CapturedUse captured;
  Bytes arena;
  Bytes host;    // for blocks that leave
  Bytes images;  // on the host, of the mini-batch
  bool interrupted = false;

  Nanoseconds Median() const;
};

// Trains on the same images in every step. Stops after the current step once
// `stop` is requested. Errors of MemoryExecutor.
Result<MemoryRun> RunMemoryPlan(Device& device, Operators& operators,
                                const PreparedTraining& prepared,
                                const MemoryPlan& plan,
                                const MemoryRunOptions& options,
                                const std::stop_token& stop,
                                DeviceBuffer* host = nullptr);

// One object: the network, the plan's promises and what became of them.
nlohmann::ordered_json ToJson(const PreparedTraining& prepared,
                              const MemoryPlan& plan, const MemoryRun& run);
// Rows of names and values for people.
std::vector<std::vector<std::string>> ToRows(const PreparedTraining& prepared,
                                             const MemoryPlan& plan,
                                             const MemoryRun& run);

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_TRAINING_MEMORY_RUN_H_
