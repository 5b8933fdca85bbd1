#include "coordinator/rpc/server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include <atomic>
#include <chrono>
#include <utility>

#include "base/service/call.h"
#include "coordinator/dispatcher.h"
#include "coordinator/limits.h"
#include "proto/status.h"
#include "ucudnn/v1/agent.grpc.pb.h"
#include "ucudnn/v1/coordinator.grpc.pb.h"

namespace ucudnn {
namespace {

// Tells for how long to wait before another try, as gRPC's own retries
// understand it.
constexpr char kPushback[] = "grpc-retry-pushback-ms";

// What calls need to know of their server.
struct Calls {
  Dispatcher& dispatcher;
  std::atomic<bool> stopping = false;
};

template <class Request, class Response>
grpc::Status Answer(Calls& calls, const char* method,
                    Result<Response> (Coordinator::*call)(const Request&),
                    grpc::ServerContext* context, const Request& request,
                    Response* response) {
  const Call scope([context]() -> Status {
    if (!context->IsCancelled()) return {};
    return Fail(Code::kCancelled, "the client ended the call");
  });
  auto result = calls.dispatcher.Run(method, call, request);
  if (result) {
    *response = *std::move(result);
    return grpc::Status::OK;
  }
  // Stopping cancels the calls that still run.
  if (result.error().code == Code::kCancelled && calls.stopping) {
    return Stopping();
  }
  if (result.error().code == Code::kResourceExhausted) {
    context->AddTrailingMetadata(kPushback, "1000");
  }
  return ToGrpc(tl::unexpected<Error>(std::move(result).error()));
}

#define UCUDNN_RPC(Method, RequestType, ResponseType)                       \
  grpc::Status Method(grpc::ServerContext* context,                         \
                      const v1::RequestType* request,                       \
                      v1::ResponseType* response) override {                \
    return Answer(calls_, #Method, &Coordinator::Method, context, *request, \
                  response);                                                \
  }

class AgentServiceImpl final : public v1::AgentService::Service {
 public:
  explicit AgentServiceImpl(Calls& calls) : calls_(calls) {}
  UCUDNN_RPC(Register, RegisterRequest, RegisterResponse)
  UCUDNN_RPC(LeaseTasks, LeaseTasksRequest, LeaseTasksResponse)
  UCUDNN_RPC(ReportTask, ReportTaskRequest, ReportTaskResponse)
  UCUDNN_RPC(Heartbeat, HeartbeatRequest, HeartbeatResponse)
  UCUDNN_RPC(Leave, LeaveRequest, LeaveResponse)

 private:
  Calls& calls_;
};

class CoordinatorServiceImpl final : public v1::CoordinatorService::Service {
 public:
  explicit CoordinatorServiceImpl(Calls& calls) : calls_(calls) {}
  UCUDNN_RPC(ListAgents, ListRequest, ListAgentsResponse)
  UCUDNN_RPC(GetAgent, GetRequest, Agent)
  UCUDNN_RPC(ListDevices, ListRequest, ListDevicesResponse)
  UCUDNN_RPC(GetDevice, GetRequest, Device)
  UCUDNN_RPC(PutNetwork, PutNetworkRequest, Network)
  UCUDNN_RPC(ListNetworks, ListRequest, ListNetworksResponse)
  UCUDNN_RPC(GetNetwork, GetRequest, Network)
  UCUDNN_RPC(ListProfiles, ListRequest, ListProfilesResponse)
  UCUDNN_RPC(GetProfile, GetRequest, Profile)
  UCUDNN_RPC(GetProblemProfile, GetProblemProfileRequest, ProblemProfile)
  UCUDNN_RPC(PutProfile, Profile, ProfileSummary)
  UCUDNN_RPC(Measure, MeasureRequest, MeasureProgress)
  UCUDNN_RPC(CreatePlan, PlanRequest, Plan)
  UCUDNN_RPC(ListPlans, ListRequest, ListPlansResponse)
  UCUDNN_RPC(GetPlan, GetRequest, Plan)
  UCUDNN_RPC(ListJobs, ListRequest, ListJobsResponse)
  UCUDNN_RPC(GetJob, GetRequest, Job)
  UCUDNN_RPC(RegisterJob, RegisterJobRequest, RegisterJobResponse)
  UCUDNN_RPC(ReportSteps, ReportStepsRequest, ReportStepsResponse)
  UCUDNN_RPC(AnswerRevision, AnswerRevisionRequest, AnswerRevisionResponse)
  UCUDNN_RPC(FinishJob, FinishJobRequest, FinishJobResponse)
  UCUDNN_RPC(ReplanJob, ReplanJobRequest, JobRevision)
  UCUDNN_RPC(GetStatus, StatusRequest, StatusResponse)

 private:
  Calls& calls_;
};

#undef UCUDNN_RPC

class GrpcServer final : public RpcServer {
 public:
  explicit GrpcServer(Dispatcher& dispatcher)
      : calls_{dispatcher}, agents_(calls_), coordinator_(calls_) {}
  ~GrpcServer() override { Stop(); }

  Status Listen(const std::string& address) {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    grpc::ServerBuilder builder;
    // Keeps two processes from sharing the port.
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.SetMaxReceiveMessageSize(kMaxRequestBytes);
    grpc::ResourceQuota quota("coordinator");
    quota.Resize(kMaxRpcBytes);
    quota.SetMaxThreads(kMaxRpcThreads);
    builder.SetResourceQuota(quota);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                               kMaxStreamsPerConnection);
    // Clients ping every 10 s during long calls; the default minimum of 5 min
    // would disconnect them.
    builder.AddChannelArgument(
        GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5'000);
    builder.AddListeningPort(address, grpc::InsecureServerCredentials(),
                             &port_);
    builder.RegisterService(&agents_);
    builder.RegisterService(&coordinator_);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || port_ == 0) {
      return Fail(Code::kUnavailable, "cannot listen on {} for gRPC", address);
    }
    SetServing(false);
    return {};
  }

  int port() const override { return port_; }

  void SetServing(bool serving) override {
    server_->GetHealthCheckService()->SetServingStatus(serving);
  }

  void Stop() override {
    if (server_ == nullptr) return;
    calls_.stopping = true;
    // Without a deadline, Shutdown waits for every open channel.
    server_->Shutdown(std::chrono::system_clock::now() +
                      std::chrono::seconds(1));
    server_->Wait();
    server_.reset();
  }

 private:
  Calls calls_;
  AgentServiceImpl agents_;
  CoordinatorServiceImpl coordinator_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
};

}  // namespace

Result<std::unique_ptr<RpcServer>> RpcServer::Start(const std::string& address,
                                                    Dispatcher& dispatcher) {
  auto server = std::make_unique<GrpcServer>(dispatcher);
  UCUDNN_RETURN_IF_ERROR(server->Listen(address));
  return server;
}

}  // namespace ucudnn
