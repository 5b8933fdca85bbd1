#ifndef UCUDNN_CLIENT_RPC_CONNECTION_H_
#define UCUDNN_CLIENT_RPC_CONNECTION_H_

// A connection to the coordinators, for jobs and the `ucudnn` command: one
// typed method for each call of CoordinatorService.
//
//   UCUDNN_ASSIGN_OR_RETURN(const auto coordinator,
//                           Connection::Open("a:7460,b:7460", {}));
//   UCUDNN_ASSIGN_OR_RETURN(const v1::Plan plan,
//                           coordinator->CreatePlan(request));
//
// Retries, failover and errors are those of proto/caller.h. Thread safe.
// Callers include ucudnn/v1/coordinator.pb.h for the messages.

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/service/credentials.h"
#include "base/service/retry.h"
#include "proto/messages_fwd.h"

namespace ucudnn {

class Connection {
 public:
  struct Options {
    std::string source = "UCUDNN_COORDINATOR";  // of the list, for errors
    CredentialFiles credentials = {};
    std::string job_key = {};  // proto/job_key.h; empty: none
    // Once it is requested, calls return kCancelled.
    std::stop_token stop = {};
    std::optional<Waiting> waiting = {};  // between attempts; real by default
    // Over how long those reconnect who lose a coordinator at once.
    Milliseconds reconnect_spread = {};
  };

  // Does not connect yet; the first call does. Errors of ParseCoordinators
  // (client/config/coordinators.h) and Access::Open (proto/channel.h).
  static Result<std::unique_ptr<Connection>> Open(std::string_view coordinators,
                                                  Options options);
  ~Connection();

  // The list of coordinators, as given.
  const std::string& name() const;
  const std::stop_token& stop() const;

  // Whether one of the coordinators can be reached, without calling it:
  // kUnavailable if none is connected within `patience`; kCancelled.
  Status Reach(Milliseconds patience);

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
  // All pages as one.
  Result<v1::Profile> GetProfile(const std::string& kind,
                                 const RetryPolicy& policy = {});
  Result<v1::ProblemProfile> GetProblemProfile(
      const v1::GetProblemProfileRequest& request,
      const RetryPolicy& policy = {});
  Result<v1::MeasuredDeviceModel> GetDeviceModel(
      const std::string& kind, const RetryPolicy& policy = {});
  Result<v1::ProfileSummary> PutProfile(const v1::Profile& profile,
                                        const RetryPolicy& policy = {});
  Result<v1::MeasureProgress> Measure(const v1::MeasureRequest& request,
                                      const RetryPolicy& policy = {});
  Result<v1::ListCampaignsResponse> ListCampaigns(
      const v1::ListRequest& request, const RetryPolicy& policy = {});
  Result<v1::ListTasksResponse> ListTasks(const v1::ListRequest& request,
                                          const RetryPolicy& policy = {});
  Result<v1::CancelTasksResponse> CancelTasks(
      const v1::CancelTasksRequest& request, const RetryPolicy& policy = {});
  Result<v1::ListActionsResponse> ListActions(const v1::ListRequest& request,
                                              const RetryPolicy& policy = {});
  Result<v1::DeleteResponse> DeleteNetwork(const v1::DeleteRequest& request,
                                           const RetryPolicy& policy = {});
  Result<v1::DeleteResponse> DeletePlan(const v1::DeleteRequest& request,
                                        const RetryPolicy& policy = {});
  Result<v1::DeleteResponse> DeleteJob(const v1::DeleteRequest& request,
                                       const RetryPolicy& policy = {});
  Result<v1::DeleteResponse> DeleteAgent(const v1::DeleteRequest& request,
                                         const RetryPolicy& policy = {});
  Result<v1::PruneResponse> Prune(const v1::PruneRequest& request,
                                  const RetryPolicy& policy);
  Result<v1::HoldAgentResponse> HoldAgent(const v1::HoldAgentRequest& request,
                                          const RetryPolicy& policy = {});
  // kUnavailable also if measurements are missing; `policy` decides whether to
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
  // kUnavailable as for CreatePlan.
  Result<v1::JobRevision> ReplanJob(const v1::ReplanJobRequest& request,
                                    const RetryPolicy& policy = {});
  Result<v1::StatusResponse> GetStatus(const RetryPolicy& policy = {});

 private:
  class Calls;
  explicit Connection(std::unique_ptr<Calls> calls);
  std::unique_ptr<Calls> calls_;
};

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_RPC_CONNECTION_H_
