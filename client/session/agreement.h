#ifndef UCUDNN_CLIENT_SESSION_AGREEMENT_H_
#define UCUDNN_CLIENT_SESSION_AGREEMENT_H_

// How the ranks of a job agree on a plan. Every function is collective and has
// the same outcome on all ranks, or an error of client/ranks/ranks.h if they
// cannot agree.

#include <string>
#include <vector>

#include "base/result.h"
#include "client/ranks/ranks.h"
#include "client/session/config.h"
#include "client/session/plan_search.h"
#include "client/session/session.h"
#include "device/device.h"

namespace ucudnn {

// What all ranks know after they have agreed.
struct Agreement {
  PlanSearch::Found found;
  std::string reason;  // see Session::reason
  SessionConfig config;
  // By rank.
  std::vector<std::string> device_ids;
  std::vector<std::string> hosts;
  // Picked by rank 0 (proto/job_key.h).
  std::string job_key;
};

// Errors and bounds of Session::Create.
Result<Agreement> AgreeOnPlan(Ranks& ranks, const SessionOptions& options,
                              Device& device);

// Returns rank 0's plan on all ranks, if each rank's device can run its part;
// otherwise the first rank's error as the inner result. Only rank 0's `plan` is
// used. `kernels` are the job's; empty if they are not known.
Result<Result<JobPlan>> ShareIfRunnable(Ranks& ranks, const JobPlan& plan,
                                        const std::vector<Kernel>& kernels,
                                        Device& device,
                                        Ranks::Deadline deadline);

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_SESSION_AGREEMENT_H_
