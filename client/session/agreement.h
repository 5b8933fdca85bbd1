#ifndef UCUDNN_CLIENT_SESSION_AGREEMENT_H_
#define UCUDNN_CLIENT_SESSION_AGREEMENT_H_

// How the ranks of a job come to one plan. Every function is collective and
// has the same outcome on all ranks, or an error of the ranks'
// (client/ranks/ranks.h) where they cannot agree.

#include <string>
#include <vector>

#include "base/result.h"
#include "client/ranks/ranks.h"
#include "client/session/config.h"
#include "client/session/plan_search.h"
#include "client/session/session.h"
#include "device/device.h"

namespace ucudnn {

// What all ranks know once they have agreed.
struct Agreement {
  FoundPlan found;
  std::string reason;  // Session::reason
  SessionConfig config;
  // By rank.
  std::vector<std::string> device_ids;
  std::vector<std::string> hosts;
  // Rank 0's.
  std::string job_id;
};

// Errors and bounds as Session::Create.
Result<Agreement> AgreeOnPlan(Ranks& ranks, const SessionOptions& options,
                              Device& device);

// Rank 0's plan on all ranks, if each rank's device can run its part of it;
// else the first rank's error, inside. `plan` counts on rank 0 alone.
Result<Result<JobPlan>> ShareIfRunnable(Ranks& ranks, const JobPlan& plan,
                                        Device& device,
                                        Ranks::Deadline deadline);

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_SESSION_AGREEMENT_H_
