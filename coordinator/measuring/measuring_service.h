#ifndef UCUDNN_COORDINATOR_MEASURING_MEASURING_SERVICE_H_
#define UCUDNN_COORDINATOR_MEASURING_MEASURING_SERVICE_H_

// What devices measure: the queue of tasks and their leases, the campaigns that
// they belong to, the profiles that come of them, and what each device does.
// Callers include ucudnn/v1/*.pb.h for the messages.

#include <string>

#include "base/result.h"
#include "coordinator/agents/agent_service.h"
#include "coordinator/context.h"
#include "coordinator/measuring/cross_checking.h"
#include "proto/messages_fwd.h"

namespace ucudnn {

// Thread-safe. What a call acknowledges is stored.
class MeasuringService {
 public:
  MeasuringService(Context& context, AgentService& agents)
      : context_(context),
        store_(context.store),
        clock_(context.clock),
        agents_(agents),
        cross_checks_(context.store) {}

  // For agents; see proto/ucudnn/v1/agent.proto. In leases.cc.
  Result<v1::LeaseTasksResponse> LeaseTasks(
      const v1::LeaseTasksRequest& request);
  Result<v1::ReportTaskResponse> ReportTask(
      const v1::ReportTaskRequest& request);
  Result<v1::ReportDeviceModelResponse> ReportDeviceModel(
      const v1::ReportDeviceModelRequest& request);

  // For people and jobs; see proto/ucudnn/v1/coordinator.proto. In queue.cc:
  Result<v1::ListTasksResponse> ListTasks(const v1::ListRequest& request);
  Result<v1::QueuedTask> GetTask(const v1::GetRequest& request);
  Result<v1::CancelTasksResponse> CancelTasks(
      const v1::CancelTasksRequest& request);
  Result<v1::ListCampaignsResponse> ListCampaigns(
      const v1::ListRequest& request);
  Result<v1::Campaign> GetCampaign(const v1::GetRequest& request);
  // In devices.cc:
  Result<v1::ListDevicesResponse> ListDevices(const v1::ListRequest& request);
  Result<v1::Device> GetDevice(const v1::GetRequest& request);
  // In profiles.cc:
  Result<v1::ListProfilesResponse> ListProfiles(const v1::ListRequest& request);
  Result<v1::Profile> GetProfile(const v1::GetProfileRequest& request);
  Result<v1::ProblemProfile> GetProblemProfile(
      const v1::GetProblemProfileRequest& request);
  Result<v1::MeasuredDeviceModel> GetDeviceModel(const v1::GetRequest& request);
  Result<v1::ProfileSummary> PutProfile(const v1::Profile& request);

  // kFailedPrecondition if a running campaign measures for the network.
  Status CheckUnneeded(const std::string& network);
  // Looks at the running campaigns and at what other coordinators changed.
  Status Maintain(const ChangeCounts& counts);

 private:
  // How long an idle device is to wait before it asks for work again.
  std::int64_t PollAfterMs() const;

  Context& context_;
  Store& store_;
  const Clock& clock_;
  AgentService& agents_;
  CrossChecking cross_checks_;
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_MEASURING_MEASURING_SERVICE_H_
