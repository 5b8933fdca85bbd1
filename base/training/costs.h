#ifndef UCUDNN_BASE_TRAINING_COSTS_H_
#define UCUDNN_BASE_TRAINING_COSTS_H_

// Gives the tasks of a training graph the device that they run on and what was
// measured of them; CostsAt (base/training/graph.h) then knows what they cost.

#include <string>
#include <string_view>
#include <vector>

#include "base/profile.h"
#include "base/result.h"
#include "base/training/device_model.h"
#include "base/training/graph.h"
#include "base/training/task_times.h"

namespace ucudnn {

// Sets the device. Errors of Validate.
Status SetDevice(const DeviceModel& device, TrainingGraph* graph);

// Gives the convolutions their measurements: those of a kernel that is named as
// their layer or, where the profile names all layers otherwise and has as many,
// in the layer's place. `kernels` are of one device, network and precision
// (SelectKernels). Convolutions without a kernel keep the device model's rate.
// kInvalidArgument if names differ and the numbers of layers do too.
Status SetConvolutionCosts(const Profile& kernels, TrainingGraph* graph);

// Gives tasks that are no convolutions their measurements, by their node's name
// and what they are: "forward", "backward", "backward_filter", "backward_data"
// or "update". Times of other nodes are ignored, convolutions' too. An update
// takes its time at any batch, every other task at the measured batches only,
// if it has any.
void SetTaskCosts(const std::vector<TaskTime>& times, TrainingGraph* graph);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_TRAINING_COSTS_H_
