#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <utility>

#include "agent/link.h"
#include "proto/status.h"
#include "ucudnn/v1/agent.grpc.pb.h"

namespace ucudnn {
namespace {

constexpr std::chrono::seconds kDeadline{10};

class GrpcLink final : public Link {
 public:
  explicit GrpcLink(std::vector<std::string> coordinators)
      : names_(std::move(coordinators)) {
    for (const std::string& name : names_) {
      grpc::ChannelArguments arguments;
      // Reconnect fast enough for a coordinator that restarts.
      arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
      arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 500);
      arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000);
      stubs_.push_back(v1::AgentService::NewStub(grpc::CreateCustomChannel(
          name, grpc::InsecureChannelCredentials(), arguments)));
    }
  }

  Result<v1::RegisterResponse> Register(
      const v1::RegisterRequest& request) override {
    return Call(&v1::AgentService::Stub::Register, request);
  }
  Result<v1::LeaseTasksResponse> LeaseTasks(
      const v1::LeaseTasksRequest& request) override {
    return Call(&v1::AgentService::Stub::LeaseTasks, request);
  }
  Result<v1::ReportTaskResponse> ReportTask(
      const v1::ReportTaskRequest& request) override {
    return Call(&v1::AgentService::Stub::ReportTask, request);
  }
  Result<v1::HeartbeatResponse> Heartbeat(
      const v1::HeartbeatRequest& request) override {
    return Call(&v1::AgentService::Stub::Heartbeat, request);
  }
  Result<v1::LeaveResponse> Leave(const v1::LeaveRequest& request) override {
    return Call(&v1::AgentService::Stub::Leave, request);
  }

 private:
  template <class Request, class Response>
  Result<Response> Call(grpc::Status (v1::AgentService::Stub::*method)(
                            grpc::ClientContext*, const Request&, Response*),
                        const Request& request) {
    const std::size_t at = current_;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kDeadline);
    Response response;
    const Status status =
        FromGrpc(((*stubs_[at]).*method)(&context, request, &response));
    if (status) return response;
    if (status.error().code == Code::kUnavailable ||
        status.error().code == Code::kDeadlineExceeded) {
      current_ = (at + 1) % stubs_.size();
    }
    return Within("coordinator " + names_[at], status.error());
  }

  std::vector<std::string> names_;
  std::vector<std::unique_ptr<v1::AgentService::Stub>> stubs_;
  std::atomic<std::size_t> current_{0};
};

}  // namespace

std::unique_ptr<Link> MakeGrpcLink(std::vector<std::string> coordinators) {
  UCUDNN_CHECK(!coordinators.empty());
  return std::make_unique<GrpcLink>(std::move(coordinators));
}

}  // namespace ucudnn
