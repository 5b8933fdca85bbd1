#include "coordinator/calls.h"

#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>

#include "coordinator/coordinator.h"
#include "ucudnn/v1/agent.pb.h"
#include "ucudnn/v1/coordinator.pb.h"

namespace ucudnn {
namespace {

using google::protobuf::Message;

// A method of a service, without its types.
template <auto kMethod>
struct Bound;

template <class Service, class Request, class Response,
          Result<Response> (Service::*kMethod)(const Request&)>
struct Bound<kMethod> {
  static constexpr bool kIsPlanBytes = std::is_same_v<Response, PlanBytes>;

  static std::unique_ptr<Message> NewRequest() {
    return std::make_unique<Request>();
  }
  static std::unique_ptr<Message> NewResponse() {
    return std::make_unique<
        std::conditional_t<kIsPlanBytes, v1::Plan, Response>>();
  }

  static Claim ClaimOf(const Message& message) {
    [[maybe_unused]] const auto& request = static_cast<const Request&>(message);
    Claim claim;
    if constexpr (requires { request.agent_id(); }) {
      claim.agent_id = request.agent_id();
    }
    if constexpr (requires { request.job_id(); }) {
      claim.job_id = request.job_id();
    }
    if constexpr (requires { request.dry_run(); }) {
      claim.dry_run = request.dry_run();
    }
    return claim;
  }

