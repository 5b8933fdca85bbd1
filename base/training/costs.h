#ifndef UCUDNN_BASE_TRAINING_COSTS_H_
#define UCUDNN_BASE_TRAINING_COSTS_H_

// Sets the device of a training graph and the measurements of its tasks, from
// which CostsAt (base/training/graph.h) takes their costs.

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

// Sets the convolutions' measurements. Layers are matched by name; if the
// profile has other names, by problem, of which all must be there (as of a
// network in parts of the image), or by position, if the profile does not tell
// problems and has as many layers. `kernels` are of one device, network and
// precision (SelectKernels). Filter gradients of less than the graph's
// mini-batch cost their adding time, since all but the first add to it.
// Convolutions without a kernel keep the device model's rate. kInvalidArgument,
// naming what is missing, if layers cannot be matched.
Status SetConvolutionCosts(const Profile& kernels, TrainingGraph* graph);

// Sets the measurements of tasks other than convolutions, by their node's name
// and kind: "forward", "backward", "backward_filter", "backward_data" or
// "update". Times of unknown nodes and of convolutions are ignored. An update
// takes its time at any batch, every other task with measurements only at the
// measured batches.
void SetTaskCosts(const std::vector<TaskTime>& times, TrainingGraph* graph);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_TRAINING_COSTS_H_
