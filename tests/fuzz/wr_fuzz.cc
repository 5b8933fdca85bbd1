#include "solver/check/validate.h"
#include "solver/micro_batch/pareto.h"
#include "solver/micro_batch/wr.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/instance.h"

namespace ucudnn {

// Whatever was measured: a plan that an independent check accepts or an error;
// a front whose last point is no faster than the plan, with plans of its own.
UCUDNN_FUZZ(wr, text) {
  FuzzBytes bytes(text);
  const WrRequest request = FuzzRequest(bytes);
  Profile profile;
  while (!bytes.empty() && profile.kernels.size() < 4) {
    profile.kernels.push_back(FuzzKernel(bytes, profile.kernels.size()));
  }
  const auto plan = SolveWr(profile, request);
  if (!plan) {
    CheckError(plan.error());
  } else {
    UCUDNN_CHECK(ValidatePlan(*plan, profile,
                              {WorkspaceMode::kReuse, request.policy, {}}));
  }
  for (std::size_t k = 0; k < profile.kernels.size(); ++k) {
    const KernelProfile& kernel = profile.kernels[k];
    const auto alone = SolveWr(kernel, request);
    const auto front = SolvePareto(kernel.points, request);
    UCUDNN_CHECK(alone.has_value() == front.has_value());
    if (!front) {
      CheckError(front.error());
      UCUDNN_CHECK(front.error().code == alone.error().code);
      continue;
    }
    UCUDNN_CHECK(front->points().back().time <= alone->time);
    for (std::size_t i = 0; i < front->points().size(); ++i) {
      std::int64_t images = 0;
      for (const MicroBatch& micro : front->PlanAt(i)) {
        images += micro.batch.count() * micro.count;
      }
      UCUDNN_CHECK(images == request.batch.count());
    }
  }
}

}  // namespace ucudnn
