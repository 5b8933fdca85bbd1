#include "coordinator/upkeep/upkeep_service.h"

#include <algorithm>

#include "coordinator/actions.h"
#include "coordinator/page.h"
#include "coordinator/store/schema.h"
#include "ucudnn/v1/coordinator.pb.h"

namespace ucudnn {

Result<v1::StatusResponse> UpkeepService::GetStatus(
    const v1::StatusRequest& /*request*/) {
  v1::StatusResponse response;
  response.set_version(context_.options()->version);
  response.set_database(context_.options()->database);
  response.set_grpc_port(context_.options()->grpc_port);
  response.set_schema_version(kSchemaVersion);
  UCUDNN_ASSIGN_OR_RETURN(const auto agents, store_.agents.ListAgents());
  response.set_agents_online(std::count_if(
      agents.begin(), agents.end(),
      [](const AgentRecord& a) { return a.state == AgentState::kOnline; }));
  UCUDNN_ASSIGN_OR_RETURN(const auto devices, store_.agents.ListDevices(""));
  response.set_devices_online(std::count_if(
      devices.begin(), devices.end(),
      [](const DeviceRecord& d) { return d.state != DeviceState::kLost; }));
  UCUDNN_ASSIGN_OR_RETURN(const std::int64_t networks,
                          store_.networks.CountNetworks());
  response.set_networks(networks);
  UCUDNN_ASSIGN_OR_RETURN(const auto counts,
                          store_.tasks.CountTasks(clock_.NowMs()));
  for (const auto& [kind, count] : counts) {
    response.set_tasks_pending(response.tasks_pending() + count.pending);
    response.set_tasks_running(response.tasks_running() + count.leased);
    response.set_tasks_done(response.tasks_done() + count.done);
    response.set_tasks_failed(response.tasks_failed() + count.failed);
    response.set_tasks_cancelled(response.tasks_cancelled() + count.cancelled);
  }
  UCUDNN_ASSIGN_OR_RETURN(const JobCounts jobs, store_.jobs.CountJobs());
  response.set_jobs_running(jobs.running);
  response.set_jobs_finished(jobs.finished);
  response.set_jobs_lost(jobs.lost);
  return response;
}

Result<v1::ListActionsResponse> UpkeepService::ListActions(
    const v1::ListRequest& request) {
  UCUDNN_ASSIGN_OR_RETURN(std::int64_t before, OlderThan(request));
  v1::ListActionsResponse response;
  PageBytes bytes;
  UCUDNN_RETURN_IF_ERROR(FillPage(
      request,
      [&](int limit) { return store_.actions.ListActions(limit, before); },
      [&](const ActionRecord& record) -> Result<bool> {
        before = record.id;
        v1::Action& action = *response.add_actions();
        action.set_id(record.id);
        action.set_made_ms(record.made_ms);
        action.set_who(record.who);
        action.set_what(record.what);
        action.set_object(record.object);
        action.set_reason(record.reason);
        action.set_outcome(record.outcome);
        return bytes.Fill(action);
      }));
  return response;
}

Result<v1::DeleteResponse> UpkeepService::DeleteNetwork(
    const v1::DeleteRequest& request) {
  UCUDNN_RETURN_IF_ERROR(measuring_.CheckUnneeded(request.id()));
  UCUDNN_RETURN_IF_ERROR(
      jobs_.CheckUnneeded("network", request.id(), &v1::PlanRequest::network));
  return Delete(request, "network " + request.id(), clock_.NowMs(),
                [&](const ActionRecord& action) {
                  return store_.networks.DeleteNetwork(request.id(), action);
                });
}

Result<v1::DeleteResponse> UpkeepService::DeleteStep(
    const v1::DeleteRequest& request) {
  UCUDNN_RETURN_IF_ERROR(
      jobs_.CheckUnneeded("step", request.id(), &v1::PlanRequest::step));
  return Delete(request, "step " + request.id(), clock_.NowMs(),
                [&](const ActionRecord& action) {
                  return store_.steps.DeleteStep(request.id(), action);
                });
}

Status UpkeepService::Maintain() {
  UCUDNN_RETURN_IF_ERROR(agents_.Maintain());
  UCUDNN_RETURN_IF_ERROR(store_.changes.CompactCounts());
  const std::int64_t counted_ms = clock_.SteadyMs();
  UCUDNN_ASSIGN_OR_RETURN(const ChangeCounts counts,
                          store_.changes.CountChanges());
  UCUDNN_RETURN_IF_ERROR(plans_.Maintain(counts, counted_ms));
  UCUDNN_RETURN_IF_ERROR(measuring_.Maintain(counts));
  UCUDNN_RETURN_IF_ERROR(jobs_.Maintain());
  return PruneSome();
}

}  // namespace ucudnn
