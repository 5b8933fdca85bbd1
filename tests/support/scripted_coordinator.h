#ifndef UCUDNN_TESTS_SUPPORT_SCRIPTED_COORDINATOR_H_
#define UCUDNN_TESTS_SUPPORT_SCRIPTED_COORDINATOR_H_

// A real gRPC server in the test's process with scripted answers.

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "proto/status.h"
#include "ucudnn/v1/coordinator.grpc.pb.h"

namespace ucudnn {

class ScriptedCoordinator final : public v1::CoordinatorService::Service {
 public:
  // The answers of the calls; unset ones are UNIMPLEMENTED. Set them before the
  // first call; they are called from the server's threads.
  std::function<Result<v1::Plan>(const v1::PlanRequest&)> create_plan;
  std::function<Result<v1::Network>(const v1::PutNetworkRequest&)> put_network;
  std::function<Result<v1::Network>(const std::string&)> get_network;
  std::function<Result<v1::MeasureProgress>(const v1::MeasureRequest&)> measure;
  std::function<Result<v1::StatusResponse>()> get_status;
  std::function<Result<v1::Plan>(const std::string&)> get_plan;
  std::function<Result<v1::ProblemProfile>(const v1::GetProblemProfileRequest&)>
      get_problem_profile;
  std::function<Result<v1::ListJobsResponse>(const v1::ListRequest&)> list_jobs;
  std::function<Result<v1::Job>(const v1::GetRequest&)> get_job;
  std::function<Result<v1::ListPlansResponse>(const v1::ListRequest&)>
      list_plans;
  std::function<Result<v1::ListDevicesResponse>(const v1::ListRequest&)>
      list_devices;
  std::function<Result<v1::ListProfilesResponse>(const v1::ListRequest&)>
      list_profiles;
  std::function<Result<v1::RegisterJobResponse>(const v1::RegisterJobRequest&)>
      register_job;
  std::function<Result<v1::ReportStepsResponse>(const v1::ReportStepsRequest&)>
      report_steps;
  std::function<Result<v1::AnswerRevisionResponse>(
      const v1::AnswerRevisionRequest&)>
      answer_revision;
  std::function<Result<v1::FinishJobResponse>(const v1::FinishJobRequest&)>
      finish_job;
  std::function<Result<v1::JobRevision>(const v1::ReplanJobRequest&)>
      replan_job;

  // Cancels calls, as gRPC does when a shutdown interrupts them.
  std::atomic<bool> shutting_down = false;

  explicit ScriptedCoordinator(
      std::shared_ptr<grpc::ServerCredentials> credentials =
          grpc::InsecureServerCredentials())
      : credentials_(std::move(credentials)) {
    Start();
  }
  ~ScriptedCoordinator() override { Stop(); }

  // Again after Stop, on the same port.
  void Start() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address(), credentials_, &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    UCUDNN_CHECK(server_ != nullptr && port_ != 0);
  }

  void Stop() {
    if (server_ == nullptr) return;
    server_->Shutdown(std::chrono::system_clock::now());
    server_.reset();
  }

  std::string address() const { return fmt::format("127.0.0.1:{}", port_); }
  // The calls so far, in the order of their arrival.
  std::vector<std::string> calls() {
    const std::lock_guard lock(mutex_);
    return calls_;
  }
  // How long the client of the last call of this name waits for its answer.
  std::chrono::system_clock::duration Allowed(const std::string& name) {
    const std::lock_guard lock(mutex_);
    return allowed_.at(name);
  }

