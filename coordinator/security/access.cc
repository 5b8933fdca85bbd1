#include "coordinator/security/access.h"

#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "base/service/host.h"
#include "base/text.h"
#include "proto/job_key.h"

namespace ucudnn {

Status CheckRole(const Principal& principal, std::string_view name,
                 const Rule& rule, bool dry_run) {
  const unsigned roles = rule.roles | (dry_run ? rule.dry_run : 0);
  if ((roles & Bit(principal.role)) != 0) return {};
  std::vector<std::string_view> may;
  for (const Role role : kRoles) {
    if ((roles & Bit(role)) != 0) may.push_back(Name(role));
  }
  return Fail(Code::kPermissionDenied, "{} {} may not call {}; {} may",
              Name(principal.role), principal.name, name, fmt::join(may, ", "));
}

Status CheckAccess(const Principal& principal, std::string_view name,
                   const Rule& rule, const Claim& claim,
                   std::string_view job_key) {
  UCUDNN_RETURN_IF_ERROR(CheckRole(principal, name, rule, claim.dry_run));
  if (rule.own == Own::kAgent && principal.role == Role::kAgent &&
      !SameHost(claim.agent_id, principal.name)) {
    return Fail(Code::kPermissionDenied,
                "{} is called for agent '{}' by agent {}, which may only act "
                "for itself (--id {})",
                name, Excerpt(claim.agent_id), principal.name, principal.name);
  }
  if (rule.own == Own::kJob &&
      (job_key.empty() || JobIdOf(job_key) != claim.job_id)) {
    return Fail(Code::kPermissionDenied,
                "{} is called for job '{}' without that job's key", name,
                Excerpt(claim.job_id));
  }
  return {};
}

}  // namespace ucudnn
