#ifndef UCUDNN_CLIENT_SESSION_PLAN_CHECK_H_
#define UCUDNN_CLIENT_SESSION_PLAN_CHECK_H_

// Whether a plan, wherever it comes from, is one that a job can apply.

#include <cstddef>
#include <vector>

#include "base/network.h"
#include "base/plan/job_plan.h"
#include "base/result.h"
#include "device/device.h"

namespace ucudnn {

// kInvalidArgument unless the plan is valid (base/plan/job_plan.h);
// kFailedPrecondition, saying what differs, unless the plan is for the
// request's network, batch, precision, layout and kinds of ranks; gives every
// image to one rank and each rank its share as weight; and divides for each
// rank that has images exactly the job's kernels, or has a memory plan for it,
// as it must where the request has `memory`.
// No kernels: any will do. `with_limits`: each kernel must also keep to the
// request's workspace limit, or all together to its total. Memory plans keep to
// the budgets that the request names, and have momentum if it has.
Status CheckPlan(const JobPlan& plan, const JobRequest& request,
                 const std::vector<Kernel>& kernels, bool with_limits);

// kFailedPrecondition unless the device prepares each algorithm of the plan,
// with no more workspace than the plan has for it; once for each problem, batch
// size and algorithm.
Status CheckOnDevice(Device& device, const WorkspacePlan& plan);

// kFailedPrecondition, or an error of MemoryPlanOf (base/training/json.h),
// unless the rank has no images, or a memory plan of them that is safe to
// execute (solver/check/memory_plan.h), of the convolutions that the job's
// kernels are, within `memory`, which the device has. No kernels: any
// convolutions will do. Costs about one planned iteration's check.
Status CheckMemoryPlan(const JobPlan& plan, std::size_t rank,
                       const std::vector<Kernel>& kernels, Bytes memory);

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_SESSION_PLAN_CHECK_H_
