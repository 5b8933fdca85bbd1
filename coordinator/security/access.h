#ifndef UCUDNN_COORDINATOR_SECURITY_ACCESS_H_
#define UCUDNN_COORDINATOR_SECURITY_ACCESS_H_

// Who may make a call. Each call's rule is in the table of calls
// (coordinator/calls.h), for gRPC and REST.

#include <string_view>

#include "base/result.h"
#include "coordinator/security/principal.h"

namespace ucudnn {

// Sets of roles, for rules.
constexpr unsigned Bit(Role role) { return 1U << static_cast<unsigned>(role); }
inline constexpr unsigned kForAgents = Bit(Role::kAgent);
inline constexpr unsigned kForJobs = Bit(Role::kJob);
inline constexpr unsigned kForAdmins = Bit(Role::kAdmin);
inline constexpr unsigned kForOperators = Bit(Role::kOperator) | kForAdmins;
inline constexpr unsigned kForPlanners = kForJobs | kForOperators;
inline constexpr unsigned kForReaders = Bit(Role::kViewer) | kForPlanners;

// What else a call requires.
enum class Own {
  kNothing,
  // The request's agent is the caller, if that is one; names of hosts may be
  // full or short.
  kAgent,
  kJob,  // the caller knows the key of the request's job
};

struct Rule {
  unsigned roles = 0;
  Own own = Own::kNothing;
  unsigned dry_run = 0;  // roles that may only try
};

// What is no call of our services.
inline constexpr Rule kReadMetrics{kForReaders};
inline constexpr Rule kReflect{kForAdmins};

// What a request claims about itself.
struct Claim {
  std::string_view agent_id;  // of an agent's call
  std::string_view job_id;    // of a job's call
  bool dry_run = false;
};

// kPermissionDenied, naming the roles that may, unless `principal` may make the
// call `name`; `job_key` is what the caller showed (proto/job_key.h).
Status CheckAccess(const Principal& principal, std::string_view name,
                   const Rule& rule, const Claim& claim,
                   std::string_view job_key);

// The same before the request is read: whether they may make any such call.
Status CheckRole(const Principal& principal, std::string_view name,
                 const Rule& rule, bool dry_run = true);

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_SECURITY_ACCESS_H_
