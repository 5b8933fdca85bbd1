// Tasks that agents lease, and what they report.

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/accuracy.h"
#include "base/other_tasks.h"
#include "coordinator/limits.h"
#include "coordinator/measuring/device_models.h"
#include "coordinator/measuring/measuring_service.h"
#include "coordinator/page.h"
#include "proto/convert.h"
#include "ucudnn/v1/agent.pb.h"
#include "ucudnn/v1/coordinator.pb.h"

namespace ucudnn {
namespace {

// Adds the stored points of a task's problem.
Status AddKnown(AgentStore& agents, MeasurementStore& measurements,
                const TaskKey& key, v1::Task* task) {
  const std::vector<std::string> problem = {key.problem};
  UCUDNN_ASSIGN_OR_RETURN(const auto drivers, agents.ListDrivers(key.kind));
  UCUDNN_ASSIGN_OR_RETURN(PointsByProblem known,
                          measurements.LoadProfile(key.kind, problem, drivers));
  for (auto& [name, points] : known) {
    // Larger batches are not told, but what is known from them is.
    SpreadErrors(&points);
    for (const MeasuredPoint& point : points) {
      if (point.batch <= key.batch) *task->add_known() = ucudnn::ToProto(point);
    }
  }
  return {};
}

// Adds the models of the networks whose tasks are to be measured.
Status AddNetworks(NetworkStore& networks, v1::LeaseTasksResponse* response) {
  for (const v1::Task& task : response->tasks()) {
    if (!IsOtherTasks(task.problem())) continue;
    UCUDNN_ASSIGN_OR_RETURN(const OtherTasks tasks,
                            ParseOtherTasks(task.problem()));
    if (response->networks().contains(tasks.network)) continue;
    UCUDNN_ASSIGN_OR_RETURN(auto source, networks.FindSource(tasks.network));
    if (source) {
      (*response->mutable_networks())[tasks.network] = *std::move(source);
    }
  }
  return {};
}

}  // namespace

std::int64_t MeasuringService::PollAfterMs() const {
  return std::max(context_.options()->poll_after_ms,
                  agents_.devices() * 1'000 / kMaxPollsPerSecond);
}

Result<v1::LeaseTasksResponse> MeasuringService::LeaseTasks(
    const v1::LeaseTasksRequest& request) {
  UCUDNN_ASSIGN_OR_RETURN(
      const DeviceRecord device,
      agents_.DeviceOf(request.agent_id(), request.device_id()));
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
      UCUDNN_RETURN_IF_ERROR(AddNetworks(store_.networks, &response));
      return response;
    }
  }
  LeaseRequest lease;
  lease.kind = ToString(device.kind);
  lease.agent = request.agent_id();
  lease.device = device.id;
  lease.max_count = most;
  lease.now_ms = now;
  lease.until_ms = now + context_.options()->lease_ms;
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
    t.set_lease_ms(context_.options()->lease_ms);
    t.set_goal(task.key.goal);
    if (!task.key.goal.empty()) {
      UCUDNN_RETURN_IF_ERROR(
          AddKnown(store_.agents, store_.measurements, task.key, &t));
    }
  }
  UCUDNN_RETURN_IF_ERROR(AddNetworks(store_.networks, &response));
  return response;
}

Result<v1::ReportTaskResponse> MeasuringService::ReportTask(
    const v1::ReportTaskRequest& request) {
  if (request.epoch().empty() || request.kind().empty() ||
      request.problem().empty()) {
    return Fail(Code::kInvalidArgument,
                "the report lacks epoch, kind or problem of its task");
  }
  UCUDNN_RETURN_IF_ERROR(
      agents_.DeviceOf(request.agent_id(), request.device_id()));
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

Result<v1::ReportDeviceModelResponse> MeasuringService::ReportDeviceModel(
    const v1::ReportDeviceModelRequest& request) {
  UCUDNN_ASSIGN_OR_RETURN(
      const DeviceRecord device,
      agents_.DeviceOf(request.agent_id(), request.device_id()));
  v1::MeasuredDeviceModel measured;
  *measured.mutable_model() = request.model();
  measured.set_device(device.id);
  measured.set_driver(request.driver());
  measured.set_measured_ms(clock_.NowMs());
  UCUDNN_ASSIGN_OR_RETURN(MeasuredModel model, FromProto(measured));
  UCUDNN_RETURN_IF_ERROR(PutDeviceModel(
      store_.measurements, ToString(device.kind), std::move(model)));
  return v1::ReportDeviceModelResponse();
}

}  // namespace ucudnn
