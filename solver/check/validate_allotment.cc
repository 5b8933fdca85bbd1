#include "solver/check/validate_allotment.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "solver/assign/assign.h"
#include "solver/check/validate.h"

namespace ucudnn {
namespace {

// The least time that an assignment on `devices` takes, if there is one.
Result<Assignment> Assign(const AllotJob& job,
                          const std::vector<std::int64_t>& devices) {
  AssignProblem problem;
  problem.batch = job.batch;
  problem.tables = job.tables;
  for (std::size_t k = 0; k < devices.size(); ++k) {
    for (std::int64_t i = 0; i < devices[k]; ++i) {
      AssignGpu gpu;
      gpu.table = k;
      problem.gpus.push_back(gpu);
    }
  }
  problem.communication = job.communication;
  return SolveAssignment(problem);
}

Status CheckDevices(const JobAllotment& allotment, const AllotJob& job,
                    std::size_t kinds) {
  if (allotment.devices.size() != kinds) {
    return Wrong("devices of {} kinds, not of {}", allotment.devices.size(),
                 kinds);
  }
  std::vector<std::int64_t> shared(kinds, 0);
  for (const DeviceShare& share : allotment.shares) {
    if (share.kind >= kinds) {
      return Wrong("a share of kind {}", share.kind);
    }
    ++shared[share.kind];
  }
  if (shared != allotment.devices) {
    return Wrong("not every device has one share");
  }
  const auto devices = static_cast<std::int64_t>(allotment.shares.size());
  if (devices < job.least || devices > job.most) {
    return Wrong("{} devices, not {} to {}", devices, job.least, job.most);
  }
  return {};
}

Status CheckSplit(const JobAllotment& allotment, const AllotJob& job) {
  std::int64_t images = 0;
  Nanoseconds slowest{0};
  for (const DeviceShare& share : allotment.shares) {
    const auto& table = job.tables[share.kind];
    const bool measured =
        std::ranges::any_of(table, [&](const BatchCost& cost) {
          return cost.batch == share.batch && cost.time == share.time;
        });
    if (!measured || share.batch < BatchSize(1)) {
      return Wrong("batch {} in {} ns on kind {} is no row",
                   share.batch.count(), share.time.count(), share.kind);
    }
    images += share.batch.count();
    slowest = std::max(slowest, share.time);
  }
  if (images != job.batch.count()) {
    return Wrong("the shares sum to {}, not to {}", images, job.batch.count());
  }
  if (!job.communication.empty()) {
    slowest += job.communication[allotment.shares.size() - 1];
  }
  if (std::max(slowest, Nanoseconds(1)) !=
      std::max(allotment.step, Nanoseconds(1))) {
    return Wrong("the step takes {} ns, not {}", slowest.count(),
                 allotment.step.count());
  }
  return {};
}

Status CheckTimes(const JobAllotment& allotment, const AllotJob& job,
                  const std::vector<std::int64_t>& free) {
  // An assignment may leave devices out, which an allotment must not do if the
  // job would have too few.
  const auto split = Assign(job, allotment.devices);
  // With communication an assignment may give up.
  const auto gave_up = [](const Result<Assignment>& assignment) {
    return !assignment && assignment.error().code == Code::kResourceExhausted;
  };
  if (gave_up(split)) return {};
  if (!split) return Within("no assignment", split.error());
  if (split->gpus_used >= job.least && split->makespan < allotment.step) {
    return Wrong("an assignment takes {} ns, not {}", split->makespan.count(),
                 allotment.step.count());
  }
  if (allotment.alone > std::max(allotment.step, Nanoseconds(1))) {
    return Wrong("alone it takes {} ns, longer than {}",
                 allotment.alone.count(), allotment.step.count());
  }
  std::int64_t all = 0;
  for (const std::int64_t devices : free) all += devices;
  if (!job.communication.empty() &&
      static_cast<std::int64_t>(job.communication.size()) < all) {
    return {};
  }
  const auto alone = Assign(job, free);
  if (gave_up(alone)) return {};
  if (!alone) return Within("no assignment alone", alone.error());
  const Nanoseconds least = std::max(alone->makespan, Nanoseconds(1));
  if (least > allotment.alone ||
      (job.least <= alone->gpus_used && alone->gpus_used <= job.most &&
       least != allotment.alone)) {
    return Wrong("alone it takes {} ns, not {}", least.count(),
                 allotment.alone.count());
  }
  return {};
}

double RatioOf(Nanoseconds alone, Nanoseconds step) {
  return static_cast<double>(alone.count()) /
         std::max(1.0, static_cast<double>(step.count()));
}

bool Near(std::int64_t parts, double share) {
  const double whole = static_cast<double>(kWholeShare);
  return std::abs(static_cast<double>(parts) - share * whole) <=
         2 + 1e-9 * share * whole;
}

Status CheckFigures(const Allotment& allotment, const AllotProblem& problem) {
  double least = HUGE_VAL;
  double sum = 0;
  for (std::size_t j = 0; j < problem.jobs.size(); ++j) {
    const JobAllotment& job = allotment.jobs[j];
    const double share = RatioOf(job.alone, job.step);
    const double weight = static_cast<double>(problem.jobs[j].weight) /
                          static_cast<double>(kUnitWeight);
    if (!Near(job.share, share)) {
      return Wrong("job {}: a share of {}, not {}", j, job.share, share);
    }
    least = std::min(least, share / weight);
    sum += share * weight;
  }
  const double objective =
      problem.goal == AllotGoal::kMaxMinShare ? least : sum;
  const double slip = static_cast<double>(problem.jobs.size());
  if (std::abs(static_cast<double>(allotment.objective) -
               objective * static_cast<double>(kWholeShare)) >
      slip + 1 + 1e-9 * objective * static_cast<double>(kWholeShare)) {
    return Wrong("the objective is {}, not {}", allotment.objective, objective);
  }
  if (allotment.bound < allotment.objective ||
      allotment.optimal != (allotment.bound == allotment.objective)) {
    return Wrong("a bound of {} for {}, optimal {}", allotment.bound,
                 allotment.objective, allotment.optimal);
  }
  return {};
}

}  // namespace

Status ValidateAllotment(const Allotment& allotment,
                         const AllotProblem& problem) {
  if (allotment.jobs.size() != problem.jobs.size()) {
    return Wrong("{} jobs, not {}", allotment.jobs.size(), problem.jobs.size());
  }
  std::vector<std::int64_t> taken(problem.free.size(), 0);
  for (std::size_t j = 0; j < problem.jobs.size(); ++j) {
    const JobAllotment& job = allotment.jobs[j];
    const auto check = [&]() -> Status {
      UCUDNN_RETURN_IF_ERROR(
          CheckDevices(job, problem.jobs[j], problem.free.size()));
      UCUDNN_RETURN_IF_ERROR(CheckSplit(job, problem.jobs[j]));
      return CheckTimes(job, problem.jobs[j], problem.free);
    };
    const Status valid = check();
    if (!valid) return Within(fmt::format("job {}", j), valid.error());
    for (std::size_t k = 0; k < taken.size(); ++k) taken[k] += job.devices[k];
  }
  for (std::size_t k = 0; k < taken.size(); ++k) {
    if (taken[k] > problem.free[k]) {
      return Wrong("{} devices of kind {} are allotted, {} free", taken[k], k,
                   problem.free[k]);
    }
  }
  return CheckFigures(allotment, problem);
}

}  // namespace ucudnn
