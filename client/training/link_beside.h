#ifndef UCUDNN_CLIENT_TRAINING_LINK_BESIDE_H_
#define UCUDNN_CLIENT_TRAINING_LINK_BESIDE_H_

// The rates that copies reach beside a network's own kernels. On an H100,
// copies to the host take 10 % longer beside ResNet-50's forward pass in FP32
// than alone, and as long beside that in TF32.

#include <stop_token>

#include "base/result.h"
#include "base/training/memory_plan.h"
#include "client/training/memory_executor.h"
#include "client/training/prepared_training.h"
#include "device/device.h"
#include "device/operators/operators.h"

namespace ucudnn {

// Trains three steps by `plan`, and sets the link's rates of the training graph
// to what the copies of the last two reached, where `plan` copies enough to
// tell. Plans made before keep their predictions. Returns whether a rate
// changed by more than 1 %. Errors of RunMemoryPlan; kCancelled once `stop` is
// requested.
Result<bool> MeasureLinkBeside(Device& device, Operators& operators,
                               const MemoryPlan& plan,
                               const ExecutionOptions& execution,
                               const std::stop_token& stop, DeviceBuffer* host,
                               PreparedTraining* prepared);

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_TRAINING_LINK_BESIDE_H_
