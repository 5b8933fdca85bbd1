#ifndef UCUDNN_COORDINATOR_SECURITY_ACCESS_H_
#define UCUDNN_COORDINATOR_SECURITY_ACCESS_H_

// Who may make which call: one table (access.cc), for gRPC and REST.

#include <string_view>

#include "base/result.h"
#include "coordinator/security/principal.h"

namespace ucudnn {

// What is neither in AgentService nor in CoordinatorService.
inline constexpr std::string_view kReadMetrics = "metrics";
inline constexpr std::string_view kReflect = "reflection";

// What a request claims about itself.
struct Claim {
  std::string_view agent_id;  // of an agent's call
  std::string_view job_id;    // of a job's call
  bool dry_run = false;
};

// kPermissionDenied, naming the roles that may, unless `principal` may make the
// call; `job_key` is what the caller showed (proto/job_key.h). A call that the
// table does not have is nobody's.
Status CheckAccess(const Principal& principal, std::string_view call,
                   const Claim& claim, std::string_view job_key);

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_SECURITY_ACCESS_H_
