// Free devices for jobs.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <stop_token>
#include <utility>

#include "base/names.h"
#include "base/service/call.h"
#include "base/service/time_limit.h"
#include "base/text.h"
#include "coordinator/limits.h"
#include "coordinator/measuring/measuring.h"
#include "coordinator/planning/planner.h"
#include "coordinator/plans/plan_service.h"
#include "proto/convert_plan.h"
#include "solver/allot/allot.h"
#include "solver/joint.h"
#include "ucudnn/v1/coordinator.pb.h"

namespace ucudnn {
namespace {

// The search ends by time, not by steps.
constexpr std::int64_t kMostAllotNodes = std::int64_t{1} << 40;

// Devices of the same kind, and how many.
struct Offer {
  std::vector<std::string> kinds;
  std::vector<std::int64_t> counts;
};

template <class Number>
Status CheckNumber(std::string_view field, Number value, Number least,
                   Number most) {
  if (value >= least && value <= most) return {};
  return Fail(Code::kInvalidArgument, "{}: {} is given; {} to {} is accepted",
              field, value, least, most);
}

Result<AllotGoal> GoalOf(const std::string& goal) {
  if (goal.empty() || goal == "share") return AllotGoal::kMaxMinShare;
  if (goal == "throughput") return AllotGoal::kThroughput;
  return Fail(Code::kInvalidArgument,
              "goal: '{}' is given; share or throughput is accepted",
              Excerpt(goal));
}

Result<Offer> NamedDevices(const v1::AllocateRequest& request) {
  Offer offer;
  for (const v1::DeviceCount& devices : request.devices()) {
    UCUDNN_RETURN_IF_ERROR(CheckNumber<std::int64_t>(
        "devices.count", devices.count(), 0, kMaxDevicesToAllocate));
    if (std::find(offer.kinds.begin(), offer.kinds.end(), devices.kind()) !=
        offer.kinds.end()) {
      return Fail(Code::kInvalidArgument, "devices: kind '{}' comes twice",
                  Excerpt(devices.kind()));
    }
    offer.kinds.push_back(devices.kind());
    offer.counts.push_back(devices.count());
  }
  return offer;
}

Result<Offer> IdleDevices(AgentStore& agents) {
  UCUDNN_ASSIGN_OR_RETURN(const auto devices, agents.ListDevices(""));
  std::map<std::string, std::int64_t> idle;
  for (const DeviceRecord& device : devices) {
    if (device.state != DeviceState::kIdle || device.hold) continue;
    ++idle[ToString(device.kind)];
  }
  if (idle.empty()) {
    return Fail(Code::kFailedPrecondition,
                "no device is idle; name devices to allocate others");
  }
  Offer offer;
  for (const auto& [kind, count] : idle) {
    offer.kinds.push_back(kind);
    offer.counts.push_back(count);
  }
  return offer;
}

Status CheckOffer(const Offer& offer) {
  UCUDNN_RETURN_IF_ERROR(CheckNumber<std::size_t>(
      "devices: the number of kinds", offer.kinds.size(), 1, kMaxAllotKinds));
  std::int64_t devices = 0;
  for (const std::int64_t count : offer.counts) devices += count;
  return CheckNumber<std::int64_t>("devices: their number", devices, 1,
                                   kMaxDevicesToAllocate);
}

// How much memory and time the tables of times will take.
Status CheckJobs(const v1::AllocateRequest& request, const Offer& offer) {
  UCUDNN_RETURN_IF_ERROR(CheckNumber<int>(
      "jobs: their number", request.jobs_size(), 1, kMaxJobsToAllocate));
  std::int64_t times = 0;
  std::set<std::string> names;
  for (const v1::JobToAllocate& job : request.jobs()) {
    if (job.name().empty() || !names.insert(job.name()).second) {
      return Fail(Code::kInvalidArgument,
                  "jobs.name: '{}' is empty or the name of another job",
                  Excerpt(job.name()));
    }
    if (!job.plan().device_kinds().empty()) {
      return Fail(Code::kInvalidArgument,
                  "job '{}': plan.device_kinds is for plans; leave it empty",
                  Excerpt(job.name()));
    }
    if (job.plan().has_memory()) {
      return Fail(Code::kInvalidArgument,
                  "job '{}': plan.memory is not supported; allocations are by "
                  "workspace limits",
                  Excerpt(job.name()));
    }
    UCUDNN_RETURN_IF_ERROR(CheckNumber<std::int64_t>(
        "jobs.plan.batch", job.plan().batch(), 1, kMaxBatchSize.count()));
    times += job.plan().batch() * static_cast<std::int64_t>(offer.kinds.size());
    if (times > kMaxTimesToAllocate) {
      return Fail(Code::kInvalidArgument,
                  "the jobs' batches on {} kinds have more than {} times; "
                  "allocate fewer jobs at once, or smaller batches",
                  offer.kinds.size(), kMaxTimesToAllocate);
    }
  }
  return {};
}

// All but the tables.
Result<AllotJob> ReadJob(const v1::JobToAllocate& job) {
  AllotJob read;
  read.batch = BatchSize(job.plan().batch());
  const double weight = job.weight() == 0 ? 1 : job.weight();
  UCUDNN_RETURN_IF_ERROR(CheckNumber<double>("weight", weight, 0.001, 1000));
  read.weight = std::llround(weight * static_cast<double>(kUnitWeight));
  if (job.least_devices() != 0) read.least = job.least_devices();
  if (job.most_devices() != 0) read.most = job.most_devices();
  for (const std::int64_t time : job.exchange_ns()) {
    read.communication.emplace_back(time);
  }
  return read;
}

// Adds the job's times on each kind, of what was measured.
Status AddTables(Store& store, const v1::JobToAllocate& job, const Offer& offer,
                 AllotJob* read,
                 google::protobuf::RepeatedPtrField<std::string>* notes) {
  UCUDNN_ASSIGN_OR_RETURN(JobRequest wanted, FromProto(job.plan()));
  wanted.device_kinds = offer.kinds;
  UCUDNN_ASSIGN_OR_RETURN(PlanInputs inputs,
                          LookUp(store.agents, store.networks, wanted));
  UCUDNN_RETURN_IF_ERROR(LoadProfiles(store.measurements, &inputs));
  if (inputs.tasks.measured() && job.fixed_ns() + job.per_image_ns() == 0) {
    *notes->Add() = fmt::format(
        "job '{}': times count convolutions only; fixed_ns and per_image_ns "
        "tell what a step takes beside",
        job.name());
  }
  for (const std::string& name : offer.kinds) {
    UCUDNN_RETURN_IF_ERROR(Call::Check());
    JointKind kind;
    UCUDNN_ASSIGN_OR_RETURN(
        kind.kernels,
        ProfileOf(inputs.network, inputs.request, inputs.profiles, name));
    kind.workspace_limit = inputs.request.KernelLimit();
    kind.concurrency = inputs.concurrency;
    kind.policy = inputs.request.policy;
    kind.fixed = Nanoseconds(job.fixed_ns());
    kind.per_image = Nanoseconds(job.per_image_ns());
    UCUDNN_ASSIGN_OR_RETURN(auto times, IterationTimes(kind, read->batch, {}));
    if (times.empty()) {
      *notes->Add() = fmt::format(
          "job '{}' uses no {}: its network was not measured on it, or nothing "
          "fits the limit",
          job.name(), name);
    }
    read->tables.push_back(std::move(times));
  }
  const bool any = std::any_of(
      read->tables.begin(), read->tables.end(),
      [](const std::vector<BatchCost>& table) { return !table.empty(); });
  if (any) return {};
  return Fail(Code::kFailedPrecondition,
              "network '{}' was measured on none of the kinds, or nothing fits "
              "the limit; have it measured first",
              Excerpt(job.plan().network()));
}

v1::AllocatedJob DescribeJob(const v1::JobToAllocate& job, const Offer& offer,
                             const JobAllotment& allotted) {
  v1::AllocatedJob described;
  described.set_name(job.name());
  described.set_share(static_cast<double>(allotted.share) /
                      static_cast<double>(kWholeShare));
  described.set_step_ns(allotted.step.count());
  described.set_alone_ns(allotted.alone.count());
  for (std::size_t k = 0; k < offer.kinds.size(); ++k) {
    if (allotted.devices[k] == 0) continue;
    v1::DeviceCount& devices = *described.add_devices();
    devices.set_kind(offer.kinds[k]);
    devices.set_count(allotted.devices[k]);
  }
  for (const DeviceShare& share : allotted.shares) {
    v1::AllocatedRank& rank = *described.add_ranks();
    rank.set_kind(offer.kinds[share.kind]);
    rank.set_batch(share.batch.count());
    rank.set_weight(static_cast<double>(share.batch.count()) /
                    static_cast<double>(job.plan().batch()));
    rank.set_time_ns(share.time.count());
  }
  return described;
}

}  // namespace

Result<v1::Allocation> PlanService::Allocate(
    const v1::AllocateRequest& request) {
  AllotProblem problem;
  UCUDNN_ASSIGN_OR_RETURN(problem.goal, GoalOf(request.goal()));
  UCUDNN_RETURN_IF_ERROR(CheckNumber<std::int64_t>(
      "time_limit_ms", request.time_limit_ms(), 0, kMaxAllocateTime.count()));
  UCUDNN_ASSIGN_OR_RETURN(const Offer offer, request.devices().empty()
                                                 ? IdleDevices(store_.agents)
                                                 : NamedDevices(request));
  UCUDNN_RETURN_IF_ERROR(CheckOffer(offer));
  UCUDNN_RETURN_IF_ERROR(CheckJobs(request, offer));
  problem.free = offer.counts;
  v1::Allocation answer;
  for (const v1::JobToAllocate& job : request.jobs()) {
    const auto read = [&]() -> Status {
      UCUDNN_ASSIGN_OR_RETURN(AllotJob added, ReadJob(job));
      UCUDNN_RETURN_IF_ERROR(
          AddTables(store_, job, offer, &added, answer.mutable_notes()));
      problem.jobs.push_back(std::move(added));
      return {};
    }();
    if (!read) {
      return Within(fmt::format("job '{}'", Excerpt(job.name())), read.error());
    }
  }
  const TimeLimit limit(
      request.time_limit_ms() == 0
          ? kAllocateTime
          : std::chrono::milliseconds(request.time_limit_ms()));
  UCUDNN_ASSIGN_OR_RETURN(const Allotment allotment,
                          SolveAllotment(problem, {.max_nodes = kMostAllotNodes,
                                                   .stop = limit.token()}));
  UCUDNN_RETURN_IF_ERROR(Call::Check());
  answer.set_goal(problem.goal == AllotGoal::kMaxMinShare ? "share"
                                                          : "throughput");
  const auto whole = static_cast<double>(kWholeShare);
  answer.set_objective(static_cast<double>(allotment.objective) / whole);
  answer.set_bound(static_cast<double>(allotment.bound) / whole);
  answer.set_optimal(allotment.optimal);
  for (std::size_t k = 0; k < offer.kinds.size(); ++k) {
    v1::DeviceCount& devices = *answer.add_devices();
    devices.set_kind(offer.kinds[k]);
    devices.set_count(offer.counts[k]);
  }
  for (int j = 0; j < request.jobs_size(); ++j) {
    *answer.add_jobs() = DescribeJob(
        request.jobs(j), offer, allotment.jobs[static_cast<std::size_t>(j)]);
  }
  return answer;
}

}  // namespace ucudnn
