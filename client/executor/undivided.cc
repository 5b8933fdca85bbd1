#include "client/executor/undivided.h"

#include <utility>

#include "device/accuracy.h"

namespace ucudnn {

Result<WorkspacePlan> UndividedPlan(Device& device,
                                    const std::vector<Kernel>& kernels,
                                    BatchSize batch, Bytes limit,
                                    double max_error) {
  AlgorithmErrors errors;
  WorkspacePlan plan;
  plan.batch = batch;
  plan.workspace_limit = limit;
  if (batch == BatchSize(0)) return plan;
  for (const Kernel& kernel : kernels) {
    Result<Candidate> candidate =
        SuggestWithin(device, kernel.problem, batch, limit, max_error, &errors);
    if (!candidate) {
      return Within(fmt::format("{} {}", kernel.layer, Name(kernel.op)),
                    std::move(candidate).error());
    }
    KernelPlan planned;
    planned.layer = kernel.layer;
    planned.op = kernel.op;
    planned.precision = kernel.problem.precision;
    planned.layout = kernel.problem.layout;
    planned.problem = kernel.problem;
    planned.workspace = candidate->workspace;
    planned.micro_batches = {{.batch = batch,
                              .count = 1,
                              .algorithm = candidate->algorithm,
                              .time = Nanoseconds(0),
                              .workspace = candidate->workspace}};
    plan.total_workspace += candidate->workspace;
    plan.kernels.push_back(std::move(planned));
  }
  return plan;
}

}  // namespace ucudnn
