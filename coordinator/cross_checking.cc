// Devices of a kind beside each other.

#include <spdlog/spdlog.h>

#include <algorithm>
#include <map>
#include <utility>

#include "coordinator/coordinator.h"
#include "coordinator/planning/cross_checks.h"
#include "proto/convert.h"

namespace ucudnn {

Result<std::vector<DeviceComparison>> Coordinator::CompareKind(
    const std::string& kind) {
  UCUDNN_ASSIGN_OR_RETURN(const KindCrossChecks checks,
                          store_.LoadCrossChecks(kind));
  return CompareDevices(checks);
}

Status Coordinator::LeaseCrossChecks(const DeviceRecord& device, int max_count,
                                     v1::LeaseTasksResponse* response) {
  UCUDNN_ASSIGN_OR_RETURN(const KindCrossChecks checks,
                          store_.LoadCrossChecks(ToString(device.kind)));
  for (const DueCrossCheck& due :
       DueCrossChecks(checks, device.id, device.driver, clock_.NowMs())) {
    if (response->tasks_size() == max_count) break;
    v1::Task& task = *response->add_tasks();
    task.set_problem(due.point.problem);
    task.set_batch(due.point.batch.count());
    task.set_max_workspace_bytes(due.point.workspace.count());
    v1::CrossCheck& check = *task.mutable_cross_check();
    check.set_id(due.point.id);
    check.set_round(due.round);
    check.set_algorithm(due.point.algorithm.name);
    check.set_math(due.point.algorithm.math);
    check.set_precision(std::string(Name(due.point.algorithm.precision)));
    check.set_workspace_bytes(due.point.workspace.count());
  }
  return {};
}

Result<std::optional<CrossCheck>> Coordinator::CrossCheckOf(
    const TaskCompletion& completion) {
  UCUDNN_ASSIGN_OR_RETURN(const TaskRecord task,
                          store_.GetTask(completion.lease.task));
  UCUDNN_ASSIGN_OR_RETURN(const KindCrossChecks known,
                          store_.LoadCrossChecks(task.key.kind));
  return ChooseCrossCheck(task.key.kind, task.key.problem, completion.points,
                          known.points);
}

Status Coordinator::ReportCrossCheck(const v1::ReportTaskRequest& request) {
  UCUDNN_ASSIGN_OR_RETURN(const DeviceRecord device,
                          store_.GetDevice(request.device_id()));
  CrossCheckMeasurement measurement;
  measurement.check = request.cross_check().id();
  measurement.device = device.id;
  measurement.round = request.cross_check().round();
  measurement.driver = request.driver();
  measurement.throttle = request.clocks().throttle();
  measurement.measured_ms = clock_.NowMs();
  if (request.measurements_size() > 1) {
    return Fail(Code::kInvalidArgument,
                "measurements has {} entries; a cross-check has at most one",
                request.measurements_size());
  }
  if (request.measurements_size() == 1 && request.error().empty()) {
    UCUDNN_ASSIGN_OR_RETURN(const MeasuredPoint point,
                            FromProto(request.measurements(0)));
    measurement.time = point.time;
    measurement.spread = point.spread;
  }
  UCUDNN_ASSIGN_OR_RETURN(const auto before,
                          CompareKind(ToString(device.kind)));
  UCUDNN_RETURN_IF_ERROR(store_.PutCrossCheckMeasurement(measurement));
  UCUDNN_ASSIGN_OR_RETURN(const auto after, CompareKind(ToString(device.kind)));
  const auto deviated = [&](const std::string& id) {
    const auto found = std::ranges::find(before, id, &DeviceComparison::device);
    return found != before.end() && found->deviates;
  };
  for (const DeviceComparison& c : after) {
    if (c.deviates == deviated(c.device)) continue;
    spdlog::log(c.deviates ? spdlog::level::warn : spdlog::level::info,
                "event={} device={} kind=\"{}\" relative_time={:.3f} "
                "why=\"{}\"",
                c.deviates ? "device_deviates" : "device_deviates_no_more",
                c.device, ToString(device.kind), c.relative_time, c.text);
  }
  return {};
}

Result<std::vector<std::string>> Coordinator::DoubtsAbout(
    const Inputs& inputs) {
  std::vector<std::string> doubts;
  const std::set<std::string> kinds(inputs.request.device_kinds.begin(),
                                    inputs.request.device_kinds.end());
  for (const std::string& kind : kinds) {
    UCUDNN_ASSIGN_OR_RETURN(auto compared, CompareKind(kind));
    std::erase_if(compared, [](const auto& c) { return !c.deviates; });
    if (compared.empty()) continue;
    std::set<std::string> problems;
    for (const Need& need : inputs.needs) problems.insert(need.problem);
    UCUDNN_ASSIGN_OR_RETURN(const auto measurements,
                            store_.LoadMeasurements(kind));
    std::map<std::string, std::int64_t> by_device;
    std::int64_t total = 0;
    for (const Measurement& m : measurements) {
      if (!problems.contains(m.problem)) continue;
      ++by_device[m.origin.device];
      ++total;
    }
    for (const DeviceComparison& c : compared) {
      if (by_device[c.device] == 0) continue;
      doubts.push_back(fmt::format(
          "{} of {} measurements of these convolutions are of device {}, which "
          "{}",
          by_device[c.device], total, c.device, c.text));
    }
  }
  return doubts;
}

}  // namespace ucudnn
