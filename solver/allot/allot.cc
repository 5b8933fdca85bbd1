#include "solver/allot/allot.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "solver/allot/model.h"
#include "solver/check/validate.h"
#include "solver/check/validate_allotment.h"

namespace ucudnn {
namespace {

using allot_internal::Budget;
using allot_internal::Counts;
using allot_internal::Curve;
using allot_internal::Model;
using allot_internal::Outcome;
using allot_internal::Selection;

// So that the times of all devices sum to no more than an assignment accepts.
constexpr std::int64_t kLongestStep =
    (std::int64_t{1} << 61) / kMaxAllotDevices;

Status CheckTable(const std::vector<BatchCost>& table) {
  BatchSize last(0);
  for (const BatchCost& cost : table) {
    if (cost.batch <= last || cost.batch > kMaxBatchSize) {
      return Fail(Code::kInvalidArgument,
                  "batch {} follows batch {}; rising batches from 1 to {} are "
                  "accepted",
                  cost.batch.count(), last.count(), kMaxBatchSize.count());
    }
    last = cost.batch;
    if (cost.time.count() < 0 || cost.time.count() > kLongestStep) {
      return Fail(Code::kInvalidArgument,
                  "batch {} takes {} ns; 0 to 2^49 is accepted",
                  cost.batch.count(), cost.time.count());
    }
  }
  return {};
}

Status CheckJob(const AllotJob& job, std::size_t kinds, std::int64_t devices) {
  UCUDNN_RETURN_IF_ERROR(
      InRange("the mini-batch", job.batch.count(), 1, kMaxBatchSize.count()));
  UCUDNN_RETURN_IF_ERROR(InRange("the weight", job.weight, 1, kMaxWeight));
  UCUDNN_RETURN_IF_ERROR(
      InRange("the least number of devices", job.least, 1, job.most));
  UCUDNN_RETURN_IF_ERROR(
      InRange("the most devices", job.most, 1, kMaxAllotDevices));
  if (job.tables.size() != kinds) {
    return Fail(Code::kInvalidArgument, "{} tables for {} kinds of devices",
                job.tables.size(), kinds);
  }
  for (const auto& table : job.tables) {
    UCUDNN_RETURN_IF_ERROR(CheckTable(table));
  }
  const auto needed = std::min(job.most, devices);
  const auto times = static_cast<std::int64_t>(job.communication.size());
  if (times != 0 && times < needed) {
    return Fail(Code::kInvalidArgument,
                "{} communication times for up to {} devices", times, needed);
  }
  for (const Nanoseconds time : job.communication) {
    UCUDNN_RETURN_IF_ERROR(
        InRange("a communication time", time.count(), 0, kLongestStep));
  }
  return {};
}

Status CheckProblem(const AllotProblem& problem) {
  UCUDNN_RETURN_IF_ERROR(InRange("the number of kinds",
                                 static_cast<std::int64_t>(problem.free.size()),
                                 1, static_cast<std::int64_t>(kMaxAllotKinds)));
  UCUDNN_RETURN_IF_ERROR(InRange("the number of jobs",
                                 static_cast<std::int64_t>(problem.jobs.size()),
                                 1, static_cast<std::int64_t>(kMaxAllotJobs)));
  std::int64_t devices = 0;
  for (const std::int64_t free : problem.free) {
    UCUDNN_RETURN_IF_ERROR(InRange("the number of free devices of a kind", free,
                                   0, kMaxAllotDevices));
    devices += free;
  }
  UCUDNN_RETURN_IF_ERROR(
      InRange("the number of free devices", devices, 1, kMaxAllotDevices));
  for (std::size_t j = 0; j < problem.jobs.size(); ++j) {
    const Status valid =
        CheckJob(problem.jobs[j], problem.free.size(), devices);
    if (!valid) return Within(fmt::format("job {}", j), valid.error());
  }
  return {};
}

// The devices of a job that a best assignment on them uses, if leaving out the
// others makes the step shorter: gaps between batches and the exchange can make
// fewer devices faster. A level that more devices reach too does not show that.
void LeaveOut(const Model& model, std::size_t job, Selection* selection) {
  const AllotJob& asked = model.problem().jobs[job];
  Counts& counts = selection->counts[job];
  AssignProblem problem;
  problem.batch = asked.batch;
  problem.tables = asked.tables;
  problem.communication = asked.communication;
  for (std::size_t k = 0; k < model.free().size(); ++k) {
    AssignGpu gpu;
    gpu.table = k;
    problem.gpus.insert(problem.gpus.end(), static_cast<std::size_t>(counts[k]),
                        gpu);
  }
  const auto best = SolveAssignment(problem);
  if (!best || best->gpus_used < asked.least ||
      best->makespan.count() >= selection->times[job]) {
    return;
  }
  counts = {};
  for (std::size_t g = 0; g < problem.gpus.size(); ++g) {
    if (best->shares[g].batch > BatchSize(0)) ++counts[problem.gpus[g].table];
  }
  selection->times[job] = best->makespan.count();
}

// Gives what is left, kind by kind, to the job that gains the most from each
// device. Returns whether anybody gained.
bool GiveLeft(const Model& model, Selection* selection) {
  const std::size_t kinds = model.free().size();
  std::vector<std::int64_t> left(model.free().begin(), model.free().end());
  for (const Counts& counts : selection->counts) {
    for (std::size_t k = 0; k < kinds; ++k) left[k] -= counts[k];
  }
  struct Gift {
    double gain = 0;  // for each device
    std::size_t job = 0;
    Counts counts{};
    std::int64_t time = 0;
  };
  for (bool gained = false;; gained = true) {
    Gift best;
    for (std::size_t j = 0; j < model.jobs(); ++j) {
      const std::int64_t value = model.ValueOf(j, selection->times[j]);
      for (std::size_t k = 0; k < kinds; ++k) {
        Counts counts = selection->counts[j];
        for (std::int64_t n = 1; n <= left[k]; ++n) {
          ++counts[k];
          const auto time = model.curve(j).LeastTime(counts);
          if (!time.has_value()) continue;
          const double gain =
              static_cast<double>(model.ValueOf(j, *time) - value) /
              static_cast<double>(n);
          if (gain > best.gain) best = {gain, j, counts, *time};
        }
      }
    }
    if (best.gain <= 0) return gained;
    for (std::size_t k = 0; k < kinds; ++k) {
      left[k] -= best.counts[k] - selection->counts[best.job][k];
    }
    selection->counts[best.job] = best.counts;
    selection->times[best.job] = best.time;
  }
}

Nanoseconds TimeOf(const std::vector<BatchCost>& table, BatchSize batch) {
  const auto row =
      std::ranges::lower_bound(table, batch, {}, &BatchCost::batch);
  UCUDNN_CHECK(row != table.end() && row->batch == batch);
  return row->time;
}

JobAllotment Describe(const Model& model, std::size_t job, const Counts& counts,
                      std::int64_t time) {
  JobAllotment allotment;
  allotment.step = Nanoseconds(time);
  allotment.alone = Nanoseconds(model.alone(job));
  allotment.share = model.ShareOf(job, time);
  const auto batches = model.curve(job).Split(counts, time);
  std::size_t at = 0;
  for (std::size_t k = 0; k < model.free().size(); ++k) {
    allotment.devices.push_back(counts[k]);
    for (std::int16_t i = 0; i < counts[k]; ++i) {
      const BatchSize batch(batches[at++]);
      allotment.shares.push_back(
          {k, batch, TimeOf(model.problem().jobs[job].tables[k], batch)});
    }
  }
  return allotment;
}

Error WhyNone(const Outcome& outcome, const Limits& limits) {
  if (outcome.none) {
    return {Code::kFailedPrecondition,
            "the free devices do not suffice for all jobs at once"};
  }
  if (limits.stop.stop_requested()) {
    return {Code::kCancelled, "stopped before an allotment was found"};
  }
  return {Code::kResourceExhausted,
          fmt::format("no allotment was found in {} steps", limits.max_nodes)};
}

}  // namespace

std::int64_t AllotObjective(const AllotProblem& problem,
                            const std::vector<JobAllotment>& jobs) {
  std::int64_t least = kMaxCount;
  std::int64_t sum = 0;
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    const auto wide = [](std::int64_t number) {
      return static_cast<__int128>(number);
    };
    const __int128 alone =
        wide(std::max<std::int64_t>(jobs[j].alone.count(), 1));
    const __int128 step = std::max(wide(jobs[j].step.count()), alone);
    const __int128 weight = wide(problem.jobs[j].weight);
    const auto level = static_cast<std::int64_t>(alone * kWholeShare *
                                                 kUnitWeight / (step * weight));
    least = std::min(least, std::max<std::int64_t>(level, 1));
    const auto value = static_cast<std::int64_t>(
        alone * weight * (kWholeShare / kUnitWeight) / step);
    sum += std::max<std::int64_t>(value, 1);
  }
  return problem.goal == AllotGoal::kMaxMinShare ? least : sum;
}

