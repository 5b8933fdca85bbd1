#ifndef UCUDNN_CLIENT_DROPIN_PLANNER_PLAN_TEXT_H_
#define UCUDNN_CLIENT_DROPIN_PLANNER_PLAN_TEXT_H_

// Plan files, read without protobuf: what `ucudnn plan -o json` and a job's
// UCUDNN_PLAN_FILE hold (ranks, each with a workspace plan), or the workspace
// plan alone that `ucudnn solve -o json` prints.

#include <string>
#include <string_view>
#include <vector>

#include "base/plan.h"
#include "base/result.h"
#include "base/units.h"

namespace ucudnn {

struct PlannedKernel {
  BatchSize batch;
  KernelPlan plan;  // its problem is known, its sums are right
};

// The kernels of all ranks of `kind`, and of a workspace plan alone; those of
// which the plan does not tell the problem, or whose micro-batches do not sum
// to the batch, are left out. kInvalidArgument, starting with `source`, if the
// text is no plan, or one without any such kernel.
Result<std::vector<PlannedKernel>> ParseKernelPlans(std::string_view text,
                                                    const std::string& kind,
                                                    std::string_view source);

// The same from a file; errors of ReadFile (base/files/file.h) too.
Result<std::vector<PlannedKernel>> ReadKernelPlans(const std::string& path,
                                                   const std::string& kind);

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_DROPIN_PLANNER_PLAN_TEXT_H_
