#ifndef UCUDNN_TESTS_SOLVER_ASSIGN_ASSIGN_INSTANCES_H_
#define UCUDNN_TESTS_SOLVER_ASSIGN_ASSIGN_INSTANCES_H_

// Assignment problems, and their best solutions found in the slow obvious way.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "solver/assign/assign.h"

namespace ucudnn::test {

using Table = std::vector<BatchCost>;

inline Table TableOf(
    const std::vector<std::pair<std::int64_t, std::int64_t>>& rows) {
  Table table;
  for (const auto& [batch, time] : rows) {
    table.push_back({BatchSize(batch), Nanoseconds(time), Bytes(batch)});
  }
  return table;
}

// One GPU for each table.
inline AssignProblem ProblemOf(std::int64_t batch, std::vector<Table> tables) {
  AssignProblem problem;
  problem.batch = BatchSize(batch);
  problem.tables = std::move(tables);
  for (std::size_t t = 0; t < problem.tables.size(); ++t) {
    problem.gpus.push_back({.table = t});
  }
  return problem;
}

inline std::vector<std::int64_t> Batches(const Assignment& assignment) {
  std::vector<std::int64_t> batches;
  for (const Share& share : assignment.shares) {
    batches.push_back(share.batch.count());
  }
  return batches;
}

// Makespan with communication, GPUs, total time.
using Merit = std::tuple<std::int64_t, std::int64_t, std::int64_t>;

inline std::optional<Merit> ByEnumeration(const AssignProblem& problem) {
  std::optional<Merit> best;
  const auto recurse = [&](const auto& self, std::size_t g, std::int64_t left,
                           const Merit& merit) -> void {
    if (g == problem.gpus.size()) {
      if (left != 0) return;
      auto [slowest, gpus, total] = merit;
      if (!problem.communication.empty()) {
        slowest +=
            problem.communication[static_cast<std::size_t>(gpus) - 1].count();
      }
      const Merit full = {slowest, gpus, total};
      if (!best.has_value() || full < *best) best = full;
      return;
    }
    self(self, g + 1, left, merit);
    const AssignGpu& gpu = problem.gpus[g];
    for (const BatchCost& cost : problem.tables[gpu.table]) {
      if (cost.batch.count() > left || cost.batch > gpu.max_batch ||
          cost.memory > gpu.memory_limit) {
        continue;
      }
      if (!gpu.allowed.empty() &&
          std::count(gpu.allowed.begin(), gpu.allowed.end(), cost.batch) == 0) {
        continue;
      }
      const auto& [slowest, gpus, total] = merit;
      self(self, g + 1, left - cost.batch.count(),
           Merit{std::max<std::int64_t>(slowest, cost.time.count()), gpus + 1,
                 total + cost.time.count()});
    }
  };
  recurse(recurse, 0, problem.batch.count(), Merit{0, 0, 0});
  return best;
}

inline Merit MeritOf(const Assignment& assignment) {
  return {assignment.makespan.count(), assignment.gpus_used,
          assignment.total_time.count()};
}

}  // namespace ucudnn::test

#endif  // UCUDNN_TESTS_SOLVER_ASSIGN_ASSIGN_INSTANCES_H_
