#ifndef UCUDNN_DEVICE_TRAINING_MEASURE_TASKS_H_
#define UCUDNN_DEVICE_TRAINING_MEASURE_TASKS_H_

// Measures every task of a training graph on a device, so that memory plans are
// made from the times of the operators that execute them.

#include <cstddef>
#include <set>
#include <span>
#include <stop_token>
#include <vector>

#include "base/result.h"
#include "base/training/graph.h"
#include "device/device.h"
#include "device/operators/operators.h"
#include "device/training/task_operations.h"

namespace ucudnn {

struct TaskMeasureOptions {
  // Batches to measure; MeasuredBatches is a choice that suits all policies.
  std::vector<BatchSize> batches;
  Bytes max_workspace = 1_GiB;
  int repeats = 3;  // of each task, after one run to warm up
  // Of each task, whether its convolution is measured elsewhere: then only what
  // it does beside is, and it has no measurement if that is nothing. Empty: of
  // none.
  std::vector<bool> measured_elsewhere = {};
  // Normalisations take their statistics as ranks do that exchange them
  // (rank_exchange.h): sums first, and then what they make of them.
  bool exchanged_statistics = false;
  // Measures these tasks only. Empty: all.
  std::set<std::size_t> only = {};
};

// The mini-batch, and below it what policies divide it into: its halves down to
// 1/32, and multiples of 64 images.
std::vector<BatchSize> MeasuredBatches(BatchSize batch);

// Sets the measurements of all tasks: of convolutions and fully connected
// layers every algorithm within the workspace, of others their time. Tasks of
// equal shape are measured once, as rounds run them: data gradients with beta 1
// where branches meet, and max pools on what ReLUs write. A bias gradient runs
// once a round, so micro-batches have their share of that of the largest batch.
// Needs device memory for the largest task's blocks and twice the device's
// cache. kCancelled once `stop` is requested; kResourceExhausted without the
// memory; the device's errors.
Status MeasureTasks(Device& device, Operators& operators,
                    std::span<const TaskOperation> operations,
                    const TaskMeasureOptions& options,
                    const std::stop_token& stop, TrainingGraph* training);

}  // namespace ucudnn

#endif  // UCUDNN_DEVICE_TRAINING_MEASURE_TASKS_H_
