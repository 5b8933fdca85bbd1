#ifndef UCUDNN_CLIENT_TRAINING_LINK_UNDER_LOAD_H_
#define UCUDNN_CLIENT_TRAINING_LINK_UNDER_LOAD_H_

// The rates that copies reach beside a network's own kernels. On an H100,
// copies to the host take 10 % longer beside ResNet-50's forward pass in FP32
// than alone, and as long beside that in TF32.

#include <functional>
#include <stop_token>

#include "base/result.h"
#include "base/training/device_model.h"
#include "base/training/memory_plan.h"
#include "client/training/memory_executor.h"
#include "client/training/prepared_training.h"
#include "device/device.h"
#include "device/operators/operators.h"

namespace ucudnn {

// Sets `rate` to what `copies` reached beside `latency` for each, and returns
// true, if they were long enough to tell and reached another one, by more than
// 1 %. Otherwise it stays, since a plan is only valid with the rates that it
// was made with.
bool UpdateRate(const CopyTotals& copies, Nanoseconds latency, double* rate);

// Trains six steps by `plan`, once `begin` returns, and updates the rates of
// `link` with the medians of the last five. Copies are slower beside kernels
// than alone, and beside those of other ranks, so the rates are those of this
// plan. Returns whether one changed. Errors of RunMemoryPlan and of `begin`;
// kCancelled once `stop` is requested.
Result<bool> MeasureLinkUnderLoad(Device& device, Operators& operators,
                                  const PreparedTraining& prepared,
                                  const MemoryPlan& plan,
                                  const ExecutionOptions& execution,
                                  const std::function<Status()>& begin,
                                  const std::stop_token& stop,
                                  DeviceBuffer* host, DeviceModel* link);

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_TRAINING_LINK_UNDER_LOAD_H_
