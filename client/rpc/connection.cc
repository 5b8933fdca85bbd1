#include "client/rpc/connection.h"

#include <utility>

#include "client/config/coordinators.h"
#include "proto/caller.h"
#include "ucudnn/v1/coordinator.grpc.pb.h"

namespace ucudnn {
namespace {

using Stub = v1::CoordinatorService::Stub;

v1::GetRequest Get(const std::string& id) {
  v1::GetRequest request;
  request.set_id(id);
  return request;
}

}  // namespace

class Connection::Calls : public ServiceCaller<v1::CoordinatorService> {
  using ServiceCaller::ServiceCaller;
};

Connection::Connection(std::unique_ptr<Calls> calls)
    : calls_(std::move(calls)) {}
Connection::~Connection() = default;

Result<std::unique_ptr<Connection>> Connection::Open(
    std::string_view coordinators, Options options) {
  UCUDNN_ASSIGN_OR_RETURN(std::vector<std::string> list,
                          ParseCoordinators(coordinators, options.source));
  UCUDNN_ASSIGN_OR_RETURN(
      Access access, Access::Open(options.credentials, list, options.job_key));
  Waiting waiting = options.waiting ? *std::move(options.waiting)
                                    : Waiting::Real(options.stop);
  return std::unique_ptr<Connection>(new Connection(std::make_unique<Calls>(
      std::move(list), std::move(access), std::move(options.stop),
      std::move(waiting), options.reconnect_spread)));
}

const std::string& Connection::name() const { return calls_->name(); }
const std::stop_token& Connection::stop() const { return calls_->stop(); }

Status Connection::Reach(Milliseconds patience) {
  return calls_->Reach(patience);
}

Result<v1::ListAgentsResponse> Connection::ListAgents(
    const v1::ListRequest& request, const RetryPolicy& policy) {
  return calls_->Call(&Stub::ListAgents, request, policy);
}
Result<v1::Agent> Connection::GetAgent(const std::string& id,
                                       const RetryPolicy& policy) {
  return calls_->Call(&Stub::GetAgent, Get(id), policy);
}
Result<v1::ListDevicesResponse> Connection::ListDevices(
    const v1::ListRequest& request, const RetryPolicy& policy) {
  return calls_->Call(&Stub::ListDevices, request, policy);
}
Result<v1::Device> Connection::GetDevice(const std::string& id,
                                         const RetryPolicy& policy) {
  return calls_->Call(&Stub::GetDevice, Get(id), policy);
}
Result<v1::Network> Connection::PutNetwork(const v1::PutNetworkRequest& request,
                                           const RetryPolicy& policy) {
  return calls_->Call(&Stub::PutNetwork, request, policy);
}
Result<v1::ListNetworksResponse> Connection::ListNetworks(
    const v1::ListRequest& request, const RetryPolicy& policy) {
  return calls_->Call(&Stub::ListNetworks, request, policy);
}
Result<v1::Network> Connection::GetNetwork(const std::string& name,
                                           const RetryPolicy& policy) {
  return calls_->Call(&Stub::GetNetwork, Get(name), policy);
}
Result<v1::ListProfilesResponse> Connection::ListProfiles(
    const v1::ListRequest& request, const RetryPolicy& policy) {
  return calls_->Call(&Stub::ListProfiles, request, policy);
}
Result<v1::ProfileSummary> Connection::PutProfile(const v1::Profile& profile,
                                                  const RetryPolicy& policy) {
  return calls_->Call(&Stub::PutProfile, profile, policy);
}
Result<v1::Profile> Connection::GetProfile(const std::string& kind,
                                           const RetryPolicy& policy) {
  v1::GetProfileRequest request;
  request.set_id(kind);
  v1::Profile whole;
  while (true) {
    UCUDNN_ASSIGN_OR_RETURN(v1::Profile page,
                            calls_->Call(&Stub::GetProfile, request, policy));
    whole.set_id(page.id());
    if (page.has_device_model()) {
      whole.mutable_device_model()->Swap(page.mutable_device_model());
    }
    if (page.problems().empty()) return whole;
    request.set_after(page.problems().rbegin()->problem());
    for (v1::ProblemProfile& problem : *page.mutable_problems()) {
      whole.add_problems()->Swap(&problem);
    }
  }
}
Result<v1::ProblemProfile> Connection::GetProblemProfile(
    const v1::GetProblemProfileRequest& request, const RetryPolicy& policy) {
  return calls_->Call(&Stub::GetProblemProfile, request, policy);
}
Result<v1::MeasuredDeviceModel> Connection::GetDeviceModel(
    const std::string& kind, const RetryPolicy& policy) {
  return calls_->Call(&Stub::GetDeviceModel, Get(kind), policy);
}
Result<v1::MeasureProgress> Connection::Measure(
    const v1::MeasureRequest& request, const RetryPolicy& policy) {
  return calls_->Call(&Stub::Measure, request, policy);
}
Result<v1::ListCampaignsResponse> Connection::ListCampaigns(
    const v1::ListRequest& request, const RetryPolicy& policy) {
  return calls_->Call(&Stub::ListCampaigns, request, policy);
}
Result<v1::ListTasksResponse> Connection::ListTasks(
    const v1::ListRequest& request, const RetryPolicy& policy) {
  return calls_->Call(&Stub::ListTasks, request, policy);
}
Result<v1::CancelTasksResponse> Connection::CancelTasks(
    const v1::CancelTasksRequest& request, const RetryPolicy& policy) {
  return calls_->Call(&Stub::CancelTasks, request, policy);
}
Result<v1::ListActionsResponse> Connection::ListActions(
    const v1::ListRequest& request, const RetryPolicy& policy) {
  return calls_->Call(&Stub::ListActions, request, policy);
}
Result<v1::DeleteResponse> Connection::DeleteNetwork(
    const v1::DeleteRequest& request, const RetryPolicy& policy) {
  return calls_->Call(&Stub::DeleteNetwork, request, policy);
}
Result<v1::DeleteResponse> Connection::DeletePlan(
    const v1::DeleteRequest& request, const RetryPolicy& policy) {
  return calls_->Call(&Stub::DeletePlan, request, policy);
}
Result<v1::DeleteResponse> Connection::DeleteJob(
    const v1::DeleteRequest& request, const RetryPolicy& policy) {
  return calls_->Call(&Stub::DeleteJob, request, policy);
}
Result<v1::DeleteResponse> Connection::DeleteAgent(
    const v1::DeleteRequest& request, const RetryPolicy& policy) {
  return calls_->Call(&Stub::DeleteAgent, request, policy);
}
Result<v1::PruneResponse> Connection::Prune(const v1::PruneRequest& request,
                                            const RetryPolicy& policy) {
  return calls_->Call(&Stub::Prune, request, policy);
}

Result<v1::HoldAgentResponse> Connection::HoldAgent(
    const v1::HoldAgentRequest& request, const RetryPolicy& policy) {
  return calls_->Call(&Stub::HoldAgent, request, policy);
}
Result<v1::Plan> Connection::CreatePlan(const v1::PlanRequest& request,
                                        const RetryPolicy& policy) {
  return calls_->Call(&Stub::CreatePlan, request, policy);
}
Result<v1::ListPlansResponse> Connection::ListPlans(
    const v1::ListRequest& request, const RetryPolicy& policy) {
  return calls_->Call(&Stub::ListPlans, request, policy);
}
Result<v1::Plan> Connection::GetPlan(const std::string& id,
                                     const RetryPolicy& policy) {
  return calls_->Call(&Stub::GetPlan, Get(id), policy);
}
Result<v1::ListJobsResponse> Connection::ListJobs(
    const v1::ListRequest& request, const RetryPolicy& policy) {
  return calls_->Call(&Stub::ListJobs, request, policy);
}
Result<v1::RegisterJobResponse> Connection::RegisterJob(
    const v1::RegisterJobRequest& request, const RetryPolicy& policy) {
  return calls_->Call(&Stub::RegisterJob, request, policy);
}
Result<v1::ReportStepsResponse> Connection::ReportSteps(
    const v1::ReportStepsRequest& request, const RetryPolicy& policy) {
  return calls_->Call(&Stub::ReportSteps, request, policy);
}
Result<v1::AnswerRevisionResponse> Connection::AnswerRevision(
    const v1::AnswerRevisionRequest& request, const RetryPolicy& policy) {
  return calls_->Call(&Stub::AnswerRevision, request, policy);
}
Result<v1::FinishJobResponse> Connection::FinishJob(
    const v1::FinishJobRequest& request, const RetryPolicy& policy) {
  return calls_->Call(&Stub::FinishJob, request, policy);
}
Result<v1::JobRevision> Connection::ReplanJob(
    const v1::ReplanJobRequest& request, const RetryPolicy& policy) {
  return calls_->Call(&Stub::ReplanJob, request, policy);
}
Result<v1::Job> Connection::GetJob(const std::string& id,
                                   const RetryPolicy& policy) {
  return calls_->Call(&Stub::GetJob, Get(id), policy);
}
Result<v1::StatusResponse> Connection::GetStatus(const RetryPolicy& policy) {
  return calls_->Call(&Stub::GetStatus, v1::StatusRequest(), policy);
}

}  // namespace ucudnn
