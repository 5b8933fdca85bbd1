#include <utility>

#include "agent/link.h"
#include "proto/caller.h"
#include "ucudnn/v1/agent.grpc.pb.h"

namespace ucudnn {
namespace {

class GrpcLink final : public Link {
 public:
  explicit GrpcLink(std::unique_ptr<ServiceCaller<v1::AgentService>> caller)
      : caller_(std::move(caller)) {}

  Result<v1::RegisterResponse> Register(
      const v1::RegisterRequest& request) override {
    return Call(&Stub::Register, request);
  }
  Result<v1::LeaseTasksResponse> LeaseTasks(
      const v1::LeaseTasksRequest& request) override {
    return Call(&Stub::LeaseTasks, request);
  }
  Result<v1::ReportTaskResponse> ReportTask(
      const v1::ReportTaskRequest& request) override {
    return Call(&Stub::ReportTask, request);
  }
  Result<v1::ReportDeviceModelResponse> ReportDeviceModel(
      const v1::ReportDeviceModelRequest& request) override {
    return Call(&Stub::ReportDeviceModel, request);
  }
  Result<v1::HeartbeatResponse> Heartbeat(
      const v1::HeartbeatRequest& request) override {
    return Call(&Stub::Heartbeat, request);
  }
  Result<v1::LeaveResponse> Leave(const v1::LeaveRequest& request) override {
    return Call(&Stub::Leave, request);
  }

 private:
  using Stub = v1::AgentService::Stub;

  // The agent itself waits and retries when no coordinator answers.
  template <class Request, class Response>
  Result<Response> Call(
      ServiceCaller<v1::AgentService>::Method<Request, Response> method,
      const Request& request) {
    return caller_->Call(method, request,
                         RetryPolicy::OneRound(std::chrono::seconds(10)));
  }

  const std::unique_ptr<ServiceCaller<v1::AgentService>> caller_;
};

}  // namespace

Result<std::unique_ptr<Link>> MakeGrpcLink(
    std::vector<std::string> coordinators, const CredentialFiles& credentials,
    std::chrono::milliseconds reconnect_spread) {
  UCUDNN_ASSIGN_OR_RETURN(
      auto caller,
      ServiceCaller<v1::AgentService>::Open(
          std::move(coordinators),
          {.credentials = credentials, .reconnect_spread = reconnect_spread}));
  return std::make_unique<GrpcLink>(std::move(caller));
}

}  // namespace ucudnn
