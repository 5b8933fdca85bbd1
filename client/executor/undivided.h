#ifndef UCUDNN_CLIENT_EXECUTOR_UNDIVIDED_H_
#define UCUDNN_CLIENT_EXECUTOR_UNDIVIDED_H_

// The plan that needs neither measurements nor a coordinator: every kernel
// undivided, with the algorithm that the device itself suggests, unless it errs
// by more than admitted (SuggestWithin in device/accuracy.h). The last resort
// of a job.

#include <vector>

#include "base/accuracy.h"
#include "base/network.h"
#include "base/plan/plan.h"
#include "base/result.h"
#include "base/units.h"
#include "device/device.h"

namespace ucudnn {

// Every kernel undivided, each within `limit`. Times are 0, since nothing was
// measured. For a batch of 0 there are no kernels. Errors of SuggestWithin,
// prefixed with the kernel.
Result<WorkspacePlan> UndividedPlan(Device& device,
                                    const std::vector<Kernel>& kernels,
                                    BatchSize batch, Bytes limit,
                                    double max_error = kDefaultMaxError);

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_EXECUTOR_UNDIVIDED_H_
