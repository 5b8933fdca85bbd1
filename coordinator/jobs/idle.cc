// Tells which running jobs have idle devices on their nodes, and what they
// would gain with them.

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <string>
#include <utility>
#include <vector>

#include "base/service/call.h"
#include "base/service/log.h"
#include "coordinator/jobs/job_service.h"
#include "coordinator/measuring/plan_inputs.h"
#include "coordinator/planning/planner.h"

namespace ucudnn {
namespace {

// The plan that the points measured by now give.
Result<JobPlan> Predict(Store& store, const JobRequest& request,
                        std::int64_t network_revision) {
  UCUDNN_ASSIGN_OR_RETURN(
      PlanInputs inputs,
      LookUp(store.agents, store.networks, request, network_revision));
  UCUDNN_RETURN_IF_ERROR(LoadProfiles(store.measurements, &inputs));
  return MakePlan(inputs.network, inputs.request, inputs.profiles,
                  *inputs.plain, inputs.concurrency, inputs.tasks);
}

// Whether it is enough to tell people.
bool Gains(const JobPlan& now, const JobPlan& more) {
  return CountsWholeSteps(now) == CountsWholeSteps(more) &&
         static_cast<double>(more.predicted.count()) <
             0.99 * static_cast<double>(now.predicted.count());
}

}  // namespace

Result<std::vector<GainByIdle>> JobService::GainsWith(
    const RunningJob& job, const std::map<std::string, std::int64_t>& idle) {
  std::vector<GainByIdle> gains;
  UCUDNN_ASSIGN_OR_RETURN(const JobPlan plan, plans_.OutlineOf(job.plan));
  // What memory plans would gain is known after a search only.
  // Steps are seldom of kinds that agents offer.
  if (plan.request.memory || !plan.request.step.empty()) return gains;
  UCUDNN_ASSIGN_OR_RETURN(const JobPlan now,
                          Predict(store_, plan.request, plan.network_revision));
  for (const auto& [kind, count] : idle) {
    UCUDNN_RETURN_IF_ERROR(Call::Check());
    JobRequest more = plan.request;
    more.device_kinds.insert(more.device_kinds.end(),
                             static_cast<std::size_t>(count), kind);
    const auto predicted = Predict(store_, more, plan.network_revision);
    // Most often, nothing is measured on that kind, or not all tasks are.
    if (!predicted || !Gains(now, *predicted)) continue;
    gains.push_back({kind, count, now.predicted, predicted->predicted});
    spdlog::info(
        "event=idle_devices job={} kind={} devices={} predicted_now_us={} "
        "predicted_us={}",
        Quoted(job.id), Quoted(kind), count, now.predicted.count() / 1000,
        predicted->predicted.count() / 1000);
  }
  return gains;
}

Result<std::int64_t> JobService::LookForIdle(
    const std::vector<RunningJob>& jobs) {
  if (jobs.empty()) return idle_.Keep({});
  UCUDNN_ASSIGN_OR_RETURN(const auto devices, store_.agents.ListDevices(""));
  UCUDNN_ASSIGN_OR_RETURN(const ChangeCounts counts,
                          store_.changes.CountChanges());
  std::set<std::string> ids;
  std::set<std::string> taken;
  for (const RunningJob& job : jobs) {
    ids.insert(job.id);
    taken.insert(job.devices.begin(), job.devices.end());
  }
  for (const RunningJob& job : jobs) {
    UCUDNN_RETURN_IF_ERROR(Call::Check());
    const auto idle = IdleBeside(job.devices, taken, devices);
    std::string inputs = std::to_string(job.plan);
    for (const auto& [kind, count] : idle) {
      inputs +=
          fmt::format(" {}:{}:{}", kind, count, CountOf(counts.kinds, kind));
    }
    if (idle_.IsFrom(job.id, inputs)) continue;
    Result<std::vector<GainByIdle>> gains = std::vector<GainByIdle>();
    if (!idle.empty() && job.plan > 0) gains = GainsWith(job, idle);
    idle_.Set(job.id, std::move(inputs),
              gains ? *std::move(gains) : std::vector<GainByIdle>());
  }
  return idle_.Keep(ids);
}

}  // namespace ucudnn
