// Agents, their devices and the tasks they lease.

#include <spdlog/spdlog.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/service/log.h"
#include "coordinator/campaigns.h"
#include "coordinator/coordinator.h"
#include "coordinator/device_models.h"
#include "coordinator/drivers.h"
#include "coordinator/limits.h"
#include "proto/convert.h"
#include "ucudnn/v1/agent.pb.h"
#include "ucudnn/v1/coordinator.pb.h"

namespace ucudnn {
namespace {

// kInvalidArgument if the list `what` of a request is longer than `max`.
Status CheckLength(std::string_view what, int size, int max) {
  if (size <= max) return {};
  return Fail(Code::kInvalidArgument,
              "{} has {} entries; up to {} are accepted", what, size, max);
}

Result<DeviceRecord> DeviceRecordOf(const v1::Device& device) {
  DeviceRecord record;
  if (device.id().empty()) {
    return Fail(Code::kInvalidArgument, "a device's id is empty");
  }
  record.kind = FromProto(device.kind_details());
  if (const auto read = ParseDeviceKind(device.kind());
      !read || *read != record.kind || record.kind.units < 1) {
    return Fail(Code::kInvalidArgument,
                "device {}: its kind is '{}', but its details say '{}'",
                device.id(), device.kind(), ToString(record.kind));
  }
  record.id = device.id();
  record.driver = device.driver();
  UCUDNN_ASSIGN_OR_RETURN(record.state, ParseDeviceState(device.state()));
  record.reason = device.state_reason();
  return record;
}

// The agent's device. kNotFound if it is another agent's.
Result<DeviceRecord> DeviceOf(Agents& agents, const std::string& agent,
                              const std::string& id) {
  UCUDNN_ASSIGN_OR_RETURN(DeviceRecord device, agents.GetDevice(id));
  if (device.agent != agent) {
    return Fail(Code::kNotFound,
                "device {} is registered by agent {}, not by {}", device.id,
                device.agent, agent);
  }
  return device;
}

// Adds the stored points of a task's problem.
Status AddKnown(Agents& agents, Measurements& measurements, const TaskKey& key,
                v1::Task* task) {
  const std::vector<std::string> problem = {key.problem};
  UCUDNN_ASSIGN_OR_RETURN(const auto drivers, DriversOf(agents, key.kind));
  UCUDNN_ASSIGN_OR_RETURN(
      const PointsByProblem known,
      measurements.LoadProfile(key.kind, problem, {}, drivers));
  for (const auto& [name, points] : known) {
    for (const MeasuredPoint& point : points) {
      if (point.batch <= key.batch) *task->add_known() = ucudnn::ToProto(point);
    }
  }
  return {};
}

}  // namespace

Result<v1::RegisterResponse> Coordinator::Register(
    const v1::RegisterRequest& request) {
  if (request.agent_id().empty()) {
    return Fail(Code::kInvalidArgument, "agent_id is empty");
  }
  UCUDNN_RETURN_IF_ERROR(
      CheckLength("devices", request.devices_size(), kMaxDevicesPerAgent));
  AgentRegistration registration;
  for (const v1::Device& device : request.devices()) {
    UCUDNN_ASSIGN_OR_RETURN(DeviceRecord record, DeviceRecordOf(device));
    registration.devices.push_back(std::move(record));
  }
  registration.agent.id = request.agent_id();
  registration.agent.host = request.host();
  registration.agent.version = request.version();
  registration.now_ms = clock_.NowMs();
  UCUDNN_RETURN_IF_ERROR(heartbeats_.Register(registration));
  v1::RegisterResponse response;
  response.set_heartbeat_ms(options()->heartbeat_ms);
  return response;
}

std::int64_t Coordinator::PollAfterMs() const {
  return std::max(options()->poll_after_ms,
                  devices_ * 1'000 / kMaxPollsPerSecond);
}

Result<v1::LeaseTasksResponse> Coordinator::LeaseTasks(
    const v1::LeaseTasksRequest& request) {
  UCUDNN_ASSIGN_OR_RETURN(
      const DeviceRecord device,
      DeviceOf(store_.agents, request.agent_id(), request.device_id()));
  v1::LeaseTasksResponse response;
  response.set_poll_after_ms(PollAfterMs());
  if (device.hold) return response;
  if (request.takes_device_models()) {
    UCUDNN_ASSIGN_OR_RETURN(const bool measured,
                            HasDeviceModel(store_.measurements, device));
    if (!measured) {
      response.set_measure_device_model(true);
      return response;
    }
  }
  const int most = std::clamp(request.max_tasks(), 1, kMaxTasksPerLease);
  const std::int64_t now = clock_.NowMs();
  if (request.takes_cross_checks()) {
    UCUDNN_RETURN_IF_ERROR(cross_checks_.Lease(device, most, now, &response));
    if (response.tasks_size() > 0) {
      UCUDNN_ASSIGN_OR_RETURN(const std::string epoch, store_.Epoch());
      for (v1::Task& task : *response.mutable_tasks()) task.set_epoch(epoch);
      return response;
    }
  }
  LeaseRequest lease;
  lease.kind = ToString(device.kind);
  lease.agent = request.agent_id();
  lease.device = device.id;
  lease.max_count = most;
  lease.now_ms = now;
  lease.until_ms = now + options()->lease_ms;
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<TaskRecord> tasks,
                          store_.tasks.LeaseTasks(lease));
  if (tasks.empty()) return response;
  UCUDNN_ASSIGN_OR_RETURN(const std::string epoch, store_.Epoch());
  for (const TaskRecord& task : tasks) {
    v1::Task& t = *response.add_tasks();
    t.set_id(task.id);
    t.set_epoch(epoch);
    t.set_kind(task.key.kind);
    t.set_problem(task.key.problem);
    t.set_batch(task.key.batch.count());
    t.set_max_workspace_bytes(task.max_workspace.count());
    t.set_lease_token(task.lease_token);
    t.set_lease_ms(options()->lease_ms);
    t.set_goal(task.key.goal);
    if (!task.key.goal.empty()) {
      UCUDNN_RETURN_IF_ERROR(
          AddKnown(store_.agents, store_.measurements, task.key, &t));
    }
  }
  return response;
}

Result<v1::ReportTaskResponse> Coordinator::ReportTask(
    const v1::ReportTaskRequest& request) {
  if (request.epoch().empty() || request.kind().empty() ||
      request.problem().empty()) {
    return Fail(Code::kInvalidArgument,
                "the report lacks epoch, kind or problem of its task");
  }
  UCUDNN_RETURN_IF_ERROR(
      DeviceOf(store_.agents, request.agent_id(), request.device_id()));
  const LeaseRef lease{request.task_id(), request.lease_token()};
  const ReportIdentity identity{request.epoch(), request.kind(),
                                request.problem()};
  const std::int64_t now = clock_.NowMs();
  v1::ReportTaskResponse response;
  if (request.has_cross_check()) {
    UCUDNN_RETURN_IF_ERROR(cross_checks_.Report(request, now));
    return response;
  }
  if (!request.error().empty()) {
    UCUDNN_RETURN_IF_ERROR(
        store_.tasks.FailTask({.lease = lease,
                               .identity = identity,
                               .error = request.error(),
                               .retryable = request.retryable(),
                               .now_ms = now}));
    return response;
  }
  UCUDNN_RETURN_IF_ERROR(CheckLength(
      "measurements", request.measurements_size(), kMaxPointsPerReport));
  TaskCompletion completion;
  completion.lease = lease;
  completion.identity = identity;
  completion.max_workspace = Bytes(request.max_workspace_bytes());
  completion.origin = {.device = request.device_id(),
                       .driver = request.driver(),
                       .measured_ms = now,
                       .clocks = FromProto(request.clocks())};
  completion.now_ms = now;
  for (int i = 0; i < request.measurements_size(); ++i) {
    Result<MeasuredPoint> point = FromProto(request.measurements(i));
    if (!point) {
      return Within(fmt::format("measurements[{}]", i), point.error());
    }
    completion.points.push_back(*std::move(point));
  }
  if (request.partial()) {
    UCUDNN_RETURN_IF_ERROR(store_.tasks.AddToTask(completion));
    return response;
  }
  UCUDNN_ASSIGN_OR_RETURN(const CompletionResult result,
                          cross_checks_.Complete(std::move(completion)));
  response.set_already(result.already);
  return response;
}

Result<v1::ReportDeviceModelResponse> Coordinator::ReportDeviceModel(
    const v1::ReportDeviceModelRequest& request) {
  UCUDNN_ASSIGN_OR_RETURN(
      const DeviceRecord device,
      DeviceOf(store_.agents, request.agent_id(), request.device_id()));
  v1::MeasuredDeviceModel measured;
  *measured.mutable_model() = request.model();
  measured.set_device(device.id);
  measured.set_driver(request.driver());
  measured.set_measured_ms(clock_.NowMs());
  UCUDNN_RETURN_IF_ERROR(
      PutDeviceModel(store_.measurements, ToString(device.kind), measured));
  return v1::ReportDeviceModelResponse();
}

Result<v1::HeartbeatResponse> Coordinator::Heartbeat(
    const v1::HeartbeatRequest& request) {
  UCUDNN_RETURN_IF_ERROR(
      CheckLength("devices", request.devices_size(), kMaxDevicesPerAgent));
  UCUDNN_RETURN_IF_ERROR(
      CheckLength("leases", request.leases_size(), kMaxLeasesPerHeartbeat));
  AgentBeat beat{request.agent_id(), {}, clock_.NowMs()};
  for (const v1::Device& device : request.devices()) {
    UCUDNN_ASSIGN_OR_RETURN(const DeviceState state,
                            ParseDeviceState(device.state()));
    beat.devices.push_back({device.id(), state, device.state_reason()});
  }
  std::vector<LeaseRef> leases;
  for (const v1::TaskLease& lease : request.leases()) {
    leases.push_back({lease.task_id(), lease.lease_token()});
  }
  UCUDNN_RETURN_IF_ERROR(
      heartbeats_.Take(std::move(beat), leases, options()->lease_ms));
  return v1::HeartbeatResponse();
}

Result<v1::LeaveResponse> Coordinator::Leave(const v1::LeaveRequest& request) {
  const auto guard = heartbeats_.Forget(request.agent_id());
  UCUDNN_RETURN_IF_ERROR(store_.tasks.ReleaseLeases(request.agent_id()));
  UCUDNN_RETURN_IF_ERROR(store_.agents.SetAgentState(
      request.agent_id(), AgentState::kGone, "the agent was stopped"));
  return v1::LeaveResponse();
}

void Coordinator::LogLost(const char* event, const char* what,
                          const std::string& id, std::int64_t silent_for_ms) {
  const auto left_out = log_limit_.Allow(event, clock_.SteadyMs());
  if (!left_out) return;
  spdlog::warn("event={} {}={} silent_for_ms={} left_out={}", event, what,
               Quoted(id), silent_for_ms, *left_out);
}

Status Coordinator::Maintain() {
  UCUDNN_RETURN_IF_ERROR(heartbeats_.Flush(options()->lease_ms));
  UCUDNN_ASSIGN_OR_RETURN(const auto agents, store_.agents.ListAgentPulses());
  if (const auto silent = agents_.Silent(agents, clock_.SteadyMs(),
                                         options()->agent_timeout_ms);
      !silent.empty()) {
    UCUDNN_ASSIGN_OR_RETURN(const auto gone,
                            store_.agents.ExpireAgents(silent));
    activity_.agents_lost += std::ssize(gone);
    for (const std::string& id : gone) {
      LogLost("agent_gone", "agent", id, options()->agent_timeout_ms);
    }
  }
  UCUDNN_ASSIGN_OR_RETURN(devices_, store_.agents.CountDevices());
  UCUDNN_ASSIGN_OR_RETURN(const auto jobs, store_.jobs.ListJobPulses());
  if (const auto silent =
          jobs_.Silent(jobs, clock_.SteadyMs(), options()->job_timeout_ms);
      !silent.empty()) {
    UCUDNN_ASSIGN_OR_RETURN(const auto lost, store_.jobs.ExpireJobs(silent));
    activity_.jobs_lost += std::ssize(lost);
    for (const std::string& id : lost) {
      LogLost("job_lost", "job", id, options()->job_timeout_ms);
    }
  }
  UCUDNN_RETURN_IF_ERROR(store_.changes.CompactCounts());
  const std::int64_t looked_ms = clock_.SteadyMs();
  UCUDNN_ASSIGN_OR_RETURN(const ChangeCounts counts,
                          store_.changes.CountChanges());
  plans_.Deleted(counts.deleted_plans, looked_ms);
  cross_checks_.LookAt(counts);
  UCUDNN_RETURN_IF_ERROR(LookAtCampaigns(store_, clock_.NowMs()));
  BeginWatch();
  if (const auto used = plan_uses_.Take(); !used.empty()) {
    if (Status written = store_.plans.UsePlans(used, clock_.NowMs());
        !written) {
      plan_uses_.PutBack(used);
      return written;
    }
  }
  return PruneSome();
}

}  // namespace ucudnn