  static Result<Answer> Run(Coordinator& coordinator, const Principal* who,
                            Message& message) {
    auto& request = static_cast<Request&>(message);
    auto& service = coordinator.Get<Service>();
    if (who != nullptr) {
      if constexpr (requires { request.set_who(std::string()); }) {
        request.set_who(NameOf(*who));
      }
    }
    UCUDNN_ASSIGN_OR_RETURN(auto response, (service.*kMethod)(request));
    if constexpr (kIsPlanBytes) {
      return Answer{.message = nullptr, .bytes = std::move(response)};
    } else {
      return Answer{.message = std::make_unique<Response>(std::move(response)),
                    .bytes = nullptr};
    }
  }
};

// What bodies may be of. Nothing that pages of other sites may send unasked.
constexpr std::array<std::string_view, 1> kJson = {"application/json"};
constexpr std::array<std::string_view, 2> kNetworkFile = {
    "text/csv", "application/octet-stream"};

template <auto kMethod>
constexpr CallSpec Row(std::string_view name, const Rule& rule,
                       std::string_view route = "",
                       CallSort sort = CallSort::kShort, bool has_tag = false,
                       std::span<const std::string_view> body_types = {}) {
  using Method = Bound<kMethod>;
  return {.name = name,
          .rule = rule,
          .sort = sort,
          .route = route,
          .body_types = route.starts_with("POST") ? kJson : body_types,
          .has_tag = has_tag,
          .new_request = Method::NewRequest,
          .new_response = Method::NewResponse,
          .claim = Method::ClaimOf,
          .run = Method::Run};
}

constexpr CallSort kShort = CallSort::kShort;
constexpr CallSort kLong = CallSort::kLong;

constexpr Rule kOwnAgent{kForAgents, Own::kAgent};
constexpr Rule kOwnJob{kForJobs, Own::kJob};
constexpr Rule kRead{kForReaders};
constexpr Rule kReadByAgents{kForAgents | kForReaders};
constexpr Rule kPlan{kForPlanners};
constexpr Rule kOperate{kForOperators};
constexpr Rule kAdministrate{kForAdmins};

constexpr auto kCalls = std::to_array<CallSpec>({
    // Agents.
    Row<&AgentService::Register>("Register", kOwnAgent),
    Row<&MeasuringService::LeaseTasks>("LeaseTasks", kOwnAgent),
    Row<&MeasuringService::ReportTask>("ReportTask", kOwnAgent),
    Row<&MeasuringService::ReportDeviceModel>("ReportDeviceModel", kOwnAgent),
    Row<&AgentService::Heartbeat>("Heartbeat", kOwnAgent, "",
                                  CallSort::kHeartbeat),
    Row<&AgentService::Leave>("Leave", kOwnAgent),
    // Jobs.
    Row<&JobService::RegisterJob>("RegisterJob", kOwnJob, "POST /v1/jobs"),
    Row<&JobService::ReportSteps>("ReportSteps", kOwnJob,
                                  "POST /v1/jobs/{job_id}/steps"),
    Row<&JobService::AnswerRevision>("AnswerRevision", kOwnJob,
                                     "POST /v1/jobs/{job_id}/revision"),
    Row<&JobService::FinishJob>("FinishJob", kOwnJob,
                                "POST /v1/jobs/{job_id}/finish"),
    // People and programs.
    Row<&AgentService::ListAgents>("ListAgents", kReadByAgents,
                                   "GET /v1/agents?limit&after"),
    Row<&AgentService::GetAgent>("GetAgent", kRead, "GET /v1/agents/{id}"),
    // Where an agent is, its scheduler cordons and resumes it for jobs.
    Row<&JobService::HoldAgent>("HoldAgent",
                                {kForAgents | kForOperators, Own::kAgent},
                                "POST /v1/agents/{agent_id}/hold", kLong),
    Row<&AgentService::DeleteAgent>("DeleteAgent", kAdministrate,
                                    "DELETE /v1/agents/{id}?who&reason"),
    Row<&MeasuringService::ListDevices>("ListDevices", kReadByAgents,
                                        "GET /v1/devices?limit&after&kind"),
    Row<&MeasuringService::GetDevice>("GetDevice", kRead,
                                      "GET /v1/devices/{id}"),
    Row<&NetworkService::ListNetworks>("ListNetworks", kRead,
                                       "GET /v1/networks?limit&after"),
    Row<&NetworkService::GetNetwork>("GetNetwork", kRead,
                                     "GET /v1/networks/{id}", kShort,
                                     /*has_tag=*/true),
    Row<&UpkeepService::DeleteNetwork>("DeleteNetwork", kAdministrate,
                                       "DELETE /v1/networks/{id}?who&reason"),
    Row<&NetworkService::PutNetwork>(
        "PutNetwork", kOperate, "PUT /v1/networks/{name}?input_shape", kLong,
        /*has_tag=*/false, kNetworkFile),
    Row<&StepService::ListSteps>("ListSteps", kRead,
                                 "GET /v1/steps?limit&after"),
    Row<&StepService::GetStep>("GetStep", kRead, "GET /v1/steps/{id}", kShort,
                               /*has_tag=*/true),
    Row<&UpkeepService::DeleteStep>("DeleteStep", kAdministrate,
                                    "DELETE /v1/steps/{id}?who&reason"),
    Row<&StepService::PutStep>("PutStep", kPlan, "PUT /v1/steps/{name}?who",
                               kLong, /*has_tag=*/false, kJson),
    Row<&MeasuringService::ListProfiles>("ListProfiles", kRead,
                                         "GET /v1/profiles?limit&after"),
    // REST sends all pages at once (rest/server.cc).
    Row<&MeasuringService::GetProfile>("GetProfile", kRead,
                                       "GET /v1/profiles/{id}", kLong),
    Row<&MeasuringService::GetProblemProfile>(
        "GetProblemProfile", kRead,
        "GET /v1/profiles/{kind}/problems/{problem}"),
    Row<&MeasuringService::GetDeviceModel>("GetDeviceModel", kRead),
    Row<&MeasuringService::PutProfile>("PutProfile", kAdministrate, "", kLong),
    Row<&JobService::Measure>("Measure",
                              {kForPlanners, Own::kNothing, kForReaders},
                              "POST /v1/measure", kLong),
    Row<&MeasuringService::ListCampaigns>("ListCampaigns", kRead,
                                          "GET /v1/campaigns?limit&after"),
    Row<&MeasuringService::GetCampaign>("GetCampaign", kRead,
                                        "GET /v1/campaigns/{id}"),
    Row<&MeasuringService::ListTasks>(
        "ListTasks", kRead,
        "GET /v1/tasks?limit&after&kind&state&campaign=campaign_id"),
    Row<&MeasuringService::GetTask>("GetTask", kRead, "GET /v1/tasks/{id}"),
    Row<&MeasuringService::CancelTasks>("CancelTasks", kOperate,
                                        "POST /v1/cancel", kLong),
    Row<&UpkeepService::ListActions>("ListActions", kRead,
                                     "GET /v1/actions?limit&after"),
    Row<&PlanService::CreatePlan>("CreatePlan", kPlan, "POST /v1/plans", kLong),
    Row<&PlanService::ListPlans>("ListPlans", kRead,
                                 "GET /v1/plans?limit&after"),
    Row<&PlanService::GetPlanBytes>("GetPlan", kRead, "GET /v1/plans/{id}",
                                    kShort, /*has_tag=*/true),
    Row<&PlanService::DeletePlan>("DeletePlan", kAdministrate,
                                  "DELETE /v1/plans/{id}?who&reason"),
    Row<&PlanService::GetFront>("GetFront", kRead,
                                "GET /v1/plans/{plan_id}/front?rank&layer&op"),
    Row<&JobService::ListJobs>("ListJobs", kRead, "GET /v1/jobs?limit&after"),
    Row<&JobService::GetJob>("GetJob", kRead, "GET /v1/jobs/{id}"),
    Row<&JobService::DeleteJob>("DeleteJob", kAdministrate,
                                "DELETE /v1/jobs/{id}?who&reason"),
    Row<&JobService::GetJobRank>("GetJobRank", kRead,
                                 "GET /v1/jobs/{job_id}/ranks/{rank}"),
    Row<&JobService::ReplanJob>("ReplanJob", kOperate,
                                "POST /v1/jobs/{job_id}/replan", kLong),
    Row<&UpkeepService::Prune>("Prune",
                               {kForAdmins, Own::kNothing, kForOperators},
                               "POST /v1/prune", kLong),
    // Reserves and stores nothing.
    Row<&PlanService::Allocate>("Allocate", kRead, "POST /v1/allocate", kLong),
    Row<&UpkeepService::GetStatus>("GetStatus", kRead, "GET /v1/status"),
});

}  // namespace

std::span<const CallSpec> Calls() { return kCalls; }

const CallSpec* FindCall(std::string_view name) {
  const auto* const call = std::ranges::find(kCalls, name, &CallSpec::name);
  return call == kCalls.end() ? nullptr : call;
}

}  // namespace ucudnn
