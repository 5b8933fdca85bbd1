#include "solver/check/validate.h"
#include "solver/knapsack/wd.h"
#include "solver/micro_batch/wr.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/instance.h"

namespace ucudnn {

// A plan that an independent check accepts, never slower than WR with the
// limit shared evenly, or an error.
UCUDNN_FUZZ(wd, text) {
  FuzzBytes bytes(text);
  const WrRequest request = FuzzRequest(bytes);
  Profile profile;
  while (!bytes.empty() && profile.kernels.size() < 8) {
    // Some kernels are alike.
    if (!profile.kernels.empty() && bytes.Byte() % 3 == 0) {
      profile.kernels.push_back(profile.kernels.back());
    } else {
      profile.kernels.push_back(FuzzKernel(bytes, profile.kernels.size()));
    }
  }
  const auto plan =
      SolveWd(profile, request, {.max_nodes = 20'000, .stop = {}});
  WrRequest each = request;
  if (!profile.kernels.empty() && request.workspace_limit >= Bytes(0)) {
    each.workspace_limit =
        Bytes(request.workspace_limit.count() / std::ssize(profile.kernels));
  }
  const auto even = SolveWr(profile, each);
  if (!plan) {
    CheckError(plan.error());
    UCUDNN_CHECK(!even || plan.error().code == Code::kOutOfRange);
    return;
  }
  UCUDNN_CHECK(ValidatePlan(*plan, profile,
                            {WorkspaceMode::kDivision, request.policy, {}}));
  UCUDNN_CHECK(!even || !plan->optimal || plan->total_time <= even->total_time);
}

}  // namespace ucudnn
