#include "coordinator/cross_checking.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <map>

#include "base/service/log.h"
#include "proto/convert.h"
#include "ucudnn/v1/agent.pb.h"

namespace ucudnn {

Result<std::vector<DeviceComparison>> CompareKind(Measurements& measurements,
                                                  const std::string& kind) {
  UCUDNN_ASSIGN_OR_RETURN(const KindCrossChecks checks,
                          measurements.LoadCrossChecks(kind));
  return CompareDevices(checks);
}

Status LeaseCrossChecks(Measurements& measurements, const DeviceRecord& device,
                        int max_count, UnixMillis now_ms,
                        v1::LeaseTasksResponse* response) {
  UCUDNN_ASSIGN_OR_RETURN(const KindCrossChecks checks,
                          measurements.LoadCrossChecks(ToString(device.kind)));
  for (const DueCrossCheck& due :
       DueCrossChecks(checks, device.id, device.driver, now_ms)) {
    if (response->tasks_size() == max_count) break;
    v1::Task& task = *response->add_tasks();
    task.set_kind(due.point.kind);
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

Result<std::optional<CrossCheck>> CrossCheckFor(
    Measurements& measurements, const TaskCompletion& completion) {
  const auto& [epoch, kind, problem] = completion.identity;
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<CrossCheck> known,
                          measurements.ListCrossChecks(kind));
  return ChooseCrossCheck(kind, problem, completion.points, known);
}

Status ReportCrossCheck(Agents& agents, Measurements& measurements,
                        const v1::ReportTaskRequest& request,
                        UnixMillis now_ms) {
  UCUDNN_ASSIGN_OR_RETURN(const DeviceRecord device,
                          agents.GetDevice(request.device_id()));
  CrossCheckMeasurement measurement;
  measurement.check = request.cross_check().id();
  measurement.device = device.id;
  measurement.round = request.cross_check().round();
  measurement.driver = request.driver();
  measurement.throttle = request.clocks().throttle();
  measurement.measured_ms = now_ms;
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
                          CompareKind(measurements, ToString(device.kind)));
  if (request.kind() != ToString(device.kind)) {
    return Fail(Code::kFailedPrecondition,
                "the report is of kind '{}', but device {} is of kind '{}'",
                request.kind(), device.id, ToString(device.kind));
  }
  UCUDNN_RETURN_IF_ERROR(measurements.PutCrossCheckMeasurement(
      measurement, {request.epoch(), request.kind(), request.problem()}));
  UCUDNN_ASSIGN_OR_RETURN(const auto after,
                          CompareKind(measurements, ToString(device.kind)));
  const auto deviated = [&](const std::string& id) {
    const auto found = std::ranges::find(before, id, &DeviceComparison::device);
    return found != before.end() && found->deviates;
  };
  for (const DeviceComparison& c : after) {
    if (c.deviates == deviated(c.device)) continue;
    spdlog::log(c.deviates ? spdlog::level::warn : spdlog::level::info,
                "event={} device={} kind={} relative_time={:.3f} "
                "why={}",
                c.deviates ? "device_deviates" : "device_no_longer_deviates",
                c.device, Quoted(ToString(device.kind)), c.relative_time,
                Quoted(c.text));
  }
  return {};
}

Result<std::vector<std::string>> DoubtsAbout(
    Measurements& measurements, const std::set<std::string>& kinds,
    const std::set<std::string>& problems) {
  std::vector<std::string> doubts;
  for (const std::string& kind : kinds) {
    UCUDNN_ASSIGN_OR_RETURN(auto compared, CompareKind(measurements, kind));
    std::erase_if(compared, [](const auto& c) { return !c.deviates; });
    if (compared.empty()) continue;
    UCUDNN_ASSIGN_OR_RETURN(const auto profile,
                            measurements.LoadMeasurements(kind));
    std::map<std::string, std::int64_t> by_device;
    std::int64_t total = 0;
    for (const Measurement& m : profile) {
      if (!problems.contains(m.problem)) continue;
      ++by_device[m.origin.device];
      ++total;
    }
    for (const DeviceComparison& c : compared) {
      if (by_device[c.device] == 0) continue;
      doubts.push_back(
          fmt::format("{} of {} measurements of these convolutions come from "
                      "device {}, which {}",
                      by_device[c.device], total, c.device, c.text));
    }
  }
  return doubts;
}

}  // namespace ucudnn
