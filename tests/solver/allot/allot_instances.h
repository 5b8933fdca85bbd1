#ifndef UCUDNN_TESTS_SOLVER_ALLOT_ALLOT_INSTANCES_H_
#define UCUDNN_TESTS_SOLVER_ALLOT_ALLOT_INSTANCES_H_

// Allotment problems, and their best solutions found in the slow obvious way.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "solver/allot/allot.h"
#include "tests/solver/assign/assign_instances.h"
#include "tests/solver/instances.h"

namespace ucudnn::test {

// A table with a time for every batch from 1 to `batch`.
inline Table Line(std::int64_t batch, std::int64_t fixed,
                  std::int64_t per_image) {
  Table table;
  for (std::int64_t b = 1; b <= batch; ++b) {
    table.push_back(
        {BatchSize(b), Nanoseconds(fixed + per_image * b), Bytes(0)});
  }
  return table;
}

// All numbers of devices up to `free`.
inline std::vector<std::vector<std::int64_t>> AllCounts(
    const std::vector<std::int64_t>& free) {
  std::vector<std::vector<std::int64_t>> all = {{}};
  for (const std::int64_t most : free) {
    std::vector<std::vector<std::int64_t>> next;
    for (const auto& counts : all) {
      for (std::int64_t n = 0; n <= most; ++n) {
        next.push_back(counts);
        next.back().push_back(n);
      }
    }
    all = std::move(next);
  }
  return all;
}

// The least step time on exactly these devices, each with at least one image.
inline std::optional<std::int64_t> StepByEnumeration(
    const AllotJob& job, const std::vector<std::int64_t>& counts) {
  std::vector<std::size_t> devices;
  for (std::size_t k = 0; k < counts.size(); ++k) {
    devices.insert(devices.end(), static_cast<std::size_t>(counts[k]), k);
  }
  const auto number = static_cast<std::int64_t>(devices.size());
  if (number < job.least || number > job.most) return std::nullopt;
  std::optional<std::int64_t> best;
  const auto recurse = [&](const auto& self, std::size_t d, std::int64_t left,
                           std::int64_t slowest) -> void {
    if (d == devices.size()) {
      if (left != 0) return;
      if (!best.has_value() || slowest < *best) best = slowest;
      return;
    }
    for (const BatchCost& cost : job.tables[devices[d]]) {
      if (cost.batch.count() > left) break;
      self(self, d + 1, left - cost.batch.count(),
           std::max<std::int64_t>(slowest, cost.time.count()));
    }
  };
  recurse(recurse, 0, job.batch.count(), 0);
  if (best.has_value() && !job.communication.empty()) {
    *best += job.communication[devices.size() - 1].count();
  }
  return best;
}

// The best objective; absent if a job cannot run, or not all can at once.
inline std::optional<std::int64_t> AllotByEnumeration(
    const AllotProblem& problem) {
  struct Way {
    std::vector<std::int64_t> counts;
    std::int64_t time = 0;
  };
  std::vector<std::vector<Way>> ways(problem.jobs.size());
  std::vector<JobAllotment> jobs(problem.jobs.size());
  for (std::size_t j = 0; j < problem.jobs.size(); ++j) {
    for (const auto& counts : AllCounts(problem.free)) {
      const auto time = StepByEnumeration(problem.jobs[j], counts);
      if (time.has_value()) ways[j].push_back({counts, *time});
    }
    if (ways[j].empty()) return std::nullopt;
    std::int64_t alone = ways[j].front().time;
    for (const Way& way : ways[j]) alone = std::min(alone, way.time);
    jobs[j].alone = Nanoseconds(alone);
  }
  std::optional<std::int64_t> best;
  std::vector<std::int64_t> left = problem.free;
  const auto recurse = [&](const auto& self, std::size_t j) -> void {
    if (j == ways.size()) {
      const std::int64_t objective = AllotObjective(problem, jobs);
      if (!best.has_value() || objective > *best) best = objective;
      return;
    }
    for (const Way& way : ways[j]) {
      bool fits = true;
      for (std::size_t k = 0; k < left.size(); ++k) {
        fits = fits && way.counts[k] <= left[k];
      }
      if (!fits) continue;
      for (std::size_t k = 0; k < left.size(); ++k) left[k] -= way.counts[k];
      jobs[j].step = Nanoseconds(way.time);
      self(self, j + 1);
      for (std::size_t k = 0; k < left.size(); ++k) left[k] += way.counts[k];
    }
  };
  recurse(recurse, 0);
  return best;
}

// Few devices of few kinds, with every peculiarity that times can have.
inline AllotProblem RandomAllotment(Random& random) {
  AllotProblem problem;
  problem.goal = Draw(random, 0, 1) == 0 ? AllotGoal::kMaxMinShare
                                         : AllotGoal::kThroughput;
  const std::int64_t kinds = Draw(random, 1, 3);
  for (std::int64_t k = 0; k < kinds; ++k) {
    problem.free.push_back(Draw(random, k == 0 ? 1 : 0, 3));
  }
  const std::int64_t jobs = Draw(random, 1, 3);
  for (std::int64_t j = 0; j < jobs; ++j) {
    if (j > 0 && Draw(random, 0, 3) == 0) {
      problem.jobs.push_back(problem.jobs.back());
      continue;
    }
    AllotJob& job = problem.jobs.emplace_back();
    const std::int64_t batch = Draw(random, 1, 8);
    job.batch = BatchSize(batch);
    const std::int64_t shape = Draw(random, 0, 3);
    for (std::int64_t k = 0; k < kinds; ++k) {
      const std::int64_t rate = Draw(random, 1, 6);
      const std::int64_t fixed = Draw(random, 0, 9);
      Table& table = job.tables.emplace_back();
      for (std::int64_t b = 1; b <= batch + 1; ++b) {
        if (shape == 0 && Draw(random, 0, 2) == 0) continue;
        if (shape == 1 && (b & (b - 1)) != 0) continue;
        const std::int64_t time = shape == 2
                                      ? fixed + 10 * rate * b
                                      : Draw(random, 0, 12) + 5 * rate * b;
        table.push_back({BatchSize(b), Nanoseconds(time), Bytes(0)});
      }
    }
    if (Draw(random, 0, 2) == 0) job.weight = Draw(random, 1, 4) * 700;
    if (Draw(random, 0, 2) == 0) job.least = Draw(random, 1, 3);
    if (Draw(random, 0, 2) == 0) job.most = job.least + Draw(random, 0, 2);
    if (Draw(random, 0, 3) == 0) {
      std::int64_t all = 0;
      for (const std::int64_t free : problem.free) all += free;
      for (std::int64_t n = 0; n < all; ++n) {
        job.communication.emplace_back(Draw(random, 0, 15));
      }
    }
  }
  return problem;
}

}  // namespace ucudnn::test

#endif  // UCUDNN_TESTS_SOLVER_ALLOT_ALLOT_INSTANCES_H_
