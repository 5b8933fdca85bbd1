#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "solver/assign/assign.h"
#include "solver/assign/explain.h"
#include "solver/check/validate_assignment.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/instance.h"

namespace ucudnn {
namespace {

// Tables mostly by rising batch, as they have to be.
std::vector<BatchCost> TableOf(FuzzBytes& bytes) {
  std::vector<BatchCost> table;
  const bool rising = bytes.Byte() % 8 != 0;
  std::int64_t batch = 0;
  for (std::int64_t n = bytes.Byte() % 24; n > 0; --n) {
    batch = rising ? batch + 1 + bytes.Byte() % 8 : bytes.Number();
    const Nanoseconds time(bytes.Number());
    table.push_back({BatchSize(batch), time, Bytes(bytes.Byte())});
  }
  return table;
}

AssignProblem ProblemOf(FuzzBytes& bytes) {
  AssignProblem problem;
  problem.batch = BatchSize(std::min<std::int64_t>(bytes.Number(), 3000));
  const std::int64_t head = bytes.Byte();
  for (std::int64_t t = head % 4; t >= 0; --t) {
    problem.tables.push_back(TableOf(bytes));
  }
  for (std::int64_t g = head / 4 % 32; g > 0; --g) {
    AssignGpu gpu;
    const std::int64_t kind = bytes.Byte();
    // One in 64 names a table that need not be there.
    gpu.table = static_cast<std::size_t>(
        kind >= 252 ? kind : kind % std::ssize(problem.tables));
    if (kind / 4 % 8 == 0) gpu.memory_limit = Bytes(bytes.Byte());
    if (kind / 4 % 8 == 1) gpu.max_batch = BatchSize(bytes.Number());
    if (kind / 4 % 8 == 2) {
      for (std::int64_t n = bytes.Byte() % 4; n > 0; --n) {
        gpu.allowed.emplace_back(bytes.Number());
      }
    }
    problem.gpus.push_back(std::move(gpu));
  }
  if (head >= 192) {
    for (std::int64_t n = bytes.Byte() % 40; n > 0; --n) {
      problem.communication.emplace_back(bytes.Number());
    }
  }
  return problem;
}

// The least makespan for each sum of batches, GPU by GPU, without
// communication.
std::optional<std::int64_t> LeastMakespan(const AssignProblem& problem) {
  std::map<std::int64_t, std::int64_t> best = {{0, 0}};
  const std::int64_t batch = problem.batch.count();
  for (const AssignGpu& gpu : problem.gpus) {
    std::map<std::int64_t, std::int64_t> next = best;
    for (const auto& [sum, makespan] : best) {
      for (const BatchCost& cost : problem.tables[gpu.table]) {
        const std::int64_t total = sum + cost.batch.count();
        if (total > batch || cost.batch > gpu.max_batch ||
            cost.memory > gpu.memory_limit ||
            (!gpu.allowed.empty() &&
             std::find(gpu.allowed.begin(), gpu.allowed.end(), cost.batch) ==
                 gpu.allowed.end())) {
          continue;
        }
        const std::int64_t slowest =
            std::max<std::int64_t>(makespan, cost.time.count());
        const auto [at, fresh] = next.emplace(total, slowest);
        if (!fresh) at->second = std::min(at->second, slowest);
      }
    }
    best = std::move(next);
  }
  const auto found = best.find(batch);
  if (found == best.end()) return std::nullopt;
  return found->second;
}

}  // namespace

// An assignment that independent checks accept, with its explanations, whose
// makespan is that of the obvious programme, or an error.
UCUDNN_FUZZ(assign, text) {
  FuzzBytes bytes(text);
  const AssignProblem problem = ProblemOf(bytes);
  const Limits limits{.max_nodes = 5'000, .stop = {}};
  const auto assignment = SolveAssignment(problem, limits);
  if (!assignment) {
    CheckError(assignment.error());
    UCUDNN_CHECK(assignment.error().code != Code::kFailedPrecondition ||
                 problem.batch > BatchSize(300) ||
                 !LeastMakespan(problem).has_value());
    return;
  }
  UCUDNN_CHECK(ValidateAssignment(*assignment, problem));
  UCUDNN_CHECK(ValidateEvenSplit(EvenSplit(problem), problem));
  UCUDNN_CHECK(ValidateExplanations(ExplainShares(problem, *assignment),
                                    *assignment, problem));
  const auto gains = MarginalGains(problem, *assignment, limits);
  if (gains) {
    UCUDNN_CHECK(ValidateGains(*gains, *assignment, problem));
  } else {
    CheckError(gains.error());
  }
  if (problem.communication.empty() && problem.batch <= BatchSize(300)) {
    UCUDNN_CHECK(LeastMakespan(problem) == assignment->makespan.count());
  }
}

}  // namespace ucudnn
