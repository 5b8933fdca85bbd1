#include "tests/gpu/memory/rows.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "base/files/file.h"
#include "base/onnx/network_file.h"
#include "base/service/time_limit.h"
#include "base/text.h"
#include "client/training/link_under_load.h"
#include "solver/memory/bounds.h"
#include "solver/memory/policies.h"

namespace ucudnn::memory_rows {

Result<TrainingInput> InputOf(const std::string& spec) {
  const std::size_t first = spec.find(':');
  const std::size_t second = spec.find(':', first + 1);
  if (second == std::string::npos) {
    return Fail(Code::kInvalidArgument,
                "'{}' is no network; FILE:BATCH:PRECISION is accepted", spec);
  }
  TrainingInput input;
  input.source = spec.substr(0, first);
  input.name = NetworkNameOf(input.source);
  input.batch =
      BatchSize(std::atoll(spec.substr(first + 1, second - first - 1).c_str()));
  UCUDNN_ASSIGN_OR_RETURN(input.graph.precision,
                          ParsePrecision(spec.substr(second + 1)));
  UCUDNN_ASSIGN_OR_RETURN(input.contents,
                          ReadFile(input.source, kMaxNetworkFile));
  input.max_workspace = 512_MiB;
  input.repeats = 2;
  return input;
}

Result<MemoryPlan> PlanOf(const TrainingGraph& training,
                          const std::string& policy,
                          const PlanOptions& options) {
  const std::string name = policy.substr(0, policy.find('+'));
  UCUDNN_ASSIGN_OR_RETURN(const MemoryPolicy* found, FindMemoryPolicy(name));
  const TimeLimit limit(RoundUpSeconds(options.seconds));
  MemoryRequest request;
  request.budget = options.budget;
  request.stop = limit.token();
  request.recompute = policy.ends_with("+recompute");
  request.any_plan = options.any;
  if (!options.sub_batches) request.sub_batch = training.batch;
  auto plan = found->plan(training, request);
  if (!plan) return plan;
  plan->policy = policy;
  SetBounds(training, request, &*plan);
  return plan;
}

Result<std::unique_ptr<Job>> RowRunner::Prepare(const std::string& spec,
                                                TrainingInput input) {
  auto job = std::make_unique<Job>();
  job->spec = spec;
  job->input = std::move(input);
  job->input.model = model_;
  const double begun = seconds();
  UCUDNN_ASSIGN_OR_RETURN(job->prepared, ReadTraining(job->input));
  UCUDNN_RETURN_IF_ERROR(MeasureTraining(device_, operators_, job->input, {},
                                         job->prepared.get()));
  std::fprintf(stderr, "%6.1f s: measured %s in %.1f s\n", seconds(),
               spec.c_str(), seconds() - begun);
  return job;
}

Result<bool> RowRunner::MeasureLink(const Job& job, const MemoryPlan& plan,
                                    DeviceModel* link) {
  auto changed = MeasureLinkUnderLoad(device_, operators_, *job.prepared, plan,
                                      {}, {}, {}, &host_, link);
  if (!changed && changed.error().code != Code::kDataLoss) return false;
  std::fprintf(stderr,
               "%6.1f s: %s %s within %s: %.1f GB/s to the host, %.1f back\n",
               seconds(), job.spec.c_str(), plan.policy.c_str(),
               HumanBytes(plan.budget).c_str(), link->d2h_rate / 1e3,
               link->h2d_rate / 1e3);
  return changed;
}

Status RowRunner::ReserveHost(Bytes size) {
  if (host_.size() >= size) return {};
  host_.Reset();
  UCUDNN_ASSIGN_OR_RETURN(host_, device_.AllocateHost(size));
  return {};
}

Status RowRunner::Execute(Job& job, const std::string& policy,
                          const MemoryPlan& plan, const DeviceModel& link,
                          const nlohmann::ordered_json& more,
                          const Extras& extras) {
  const double begun = seconds();
  job.prepared->training.device = link;  // whose rates the row shows
  MemoryRunOptions options;
  options.steps = steps_;
  options.warm_up = 1;
  options.execution.rate = 1e-3F;
  options.execution.allow_sub_batch_statistics = true;
  const auto run_with = [&](const MemoryRunOptions& chosen) {
    return RunMemoryPlan(device_, operators_, *job.prepared, plan, chosen, {},
                         &host_);
  };
  const auto run = run_with(options);
  nlohmann::ordered_json row;
  row["row"] = job.spec;
  row["asked_policy"] = policy;
  row.update(more);
  if (run) {
    row.update(ToJson(*job.prepared, plan, *run));
    row["losses"] = run->losses;
    if (policy == "undivided") job.plain_step = run->Median();
    row["plain_step_us"] = Microseconds(job.plain_step);
    row["plain_bytes"] = job.plain.count();
    if (extras.poison) {
      MemoryRunOptions poisoned = options;
      poisoned.execution.poison = true;
      if (const auto again = run_with(poisoned)) {
        row["poisoned_losses"] = again->losses;
      }
    }
    if (extras.time_tasks) {
      MemoryRunOptions timed = options;
      timed.execution.time_tasks = true;
      if (const auto again = run_with(timed)) {
        row["timed"] = ToJson(*job.prepared, plan, *again);
      }
    }
  } else {
    row["error"] = run.error().message;
  }
  row["run_seconds"] = seconds() - begun;
  PrintLine(row);
  // A lost device fails every further row.
  if (!run && run.error().code == Code::kDataLoss) {
    return tl::unexpected<Error>(run.error());
  }
  return {};
}

void RowRunner::PrintNoPlan(const Job& job, const std::string& policy,
                            const nlohmann::ordered_json& more,
                            const Error& why) {
  nlohmann::ordered_json row;
  row["row"] = job.spec;
  row["asked_policy"] = policy;
  row.update(more);
  row["no_plan"] = why.message;
  PrintLine(row);
}

void PrintLine(const nlohmann::ordered_json& json) {
  std::printf("%s\n", json.dump().c_str());
  std::fflush(stdout);
}

}  // namespace ucudnn::memory_rows
