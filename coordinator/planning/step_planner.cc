#include "coordinator/planning/step_planner.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/device_kind.h"
#include "base/network.h"
#include "base/text.h"
#include "coordinator/planning/planner.h"
#include "coordinator/planning/solve_until.h"
#include "solver/step_file.h"
#include "solver/step_shares.h"

namespace ucudnn {
namespace {

// Batches of the ranks' kinds; each takes some 100 bytes.
constexpr std::int64_t kMaxTimes = 4'000'000;

// Who shares the batch, and what the solver is asked.
struct StepSharing {
  std::vector<std::size_t> ranks;  // of each of the problem's GPUs
  StepProblem problem;
};

// What a rank may use; the largest there is if nothing bounds it.
Result<Bytes> MemoryOf(const JobRequest& request, std::size_t rank) {
  const std::string& kind = request.device_kinds[rank];
  const auto device = ParseDeviceKind(kind);
  const Bytes budget =
      request.memory ? request.memory->BudgetOf(rank) : Bytes(0);
  if (!device) return budget == Bytes(0) ? Bytes::Max() : budget;
  // Kinds tell it rounded down to a whole GiB.
  const Bytes most = device->memory + 1_GiB;
  if (budget > most) {
    return Fail(Code::kInvalidArgument,
                "memory: the budget of rank {} is {}; up to {}, which devices "
                "of kind {} have, is accepted",
                rank, FormatBytes(budget), FormatBytes(most), kind);
  }
  return budget == Bytes(0) ? device->memory : budget;
}

Result<StepSharing> StepSharingOf(const StepRecord& step,
                                  const JobRequest& request) {
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<StepKind> known,
                          ParseStep(step.content));
  StepSharing sharing;
  StepProblem& problem = sharing.problem;
  problem.batch = request.batch;
  problem.all_gpus = request.all_ranks;
  problem.recompute = request.memory && request.memory->recompute;
  for (std::size_t r = 0; r < request.device_kinds.size(); ++r) {
    if (std::ranges::binary_search(request.exclude_ranks,
                                   static_cast<std::int32_t>(r))) {
      continue;
    }
    UCUDNN_ASSIGN_OR_RETURN(const Bytes memory, MemoryOf(request, r));
    const std::string& kind = request.device_kinds[r];
    sharing.ranks.push_back(r);
    AddGpu(*std::ranges::find(known, kind, &StepKind::name), memory, &problem);
  }
  std::int64_t times = 0;
  for (const StepKind& kind : problem.kinds) {
    times += std::min(LargestBatch(kind), problem.batch).count();
  }
  if (times > kMaxTimes) {
    return Fail(Code::kInvalidArgument,
                "batch: the ranks' kinds have steps of {} batches up to {}; up "
                "to {} are accepted",
                times, problem.batch.count(), kMaxTimes);
  }
  return sharing;
}

// A step's times, as those of a rank's part.
WorkspacePlan PartOf(const GpuStep& step) {
  WorkspacePlan part;
  part.batch = step.batch;
  part.total_time = step.time;
  part.lower_bound = step.lower_bound;
  part.optimal = step.time == step.lower_bound;
  return part;
}

std::string WhyShare(const StepProblem& problem, const StepShares& shares,
                     std::size_t gpu) {
  const GpuStep& step = shares.gpus[gpu];
  if (step.batch == BatchSize(0)) {
    return "left out: a share for it would not make the slowest rank faster";
  }
  const StepKind& kind = problem.kinds[problem.gpus[gpu]];
  const Nanoseconds slack = shares.makespan - step.time;
  std::string why =
      slack.count() == 0
          ? "the slowest rank, which the others wait for"
          : fmt::format("ends {} before the slowest rank", HumanTime(slack));
  if (step.passes > 1) {
    why += fmt::format("; in {} equal passes, as no more fit", step.passes);
  } else if (step.batch == shares.most[problem.gpus[gpu]]) {
    why += step.batch < kind.steps.back().batch
               ? fmt::format("; all that fit into {}", HumanBytes(kind.memory))
           : kind.passes > 0 ? "; all that fit"
                             : "; no larger batch was measured";
  }
  const BatchSize pass(step.batch.count() / step.passes);
  if (!std::ranges::any_of(kind.steps, [&](const MeasuredStep& measured) {
        return measured.batch == pass;
      })) {
    why += pass < kind.steps.front().batch
               ? "; as long as the smallest that was measured"
               : "; between two that were measured";
  }
  return why;
}

// What the plan rests on.
std::vector<std::string> ReasonsOf(const StepRecord& record,
                                   const StepProblem& problem,
                                   const StepShares& shares) {
  std::vector<std::string> reasons = {fmt::format(
      "times are of whole steps: revision {} of step '{}'{}", record.revision,
      record.name, record.put_by.empty() ? "" : ", put by " + record.put_by)};
  std::set<std::string> told;
  for (const StepKind& kind : problem.kinds) {
    if (!told.insert(kind.name).second) continue;
    std::vector<std::int64_t> batches;
    for (const MeasuredStep& step : kind.steps) {
      batches.push_back(step.batch.count());
    }
    const bool recorded = kind.steps.front().recorded.has_value();
    constexpr std::size_t kShown = 12;
    const std::string more =
        batches.size() > kShown
            ? fmt::format(" and {} more up to {}", batches.size() - kShown,
                          batches.back())
            : "";
    batches.resize(std::min(batches.size(), kShown));
    reasons.push_back(fmt::format(
        "{}: {} at batches {}{}; on the line between them", kind.name,
        recorded ? "recorded" : "measured", fmt::join(batches, ", "), more));
    const bool known =
        recorded || std::ranges::all_of(kind.steps, [](const auto& step) {
          return step.peak > Bytes(0);
        });
    if (!known) {
      reasons.push_back(fmt::format(
          "memory not considered where no peak is known of {}", kind.name));
    }
  }
  if (shares.even) {
    reasons.push_back(
        fmt::format("even shares take {}", HumanTime(*shares.even)));
  }
  return reasons;
}

}  // namespace

