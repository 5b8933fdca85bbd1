#include "coordinator/measuring/cross_checking.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/service/log.h"
#include "proto/convert.h"
#include "ucudnn/v1/agent.pb.h"

namespace ucudnn {
namespace {

// A kind with more measurements is not compared after each of them.
constexpr std::size_t kComparedAtOnce = 1'000;

void AddTask(const DueCrossCheck& due, v1::LeaseTasksResponse* response) {
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

Result<CrossCheckMeasurement> MeasurementOf(
    const v1::ReportTaskRequest& request, UnixMillis now_ms) {
  CrossCheckMeasurement measurement{.check = request.cross_check().id(),
                                    .device = request.device_id(),
                                    .round = request.cross_check().round(),
                                    .driver = request.driver(),
                                    .throttle = request.clocks().throttle(),
                                    .measured_ms = now_ms};
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
  return measurement;
}

// Logs which devices of the kind deviate now and which no longer do.
void LogChanges(const std::string& kind,
                const std::vector<DeviceComparison>& before,
                const std::vector<DeviceComparison>& after) {
  for (const DeviceComparison& c : after) {
    const auto found =
        std::ranges::find(before, c.device, &DeviceComparison::device);
    if (c.deviates == (found != before.end() && found->deviates)) continue;
    spdlog::log(c.deviates ? spdlog::level::warn : spdlog::level::info,
                "event={} device={} kind={} relative_time={:.3f} "
                "why={}",
                c.deviates ? "device_deviates" : "device_no_longer_deviates",
                c.device, Quoted(kind), c.relative_time, Quoted(c.text));
  }
}

}  // namespace

Result<std::vector<DeviceComparison>> CompareKind(
    MeasurementStore& measurements, const std::string& kind) {
  UCUDNN_ASSIGN_OR_RETURN(const KindCrossChecks checks,
                          measurements.LoadCrossChecks(kind));
  return CompareDevices(checks);
}

Status CrossChecking::Lease(const DeviceRecord& device, int max_count,
                            UnixMillis now_ms,
                            v1::LeaseTasksResponse* response) {
  const std::lock_guard lock(mutex_);
  UCUDNN_ASSIGN_OR_RETURN(const Kept* kept, Keep(ToString(device.kind)));
  std::vector<CrossCheckMeasurement> own;
  if (const auto found = kept->of_device.find(device.id);
      found != kept->of_device.end()) {
    for (const std::size_t i : found->second) {
      own.push_back(kept->checks.measurements[i]);
    }
  }
  for (const DueCrossCheck& due :
       DueCrossChecks(kept->checks.points, own, device.driver,
                      kept->suspicion(), now_ms)) {
    if (response->tasks_size() == max_count) break;
    AddTask(due, response);
  }
  return {};
}

Result<CompletionResult> CrossChecking::Complete(TaskCompletion completion) {
  const std::string kind = completion.identity.kind;
  const std::string& problem = completion.identity.problem;
  if (const auto work = WorkOf(problem)) {
    const std::lock_guard lock(mutex_);
    UCUDNN_ASSIGN_OR_RETURN(const Kept* kept, Keep(kind));
    const auto alike = kept->alike.find(*work);
    if (alike == kept->alike.end() || alike->second < kCrossChecksPerOp) {
      completion.cross_check = ChooseCrossCheck(
          kind, problem, completion.points, kept->checks.points);
    }
  }
  UCUDNN_ASSIGN_OR_RETURN(const CompletionResult result,
                          store_.tasks.CompleteTask(completion));
  if (completion.cross_check) {
    const std::lock_guard lock(mutex_);
    kept_.erase(kind);
  }
  return result;
}

Status CrossChecking::Report(const v1::ReportTaskRequest& request,
                             UnixMillis now_ms) {
  UCUDNN_ASSIGN_OR_RETURN(const DeviceRecord device,
                          store_.agents.GetDevice(request.device_id()));
  const std::string kind = ToString(device.kind);
  UCUDNN_ASSIGN_OR_RETURN(const CrossCheckMeasurement measurement,
                          MeasurementOf(request, now_ms));
  if (request.kind() != kind) {
    return Fail(Code::kFailedPrecondition,
                "the report is of kind '{}', but device {} is of kind '{}'",
                request.kind(), device.id, kind);
  }
  {
    // So that there is something to compare with.
    const std::lock_guard lock(mutex_);
    UCUDNN_RETURN_IF_ERROR(Keep(kind));
  }
  UCUDNN_RETURN_IF_ERROR(store_.measurements.PutCrossCheckMeasurement(
      measurement, {request.epoch(), request.kind(), request.problem()}));
  const std::lock_guard lock(mutex_);
  UCUDNN_ASSIGN_OR_RETURN(Kept* const kept, Keep(kind));
  kept->Add(measurement);
  // Comparing takes as long as there are measurements.
  if (++kept->new_since < kept->checks.measurements.size() / kComparedAtOnce) {
    return {};
  }
  kept->new_since = 0;
  kept->compared = CompareDevices(kept->checks);
  LogChanges(kind, std::exchange(told_[kind], kept->compared), kept->compared);
  return {};
}

void CrossChecking::LookAt(const ChangeCounts& counts) {
  const std::lock_guard lock(mutex_);
  std::erase_if(kept_, [&](const auto& item) {
    const auto& [kind, kept] = item;
    return kept.count != CountOf(counts.cross_checks, kind);
  });
}

Result<CrossChecking::Kept*> CrossChecking::Keep(const std::string& kind) {
  const auto found = kept_.find(kind);
  if (found != kept_.end()) return &found->second;
  // Counted first: what changes in between is loaded again.
  UCUDNN_ASSIGN_OR_RETURN(const ChangeCounts counts,
                          store_.changes.CountChanges());
  Kept kept;
  kept.count = CountOf(counts.cross_checks, kind);
  UCUDNN_ASSIGN_OR_RETURN(KindCrossChecks loaded,
                          store_.measurements.LoadCrossChecks(kind));
  kept.checks.points = std::move(loaded.points);
  for (const CrossCheck& point : kept.checks.points) {
    if (const auto work = WorkOf(point.problem)) ++kept.alike[*work];
  }
  for (const CrossCheckMeasurement& m : loaded.measurements) kept.Add(m);
  kept.compared = CompareDevices(kept.checks);
  told_.try_emplace(kind, kept.compared);
  return &kept_.emplace(kind, std::move(kept)).first->second;
}

void CrossChecking::Kept::Add(CrossCheckMeasurement measurement) {
  // What is not from the store is the newest.
  if (measurement.sequence == 0) measurement.sequence = sequence + 1;
  sequence = std::max(sequence, measurement.sequence);
  std::vector<std::size_t>& own = of_device[measurement.device];
  for (const std::size_t i : own) {
    CrossCheckMeasurement& known = checks.measurements[i];
    if (known.check == measurement.check && known.round == measurement.round) {
      known = std::move(measurement);
      return;
    }
  }
  own.push_back(checks.measurements.size());
  checks.measurements.push_back(std::move(measurement));
}

bool CrossChecking::Kept::suspicion() const {
  return std::ranges::any_of(compared, &DeviceComparison::suspected);
}

Result<std::vector<std::string>> DoubtsAbout(
    MeasurementStore& measurements, const std::set<std::string>& kinds,
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
