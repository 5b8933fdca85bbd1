#include "coordinator/security/access.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/service/host.h"
#include "base/text.h"
#include "proto/job_key.h"

namespace ucudnn {
namespace {

constexpr unsigned Bit(Role role) { return 1U << static_cast<unsigned>(role); }

constexpr unsigned kAgents = Bit(Role::kAgent);
constexpr unsigned kJobs = Bit(Role::kJob);
constexpr unsigned kAdmins = Bit(Role::kAdmin);
constexpr unsigned kOperators = Bit(Role::kOperator) | kAdmins;
constexpr unsigned kPlanners = kJobs | kOperators;
constexpr unsigned kReaders = Bit(Role::kViewer) | kPlanners;

// What else a call requires.
enum class Own {
  kNothing,
  // The request's agent is the caller, if that is one; names of hosts may be
  // full or short.
  kAgent,
  kJob,    // the caller knows the key of the request's job
};

struct Rule {
  std::string_view call;
  unsigned roles = 0;
  Own own = Own::kNothing;
  unsigned dry_run = 0;  // roles that may only try
};

constexpr auto kRules = std::to_array<Rule>({
    {"Register", kAgents, Own::kAgent},
    {"LeaseTasks", kAgents, Own::kAgent},
    {"ReportTask", kAgents, Own::kAgent},
    {"ReportDeviceModel", kAgents, Own::kAgent},
    {"Heartbeat", kAgents, Own::kAgent},
    {"Leave", kAgents, Own::kAgent},

    {"RegisterJob", kJobs, Own::kJob},
    {"ReportSteps", kJobs, Own::kJob},
    {"AnswerRevision", kJobs, Own::kJob},
    {"FinishJob", kJobs, Own::kJob},

    {"CreatePlan", kPlanners},
    {"Measure", kPlanners, Own::kNothing, kReaders},

    {"PutNetwork", kOperators},
    {"ReplanJob", kOperators},
    {"CancelTasks", kOperators},
    // Where an agent is, its scheduler cordons and resumes it for jobs.
    {"HoldAgent", kAgents | kOperators, Own::kAgent},

    {"PutProfile", kAdmins},
    {"DeleteNetwork", kAdmins},
    {"DeletePlan", kAdmins},
    {"DeleteJob", kAdmins},
    {"DeleteAgent", kAdmins},
    {"Prune", kAdmins, Own::kNothing, kOperators},
    {kReflect, kAdmins},

    {"ListAgents", kAgents | kReaders},
    {"GetAgent", kReaders},
    {"ListDevices", kAgents | kReaders},
    {"GetDevice", kReaders},
    {"ListNetworks", kReaders},
    {"GetNetwork", kReaders},
    {"ListProfiles", kReaders},
    {"GetProfile", kReaders},
    {"GetProblemProfile", kReaders},
    {"GetDeviceModel", kReaders},
    {"ListCampaigns", kReaders},
    {"GetCampaign", kReaders},
    {"ListTasks", kReaders},
    {"GetTask", kReaders},
    {"ListActions", kReaders},
    {"ListPlans", kReaders},
    {"GetPlan", kReaders},
    {"GetFront", kReaders},
    {"ListJobs", kReaders},
    {"GetJob", kReaders},
    {"GetJobRank", kReaders},
    {"Allocate", kReaders},  // reserves and stores nothing
    {"GetStatus", kReaders},
    {kReadMetrics, kReaders},
});

Status Refuse(const Principal& principal, std::string_view call,
              unsigned roles) {
  std::vector<std::string_view> may;
  for (const Role role : kRoles) {
    if ((roles & Bit(role)) != 0) may.push_back(Name(role));
  }
  return Fail(Code::kPermissionDenied, "{} {} may not call {}; {} may",
              Name(principal.role), principal.name, call, fmt::join(may, ", "));
}

}  // namespace

Status CheckAccess(const Principal& principal, std::string_view call,
                   const Claim& claim, std::string_view job_key) {
  const auto* const rule = std::ranges::find(kRules, call, &Rule::call);
  if (rule == kRules.end()) return Refuse(principal, call, 0);
  const unsigned roles = rule->roles | (claim.dry_run ? rule->dry_run : 0);
  if ((roles & Bit(principal.role)) == 0) {
    return Refuse(principal, call, roles);
  }
  if (rule->own == Own::kAgent && principal.role == Role::kAgent &&
      !SameHost(claim.agent_id, principal.name)) {
    return Fail(Code::kPermissionDenied,
                "{} is called for agent '{}' by agent {}, which may only act "
                "for itself (--id {})",
                call, Excerpt(claim.agent_id), principal.name, principal.name);
  }
  if (rule->own == Own::kJob &&
      (job_key.empty() || JobIdOf(job_key) != claim.job_id)) {
    return Fail(Code::kPermissionDenied,
                "{} is called for job '{}' without that job's key", call,
                Excerpt(claim.job_id));
  }
  return {};
}

}  // namespace ucudnn