  grpc::Status CreatePlan(grpc::ServerContext* context,
                          const v1::PlanRequest* request,
                          v1::Plan* response) override {
    return Answer(context, "CreatePlan", create_plan, *request, response);
  }
  grpc::Status PutNetwork(grpc::ServerContext* context,
                          const v1::PutNetworkRequest* request,
                          v1::Network* response) override {
    return Answer(context, "PutNetwork", put_network, *request, response);
  }
  grpc::Status GetNetwork(grpc::ServerContext* context,
                          const v1::GetRequest* request,
                          v1::Network* response) override {
    return Answer(context, "GetNetwork", get_network, request->id(), response);
  }
  grpc::Status Measure(grpc::ServerContext* context,
                       const v1::MeasureRequest* request,
                       v1::MeasureProgress* response) override {
    return Answer(context, "Measure", measure, *request, response);
  }
  grpc::Status GetPlan(grpc::ServerContext* context,
                       const v1::GetRequest* request,
                       v1::Plan* response) override {
    return Answer(context, "GetPlan", get_plan, request->id(), response);
  }
  grpc::Status GetProblemProfile(grpc::ServerContext* context,
                                 const v1::GetProblemProfileRequest* request,
                                 v1::ProblemProfile* response) override {
    return Answer(context, "GetProblemProfile", get_problem_profile, *request,
                  response);
  }
  grpc::Status ListPlans(grpc::ServerContext* context,
                         const v1::ListRequest* request,
                         v1::ListPlansResponse* response) override {
    return Answer(context, "ListPlans", list_plans, *request, response);
  }
  grpc::Status ReplanJob(grpc::ServerContext* context,
                         const v1::ReplanJobRequest* request,
                         v1::JobRevision* response) override {
    return Answer(context, "ReplanJob", replan_job, *request, response);
  }
  grpc::Status ListJobs(grpc::ServerContext* context,
                        const v1::ListRequest* request,
                        v1::ListJobsResponse* response) override {
    return Answer(context, "ListJobs", list_jobs, *request, response);
  }
  grpc::Status GetJob(grpc::ServerContext* context,
                      const v1::GetRequest* request,
                      v1::Job* response) override {
    return Answer(context, "GetJob", get_job, *request, response);
  }
  grpc::Status ListDevices(grpc::ServerContext* context,
                           const v1::ListRequest* request,
                           v1::ListDevicesResponse* response) override {
    return Answer(context, "ListDevices", list_devices, *request, response);
  }
  grpc::Status ListProfiles(grpc::ServerContext* context,
                            const v1::ListRequest* request,
                            v1::ListProfilesResponse* response) override {
    return Answer(context, "ListProfiles", list_profiles, *request, response);
  }
  grpc::Status RegisterJob(grpc::ServerContext* context,
                           const v1::RegisterJobRequest* request,
                           v1::RegisterJobResponse* response) override {
    return Answer(context, "RegisterJob", register_job, *request, response);
  }
  grpc::Status ReportSteps(grpc::ServerContext* context,
                           const v1::ReportStepsRequest* request,
                           v1::ReportStepsResponse* response) override {
    return Answer(context, "ReportSteps", report_steps, *request, response);
  }
  grpc::Status AnswerRevision(grpc::ServerContext* context,
                              const v1::AnswerRevisionRequest* request,
                              v1::AnswerRevisionResponse* response) override {
    return Answer(context, "AnswerRevision", answer_revision, *request,
                  response);
  }
  grpc::Status FinishJob(grpc::ServerContext* context,
                         const v1::FinishJobRequest* request,
                         v1::FinishJobResponse* response) override {
    return Answer(context, "FinishJob", finish_job, *request, response);
  }
  grpc::Status GetStatus(grpc::ServerContext* context, const v1::StatusRequest*,
                         v1::StatusResponse* response) override {
    return Answer(context, "GetStatus", get_status, response);
  }

 private:
  template <class Handler, class... Args>
  grpc::Status Answer(grpc::ServerContext* context, const char* name,
                      const Handler& handler, Args&&... args) {
    {
      const std::lock_guard lock(mutex_);
      calls_.emplace_back(name);
      allowed_[name] = context->deadline() - std::chrono::system_clock::now();
    }
    if (shutting_down) return grpc::Status::CANCELLED;
    return Reply(handler, std::forward<Args>(args)...);
  }
  template <class Handler, class Request, class Response>
  grpc::Status Reply(const Handler& handler, const Request& request,
                     Response* response) {
    if (!handler) return {grpc::StatusCode::UNIMPLEMENTED, "not scripted"};
    return Send(handler(request), response);
  }
  template <class Handler, class Response>
  grpc::Status Reply(const Handler& handler, Response* response) {
    if (!handler) return {grpc::StatusCode::UNIMPLEMENTED, "not scripted"};
    return Send(handler(), response);
  }
  template <class Response>
  grpc::Status Send(Result<Response> result, Response* response) {
    if (!result) return ToGrpc(tl::unexpected<Error>(result.error()));
    *response = *std::move(result);
    return grpc::Status::OK;
  }

  const std::shared_ptr<grpc::ServerCredentials> credentials_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  std::mutex mutex_;
  std::vector<std::string> calls_;
  std::map<std::string, std::chrono::system_clock::duration> allowed_;
};

}  // namespace ucudnn

#endif  // UCUDNN_TESTS_SUPPORT_SCRIPTED_COORDINATOR_H_
