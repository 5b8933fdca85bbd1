#ifndef UCUDNN_CLIENT_EXECUTOR_UNDIVIDED_H_
#define UCUDNN_CLIENT_EXECUTOR_UNDIVIDED_H_

// The plan that needs neither measurements nor a coordinator: every kernel
// whole, by the algorithm that the device itself would take (SuggestWithin in
// device/device.h). What a job runs when there is nothing better.

#include <vector>

#include "base/network.h"
#include "base/plan/plan.h"
#include "base/result.h"
#include "base/units.h"
#include "device/device.h"

namespace ucudnn {

// Every kernel undivided, each within `limit`. Times are 0: nothing was
// measured. A batch of 0 has no kernels. Errors as SuggestWithin, naming the
// kernel.
Result<WorkspacePlan> UndividedPlan(Device& device,
                                    const std::vector<Kernel>& kernels,
                                    BatchSize batch, Bytes limit);

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_EXECUTOR_UNDIVIDED_H_