Result<JobRequest> WithStepKinds(const StepRecord& step, JobRequest request) {
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<StepKind> kinds,
                          ParseStep(step.content));
  if (request.device_kinds.empty() && kinds.size() == 1) {
    request.device_kinds.push_back(kinds[0].name);
  }
  std::vector<std::string> names;
  for (const StepKind& kind : kinds) names.push_back(kind.name);
  if (request.device_kinds.empty()) {
    return Fail(Code::kInvalidArgument,
                "step '{}' has several kinds of devices; name device_kinds, "
                "out of {}",
                step.name, fmt::join(names, ", "));
  }
  for (std::size_t r = 0; r < request.device_kinds.size(); ++r) {
    if (std::ranges::find(names, request.device_kinds[r]) != names.end()) {
      continue;
    }
    return Fail(Code::kInvalidArgument,
                "device_kinds[{}] is '{}', of which step '{}' has no times; {} "
                "{} accepted",
                r, Excerpt(request.device_kinds[r]), step.name,
                fmt::join(names, ", "), names.size() == 1 ? "is" : "are");
  }
  return request;
}

Result<JobPlan> MakeStepPlan(const StepRecord& step, const JobRequest& request,
                             std::chrono::milliseconds time_limit) {
  const auto deadline = std::chrono::steady_clock::now() + time_limit;
  UCUDNN_ASSIGN_OR_RETURN(StepSharing sharing, StepSharingOf(step, request));
  StepProblem& problem = sharing.problem;
  UCUDNN_ASSIGN_OR_RETURN(const StepShares shares,
                          SolveUntil(deadline, [&](std::stop_token stop) {
                            problem.stop = std::move(stop);
                            return ShareSteps(problem);
                          }));
  JobPlan plan;
  plan.request = request;
  plan.predicted = shares.makespan;
  plan.lower_bound = shares.lower_bound;
  plan.optimal = shares.makespan == shares.lower_bound;
  plan.cut_off = shares.cut_off;
  plan.reasons = ReasonsOf(step, problem, shares);
  if (plan.cut_off) {
    plan.reasons.push_back(
        fmt::format("the search was cut off after {}", HumanTime(time_limit)));
  }
  for (std::size_t r = 0; r < request.device_kinds.size(); ++r) {
    plan.ranks.push_back(RankOf(request, r, BatchSize(0)));
    plan.ranks.back().reason = "excluded by the request";
  }
  std::map<std::pair<std::size_t, BatchSize>, SharedValue<WorkspacePlan>> parts;
  for (std::size_t g = 0; g < sharing.ranks.size(); ++g) {
    RankPlan& rank = plan.ranks[sharing.ranks[g]];
    const GpuStep& gpu = shares.gpus[g];
    rank = RankOf(request, sharing.ranks[g], gpu.batch);
    rank.reason = WhyShare(problem, shares, g);
    if (gpu.batch == BatchSize(0)) continue;
    auto& part = parts[{problem.gpus[g], gpu.batch}];
    if (part->batch == BatchSize(0)) part = PartOf(gpu);
    rank.workspace = part;
    const Bytes memory = problem.kinds[problem.gpus[g]].memory;
    if (gpu.peak > Bytes(0) && memory < Bytes::Max()) {
      rank.memory = RankMemory{.budget = memory, .peak = gpu.peak};
    }
  }
  return plan;
}

std::string StepInputsText(const StepRecord& step, const JobRequest& request) {
  return fmt::format("{}\nstep {}", InputsText(Network(), request, {}),
                     step.hash);
}

}  // namespace ucudnn
