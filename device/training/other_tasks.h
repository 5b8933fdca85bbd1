#ifndef UCUDNN_DEVICE_TRAINING_OTHER_TASKS_H_
#define UCUDNN_DEVICE_TRAINING_OTHER_TASKS_H_

// Measures the tasks of a network's training iteration that are not
// convolutions (base/other_tasks.h), and what convolutions do beside: adding
// biases, and copying gradients where branches meet.

#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/measured_point.h"
#include "base/other_tasks.h"
#include "base/result.h"
#include "base/units.h"
#include "device/device.h"
#include "device/operators/operators.h"

namespace ucudnn {

struct OtherTasksCampaign {
  OtherTasks tasks;
  std::string_view model;  // the network's ONNX model
  BatchSize batch;
  // Measures the task of this name only.
  std::string only = {};
};

// One point of each task, with its name as the algorithm's and no workspace: of
// a task with algorithms (a fully connected layer) that of the fastest, since
// no request limits its workspace. Convolutions have a point where they do
// something beside, and tasks that normalise a second one (kExchanged).
// kInvalidArgument: the model is not to be had or there is no such task; errors
// of ReadOnnx, BuildTrainingGraph, OperationsOf and
// MeasureTasks.
Result<std::vector<MeasuredPoint>> MeasureOtherTasks(
    Device& device, Operators& operators, const OtherTasksCampaign& campaign,
    const std::stop_token& stop);

}  // namespace ucudnn

#endif  // UCUDNN_DEVICE_TRAINING_OTHER_TASKS_H_
