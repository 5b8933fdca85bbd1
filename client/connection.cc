#include "client/connection.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <utility>

#include "base/units.h"
#include "proto/status.h"

namespace ucudnn {
namespace {

// Plans of large jobs are far beyond gRPC's default of 4 MiB.
constexpr int kMaxMessage = 256 << 20;

std::string_view Trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

bool IsHostAndPort(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return false;
  const std::string_view host = text.substr(0, colon);
  if (!ParseInteger(text.substr(colon + 1), 1, 65535)) return false;
  if (host.front() == '[') return host.size() > 2 && host.back() == ']';
  return host.find_first_of(":/[] \t\n") == std::string_view::npos;
}

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

Result<std::vector<std::string>> ParseCoordinators(std::string_view text,
                                                   std::string_view source) {
  std::vector<std::string> endpoints;
  for (;;) {
    const std::size_t comma = text.find(',');
    const std::string_view part = Trim(text.substr(0, comma));
    if (!IsHostAndPort(part)) {
      return Fail(Code::kInvalidArgument,
                  "{}: '{}' is given; host:port,... such as "
                  "localhost:7460 is accepted",
                  source, part);
    }
    endpoints.emplace_back(part);
    if (comma == std::string_view::npos) return endpoints;
    text.remove_prefix(comma + 1);
  }
}

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
