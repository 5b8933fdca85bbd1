#include "solver/assign/assign.h"

#include <algorithm>
#include <utility>

#include "solver/assign/kinds.h"
#include "solver/assign/reach.h"
#include "solver/assign/ties.h"
#include "solver/check/validate.h"
#include "solver/check/validate_assignment.h"

namespace ucudnn {
namespace {

using assign_internal::GpuKind;
using assign_internal::Reach;
using assign_internal::Ties;

// Additions that the resolution of ties may make for each node of the limit.
constexpr std::int64_t kStepsPerNode = 64;

std::int64_t MaxSteps(const Limits& limits) {
  return limits.max_nodes > kMaxCount / kStepsPerNode
             ? kMaxCount
             : limits.max_nodes * kStepsPerNode;
}

Error NothingSumsTo(const AssignProblem& problem) {
  // Batches beyond B count here: a larger mini-batch may use them.
  const auto kinds = assign_internal::MakeKinds(problem, kMaxBatchSize);
  UCUDNN_CHECK(kinds.has_value());
  const std::int64_t batch = problem.batch.count();
  const auto [below, above] = Reach(*kinds, batch).NearestSums();
  std::string nearest = "no GPU has a batch that it may use";
  if (below > 0 && above > 0) {
    nearest =
        fmt::format("the nearest that would do are {} and {}", below, above);
  } else if (below > 0) {
    nearest = fmt::format("the most that would do is {}", below);
  } else if (above > 0) {
    nearest = fmt::format("the least that would do is {}", above);
  }
  return {Code::kFailedPrecondition,
          fmt::format("no batches of the {} GPUs sum to a mini-batch of {}; {}",
                      problem.gpus.size(), batch, nearest)};
}

// The shares, from batches listed kind after kind.
Assignment Assemble(const AssignProblem& problem,
                    const std::vector<GpuKind>& kinds,
                    const std::vector<std::int64_t>& batches) {
  Assignment assignment;
  assignment.shares.resize(problem.gpus.size());
  std::size_t at = 0;
  for (const GpuKind& kind : kinds) {
    for (const std::size_t g : kind.gpus) {
      const BatchSize batch(batches[at++]);
      if (batch == BatchSize(0)) continue;
      const auto cost =
          std::ranges::lower_bound(kind.costs, batch, {}, &BatchCost::batch);
      UCUDNN_CHECK(cost != kind.costs.end() && cost->batch == batch);
      assignment.shares[g] = {batch, cost->time};
      assignment.makespan = std::max(assignment.makespan, cost->time);
      assignment.total_time += cost->time;
      ++assignment.gpus_used;
    }
  }
  if (!problem.communication.empty()) {
    assignment.communication =
        problem
            .communication[static_cast<std::size_t>(assignment.gpus_used) - 1];
    assignment.makespan += assignment.communication;
  }
  assignment.lower_bound = assignment.makespan;
  return assignment;
}

// Resolves the ties of a feasible makespan.
Assignment WithinTime(const AssignProblem& problem,
                      const std::vector<GpuKind>& kinds, const Reach& reach,
                      std::int64_t time, const Limits& limits) {
  Ties ties(kinds, problem.batch.count(), MaxSteps(limits));
  const auto all = static_cast<std::int64_t>(problem.gpus.size());
  for (std::int64_t gpus = *ties.FewestForMost(time); gpus <= all; ++gpus) {
    if (limits.stop.stop_requested()) break;
    auto found = ties.Solve(time, gpus);
    if (!found) break;
    if (!found->has_value()) continue;
    Assignment assignment = Assemble(problem, kinds, **found);
    assignment.ties_resolved = true;
    return assignment;
  }
  return Assemble(problem, kinds, reach.AnyWithin(time));
}

// The least time for exactly `gpus` GPUs, and its batches; absent unless it is
// below `limit`.
struct Candidate {
  std::int64_t time = 0;
  std::vector<std::int64_t> batches;
};
Result<std::optional<Candidate>> ForExactly(const std::vector<GpuKind>& kinds,
                                            std::int64_t gpus,
                                            std::int64_t from,
                                            std::int64_t limit, Ties* ties,
                                            const std::stop_token& stop) {
  using Found = std::optional<Candidate>;
  UCUDNN_ASSIGN_OR_RETURN(auto batches, ties->Solve(from, gpus));
  if (batches.has_value()) return Found({from, *std::move(batches)});
  std::vector<std::int64_t> times;
  for (const GpuKind& kind : kinds) {
    for (const BatchCost& cost : kind.costs) {
      const std::int64_t time = cost.time.count();
      if (time > from && time < limit) times.push_back(time);
    }
  }
  std::ranges::sort(times);
  times.erase(std::unique(times.begin(), times.end()), times.end());
  Found found;
  std::size_t begin = 0;
  std::size_t end = times.size();
  // The answer is near `from`: search outwards first, then bisect.
  std::size_t step = 1;
  while (begin < end) {
    if (stop.stop_requested()) return Fail(Code::kCancelled, "stopped");
    const std::size_t middle = found.has_value()
                                   ? begin + (end - begin) / 2
                                   : std::min(begin + step, end) - 1;
    step *= 2;
    UCUDNN_ASSIGN_OR_RETURN(batches, ties->Solve(times[middle], gpus));
    if (batches.has_value()) {
      found = {times[middle], *std::move(batches)};
      end = middle;
    } else {
      begin = middle + 1;
    }
  }
  return found;
}

// With communication the makespan depends on the number of GPUs: tries each,
// the most promising first.
Result<Assignment> WithCommunication(const AssignProblem& problem,
                                     const std::vector<GpuKind>& kinds,
                                     const Limits& limits) {
  Ties ties(kinds, problem.batch.count(), MaxSteps(limits));
  struct Number {
    std::int64_t bound = 0;
    std::int64_t time = 0;
    std::int64_t gpus = 0;
  };
  std::vector<Number> numbers;
  const auto all = static_cast<std::int64_t>(problem.gpus.size());
  for (std::int64_t gpus = 1; gpus <= all; ++gpus) {
    if (limits.stop.stop_requested()) return Fail(Code::kCancelled, "stopped");
    const auto time = ties.LeastTimeForMost(gpus);
    if (!time.has_value()) continue;
    const std::int64_t extra =
        problem.communication[static_cast<std::size_t>(gpus) - 1].count();
    numbers.push_back({*time + extra, *time, gpus});
  }
  std::ranges::sort(numbers, {}, [](const Number& number) {
    return std::pair(number.bound, number.gpus);
  });
  std::optional<Candidate> best;
  std::int64_t best_time = kMaxCount;
  std::int64_t best_gpus = 0;
  for (const Number& number : numbers) {
    if (number.bound > best_time) break;
    if (number.bound == best_time && number.gpus > best_gpus) continue;
    const std::int64_t extra = number.bound - number.time;
    // An equal makespan with fewer GPUs is better too.
    const std::int64_t limit =
        best_time - extra + (number.gpus < best_gpus ? 1 : 0);
    UCUDNN_ASSIGN_OR_RETURN(
        auto found,
        ForExactly(kinds, number.gpus, number.time, limit, &ties, limits.stop));
    if (!found.has_value()) continue;
    if (found->time >= limit) continue;
    best_time = found->time + extra;
    best_gpus = number.gpus;
    best = std::move(found);
  }
  if (!best.has_value()) return tl::unexpected<Error>(NothingSumsTo(problem));
  Assignment assignment = Assemble(problem, kinds, best->batches);
  assignment.ties_resolved = true;
  return assignment;
}

Result<Assignment> Solve(const AssignProblem& problem, const Limits& limits) {
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<GpuKind> kinds,
                          assign_internal::MakeKinds(problem, problem.batch));
  if (!problem.communication.empty()) {
    return WithCommunication(problem, kinds, limits);
  }
  const Reach reach(kinds, problem.batch.count());
  UCUDNN_ASSIGN_OR_RETURN(const std::optional<std::int64_t> time,
                          reach.LeastTime(limits.stop));
  if (!time.has_value()) return tl::unexpected<Error>(NothingSumsTo(problem));
  return WithinTime(problem, kinds, reach, *time, limits);
}

std::optional<Nanoseconds> SplitEvenly(const AssignProblem& problem) {
  const auto gpus = static_cast<std::int64_t>(problem.gpus.size());
  if (gpus == 0 || problem.batch.count() % gpus != 0) return std::nullopt;
  const BatchSize share(problem.batch.count() / gpus);
  const auto kinds = assign_internal::MakeKinds(problem, share);
  if (!kinds) return std::nullopt;
  Nanoseconds slowest{0};
  for (const GpuKind& kind : *kinds) {
    if (kind.costs.empty() || kind.costs.back().batch != share) {
      return std::nullopt;
    }
    slowest = std::max(slowest, kind.costs.back().time);
  }
  if (!problem.communication.empty()) {
    slowest += problem.communication[problem.gpus.size() - 1];
  }
  return slowest;
}

}  // namespace

Result<Assignment> SolveAssignment(const AssignProblem& problem,
                                   const Limits& limits) {
  Result<Assignment> assignment = Solve(problem, limits);
  if (kSolversCheckThemselves && assignment)
    RequireValid(ValidateAssignment(*assignment, problem));
  return assignment;
}

std::optional<Nanoseconds> EvenSplit(const AssignProblem& problem) {
  const std::optional<Nanoseconds> even = SplitEvenly(problem);
  if constexpr (kSolversCheckThemselves) {
    if (even.has_value()) RequireValid(ValidateEvenSplit(even, problem));
  }
  return even;
}

}  // namespace ucudnn