Result<Allotment> SolveAllotment(
    const AllotProblem& problem, const Limits& limits,
    const std::function<void(const AllotProgress&)>& progress) {
  UCUDNN_RETURN_IF_ERROR(CheckProblem(problem));
  UCUDNN_ASSIGN_OR_RETURN(const Model model, Model::Make(problem));
  Budget budget;
  budget.nodes = limits.max_nodes;
  budget.stop = limits.stop;
  if (progress) {
    budget.report = [&](std::int64_t objective, std::int64_t bound) {
      progress({objective, bound, limits.max_nodes - budget.nodes});
    };
  }
  Outcome outcome = SearchAllotment(model, &budget);
  if (!outcome.best.has_value()) {
    return tl::unexpected<Error>(WhyNone(outcome, limits));
  }
  do {
    for (std::size_t j = 0; j < model.jobs(); ++j) {
      LeaveOut(model, j, &*outcome.best);
    }
  } while (GiveLeft(model, &*outcome.best));
  Allotment allotment;
  for (std::size_t j = 0; j < model.jobs(); ++j) {
    allotment.jobs.push_back(
        Describe(model, j, outcome.best->counts[j], outcome.best->times[j]));
  }
  allotment.objective = AllotObjective(problem, allotment.jobs);
  allotment.bound = std::max(outcome.bound, allotment.objective);
  allotment.optimal = allotment.objective == allotment.bound;
  allotment.nodes = limits.max_nodes - budget.nodes;
  if (kSolversCheckThemselves)
    RequireValid(ValidateAllotment(allotment, problem));
  return allotment;
}

}  // namespace ucudnn
