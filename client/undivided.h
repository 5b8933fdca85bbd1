#ifndef UCUDNN_CLIENT_UNDIVIDED_H_
#define UCUDNN_CLIENT_UNDIVIDED_H_

// The plan that needs neither measurements nor a coordinator: every kernel
// whole, by the first algorithm that the device lists and that fits. What a
// job runs when there is nothing better.

#include <vector>

#include "base/network.h"
#include "base/plan.h"
#include "base/result.h"
#include "base/units.h"
#include "device/device.h"

namespace ucudnn {

// The first candidate for `problem` on `batch` images, in the device's order,
// whose workspace is at most `limit`. kFailedPrecondition, naming the smallest
// limit that would do, if none fits; what ListAlgorithms fails with otherwise.
Result<Candidate> FirstThatFits(Device& device, const ConvProblem& problem,
                                BatchSize batch, Bytes limit);

// Every kernel undivided, each within `limit`. Times are 0: nothing was
// measured. A batch of 0 has no kernels. Errors as FirstThatFits, naming the
// kernel.
Result<WorkspacePlan> UndividedPlan(Device& device,
                                    const std::vector<Kernel>& kernels,
                                    BatchSize batch, Bytes limit);

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_UNDIVIDED_H_
