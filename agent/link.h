#ifndef UCUDNN_AGENT_LINK_H_
#define UCUDNN_AGENT_LINK_H_

// The agent's connection to the coordinator. Calls are safe to repeat and
// thread-safe; each has its own deadline. kUnavailable and kDeadlineExceeded
// mean "try again later", kNotFound "register first".

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/service/backoff.h"
#include "base/service/credentials.h"
#include "ucudnn/v1/agent.pb.h"

namespace ucudnn {

class Link {
 public:
  virtual ~Link() = default;
  virtual Result<v1::RegisterResponse> Register(
      const v1::RegisterRequest& request) = 0;
  virtual Result<v1::LeaseTasksResponse> LeaseTasks(
      const v1::LeaseTasksRequest& request) = 0;
  virtual Result<v1::ReportTaskResponse> ReportTask(
      const v1::ReportTaskRequest& request) = 0;
  virtual Result<v1::ReportDeviceModelResponse> ReportDeviceModel(
      const v1::ReportDeviceModelRequest& request) = 0;
  virtual Result<v1::HeartbeatResponse> Heartbeat(
      const v1::HeartbeatRequest& request) = 0;
  virtual Result<v1::LeaveResponse> Leave(const v1::LeaveRequest& request) = 0;
};

// Over gRPC to one of `coordinators` ("host:port", at least one): the one that
// answered last, else the next in the list, within 10 s in all.
// Errors of Access::Open (proto/channel.h).
Result<std::unique_ptr<Link>> MakeGrpcLink(
    std::vector<std::string> coordinators,
    const CredentialFiles& credentials = {},
    std::chrono::milliseconds reconnect_spread = kReconnectSpread);

}  // namespace ucudnn

#endif  // UCUDNN_AGENT_LINK_H_
