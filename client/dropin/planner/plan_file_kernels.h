#ifndef UCUDNN_CLIENT_DROPIN_PLANNER_PLAN_FILE_KERNELS_H_
#define UCUDNN_CLIENT_DROPIN_PLANNER_PLAN_FILE_KERNELS_H_

// The kernels of plan files: of a job's plan, which `ucudnn plan -o json`
// prints and a job's UCUDNN_PLAN_FILE holds, or of the workspace plan alone
// that `ucudnn solve -o json` prints.

#include <string>
#include <string_view>
#include <vector>

#include "base/plan/plan.h"
#include "base/result.h"
#include "base/units.h"

namespace ucudnn {

struct FileKernel {
  BatchSize batch;
  KernelPlan plan;  // its problem is known
};

// The kernels of the ranks of `kind`, those of equal ranks once, or of a
// workspace plan alone; those of which the plan does not tell the problem are
// left out. kInvalidArgument, starting with `source`, if the text is no plan
// (base/plan/plan_json.h), or one without any such kernel.
Result<std::vector<FileKernel>> ParseKernelPlans(std::string_view text,
                                                 const std::string& kind,
                                                 std::string_view source);

// The same from a file; errors of ReadFile (base/files/file.h) too.
Result<std::vector<FileKernel>> ReadKernelPlans(const std::string& path,
                                                const std::string& kind);

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_DROPIN_PLANNER_PLAN_FILE_KERNELS_H_
