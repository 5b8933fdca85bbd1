#ifndef UCUDNN_CLIENT_CONNECTION_H_
#define UCUDNN_CLIENT_CONNECTION_H_

// The coordinators as a job and the `ucudnn` command see them: one typed call
// for each of CoordinatorService's, which tries again (client/retry.h) and
// fails over through the list.
//
//   UCUDNN_ASSIGN_OR_RETURN(auto coordinator,
//   Connection::Open("a:7460,b:7460")); UCUDNN_ASSIGN_OR_RETURN(const v1::Plan
//   plan,
//                           coordinator->CreatePlan(request));
//
// Errors are the coordinator's own, or kUnavailable or kDeadlineExceeded,
// which name the coordinators, if none can be reached within the budget.
// Calls may come from any thread.

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "client/coordinators.h"
#include "client/retry.h"
#include "ucudnn/v1/coordinator.grpc.pb.h"

namespace ucudnn {

class Connection {
 public:
  // Connects to nothing yet: the first call does. Errors as ParseCoordinators.
  static Result<std::unique_ptr<Connection>> Open(
      std::string_view coordinators,
      std::string_view source = "UCUDNN_COORDINATOR",
      Waiting waiting = Waiting::Real());

  // The coordinators, as they were given.
  const std::string& name() const { return name_; }

  Result<v1::ListAgentsResponse> ListAgents(const v1::ListRequest& request,
                                            const RetryPolicy& policy = {});
  Result<v1::Agent> GetAgent(const std::string& id,
                             const RetryPolicy& policy = {});
  Result<v1::ListDevicesResponse> ListDevices(const v1::ListRequest& request,
                                              const RetryPolicy& policy = {});
  Result<v1::Device> GetDevice(const std::string& id,
                               const RetryPolicy& policy = {});
  Result<v1::Network> PutNetwork(const v1::PutNetworkRequest& request,
                                 const RetryPolicy& policy = {});
  Result<v1::ListNetworksResponse> ListNetworks(const v1::ListRequest& request,
                                                const RetryPolicy& policy = {});
  Result<v1::Network> GetNetwork(const std::string& name,
                                 const RetryPolicy& policy = {});
  Result<v1::ListProfilesResponse> ListProfiles(const v1::ListRequest& request,
                                                const RetryPolicy& policy = {});
  Result<v1::Profile> GetProfile(const std::string& kind,
                                 const RetryPolicy& policy = {});
  Result<v1::ProfileSummary> PutProfile(const v1::Profile& profile,
                                        const RetryPolicy& policy = {});
  Result<v1::MeasureProgress> Measure(const v1::MeasureRequest& request,
                                      const RetryPolicy& policy = {});
  // kUnavailable also if measurements are missing; `policy` says whether to
  // wait for them.
  Result<v1::Plan> CreatePlan(const v1::PlanRequest& request,
                              const RetryPolicy& policy = {});
  Result<v1::ListPlansResponse> ListPlans(const v1::ListRequest& request,
                                          const RetryPolicy& policy = {});
  Result<v1::Plan> GetPlan(const std::string& id,
                           const RetryPolicy& policy = {});
  Result<v1::ListJobsResponse> ListJobs(const v1::ListRequest& request,
                                        const RetryPolicy& policy = {});
  Result<v1::Job> GetJob(const std::string& id, const RetryPolicy& policy = {});
  Result<v1::RegisterJobResponse> RegisterJob(
      const v1::RegisterJobRequest& request, const RetryPolicy& policy = {});
  Result<v1::ReportStepsResponse> ReportSteps(
      const v1::ReportStepsRequest& request, const RetryPolicy& policy = {});
  Result<v1::AnswerRevisionResponse> AnswerRevision(
      const v1::AnswerRevisionRequest& request, const RetryPolicy& policy = {});
  Result<v1::FinishJobResponse> FinishJob(const v1::FinishJobRequest& request,
                                          const RetryPolicy& policy = {});
  // kUnavailable as CreatePlan.
  Result<v1::JobRevision> ReplanJob(const v1::ReplanJobRequest& request,
                                    const RetryPolicy& policy = {});
  Result<v1::StatusResponse> GetStatus(const RetryPolicy& policy = {});

 private:
  using Stub = v1::CoordinatorService::Stub;
  template <class Request, class Response>
  using Method = grpc::Status (Stub::*)(grpc::ClientContext*, const Request&,
                                        Response*);

  Connection() = default;
  template <class Request, class Response>
  Result<Response> Call(Method<Request, Response> method,
                        const Request& request, const RetryPolicy& policy);

  std::string name_;
  std::vector<std::string> endpoints_;
  std::vector<std::unique_ptr<Stub>> stubs_;
  std::atomic<std::size_t> current_ = 0;  // the one that answered last
  Waiting waiting_;
};

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_CONNECTION_H_
