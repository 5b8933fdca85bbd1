#include "client/connection.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <utility>

#include "proto/status.h"

namespace ucudnn {
namespace {

// Plans of large jobs are far beyond gRPC's default of 4 MiB.
constexpr int kMaxMessage = 256 << 20;

grpc::ChannelArguments ChannelArguments() {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessage);
  arguments.SetMaxSendMessageSize(kMaxMessage);
  // The retries here are what waits, not the channel between them.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  // A service inside of the cluster is not behind a web proxy.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return arguments;
}

v1::GetRequest Get(const std::string& id) {
  v1::GetRequest request;
  request.set_id(id);
  return request;
}

}  // namespace

Result<std::unique_ptr<Connection>> Connection::Open(
    std::string_view coordinators, std::string_view source, Waiting waiting) {
  std::unique_ptr<Connection> connection(new Connection);
  UCUDNN_ASSIGN_OR_RETURN(connection->endpoints_,
                          ParseCoordinators(coordinators, source));
  for (const std::string& endpoint : connection->endpoints_) {
    connection->name_ += (connection->name_.empty() ? "" : ",") + endpoint;
    connection->stubs_.push_back(
        v1::CoordinatorService::NewStub(grpc::CreateCustomChannel(
            endpoint, grpc::InsecureChannelCredentials(), ChannelArguments())));
  }
  connection->waiting_ = std::move(waiting);
  return connection;
}

template <class Request, class Response>
Result<Response> Connection::Call(Method<Request, Response> method,
                                  const Request& request,
                                  const RetryPolicy& policy) {
  Response response;
  std::size_t endpoint = current_;
  Retried result =
      Retry(policy, waiting_, stubs_.size(), &endpoint,
            [&](std::size_t index, Milliseconds timeout) -> Attempt {
              grpc::ClientContext context;
              context.set_deadline(std::chrono::system_clock::now() + timeout);
              response.Clear();
              const grpc::Status status =
                  (*stubs_[index].*method)(&context, request, &response);
              return {FromGrpc(status), IsFromService(status)};
            });
  current_ = endpoint;
  if (result.status) return response;
  Error error = std::move(result.status).error();
  const bool transport =
      !result.answered && (error.code == Code::kUnavailable ||
                           error.code == Code::kDeadlineExceeded);
  if (transport) {
    error.message =
        fmt::format("coordinator{} {} cannot be reached: {} ({} {})",
                    stubs_.size() == 1 ? "" : "s", name_, error.message,
                    result.attempts, result.attempts == 1 ? "try" : "tries");
  }
  return tl::unexpected<Error>(std::move(error));
}

Result<v1::ListAgentsResponse> Connection::ListAgents(
    const v1::ListRequest& request, const RetryPolicy& policy) {
  return Call(&Stub::ListAgents, request, policy);
}
Result<v1::Agent> Connection::GetAgent(const std::string& id,
                                       const RetryPolicy& policy) {
  return Call(&Stub::GetAgent, Get(id), policy);
}
Result<v1::ListDevicesResponse> Connection::ListDevices(
    const v1::ListRequest& request, const RetryPolicy& policy) {
  return Call(&Stub::ListDevices, request, policy);
}
Result<v1::Device> Connection::GetDevice(const std::string& id,
                                         const RetryPolicy& policy) {
  return Call(&Stub::GetDevice, Get(id), policy);
}
Result<v1::Network> Connection::PutNetwork(const v1::PutNetworkRequest& request,
                                           const RetryPolicy& policy) {
  return Call(&Stub::PutNetwork, request, policy);
}
Result<v1::ListNetworksResponse> Connection::ListNetworks(
    const v1::ListRequest& request, const RetryPolicy& policy) {
  return Call(&Stub::ListNetworks, request, policy);
}
Result<v1::Network> Connection::GetNetwork(const std::string& name,
                                           const RetryPolicy& policy) {
  return Call(&Stub::GetNetwork, Get(name), policy);
}
Result<v1::ListProfilesResponse> Connection::ListProfiles(
    const v1::ListRequest& request, const RetryPolicy& policy) {
  return Call(&Stub::ListProfiles, request, policy);
}
Result<v1::ProfileSummary> Connection::PutProfile(const v1::Profile& profile,
                                                  const RetryPolicy& policy) {
  return Call(&Stub::PutProfile, profile, policy);
}
Result<v1::Profile> Connection::GetProfile(const std::string& kind,
                                           const RetryPolicy& policy) {
  return Call(&Stub::GetProfile, Get(kind), policy);
}
Result<v1::MeasureProgress> Connection::Measure(
    const v1::MeasureRequest& request, const RetryPolicy& policy) {
  return Call(&Stub::Measure, request, policy);
}
Result<v1::Plan> Connection::CreatePlan(const v1::PlanRequest& request,
                                        const RetryPolicy& policy) {
  return Call(&Stub::CreatePlan, request, policy);
}
Result<v1::ListPlansResponse> Connection::ListPlans(
    const v1::ListRequest& request, const RetryPolicy& policy) {
  return Call(&Stub::ListPlans, request, policy);
}
Result<v1::Plan> Connection::GetPlan(const std::string& id,
                                     const RetryPolicy& policy) {
  return Call(&Stub::GetPlan, Get(id), policy);
}
Result<v1::ListJobsResponse> Connection::ListJobs(
    const v1::ListRequest& request, const RetryPolicy& policy) {
  return Call(&Stub::ListJobs, request, policy);
}
Result<v1::RegisterJobResponse> Connection::RegisterJob(
    const v1::RegisterJobRequest& request, const RetryPolicy& policy) {
  return Call(&Stub::RegisterJob, request, policy);
}
Result<v1::ReportStepsResponse> Connection::ReportSteps(
    const v1::ReportStepsRequest& request, const RetryPolicy& policy) {
  return Call(&Stub::ReportSteps, request, policy);
}
Result<v1::AnswerRevisionResponse> Connection::AnswerRevision(
    const v1::AnswerRevisionRequest& request, const RetryPolicy& policy) {
  return Call(&Stub::AnswerRevision, request, policy);
}
Result<v1::FinishJobResponse> Connection::FinishJob(
    const v1::FinishJobRequest& request, const RetryPolicy& policy) {
  return Call(&Stub::FinishJob, request, policy);
}
Result<v1::JobRevision> Connection::ReplanJob(
    const v1::ReplanJobRequest& request, const RetryPolicy& policy) {
  return Call(&Stub::ReplanJob, request, policy);
}
Result<v1::Job> Connection::GetJob(const std::string& id,
                                   const RetryPolicy& policy) {
  return Call(&Stub::GetJob, Get(id), policy);
}
Result<v1::StatusResponse> Connection::GetStatus(const RetryPolicy& policy) {
  return Call(&Stub::GetStatus, v1::StatusRequest(), policy);
}

}  // namespace ucudnn
