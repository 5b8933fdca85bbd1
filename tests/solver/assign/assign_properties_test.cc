// Compares assignments of random and measured instances with those of slow
// obvious methods.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "base/files/times.h"
#include "solver/assign/assign.h"
#include "solver/assign/explain.h"
#include "solver/check/validate_assignment.h"
#include "tests/solver/assign/assign_instances.h"
#include "tests/solver/instances.h"
#include "tests/support/paths.h"
#include "tests/support/trials.h"

namespace ucudnn {
namespace {

using test::ByEnumeration;
using test::Draw;
using test::MeritOf;
using test::Random;
using test::Table;

// Whether the independent checks accept the assignment and its explanations.
void ExpectValid(const AssignProblem& problem, const Assignment& assignment) {
  const Status valid = ValidateAssignment(assignment, problem);
  ASSERT_TRUE(valid) << valid.error().message;
  const Status explained = ValidateExplanations(
      ExplainShares(problem, assignment), assignment, problem);
  ASSERT_TRUE(explained) << explained.error().message;
  const Status even = ValidateEvenSplit(EvenSplit(problem), problem);
  ASSERT_TRUE(even) << even.error().message;
}

AssignProblem RandomProblem(Random& random, bool communication) {
  AssignProblem problem;
  const std::int64_t kinds = Draw(random, 1, 4);
  const std::int64_t shape = Draw(random, 0, 3);
  const std::int64_t most = Draw(random, 1, 9);
  for (std::int64_t k = 0; k < kinds; ++k) {
    Table table;
    const std::int64_t rate = Draw(random, 1, 4);
    for (std::int64_t b = 1; b <= most; ++b) {
      std::int64_t time = 0;
      switch (shape) {
        case 0:  // anything
          time = Draw(random, 0, 20);
          break;
        case 1:  // linear
          time = 3 + rate * b;
          break;
        case 2:  // nearly linear
          time = 10 * rate * b + Draw(random, 0, 12);
          break;
        default:  // powers of two
          if ((b & (b - 1)) != 0) continue;
          time = rate * b + Draw(random, 0, 2);
      }
      if (shape < 3 && Draw(random, 0, 4) == 0) continue;
      table.push_back({BatchSize(b), Nanoseconds(time), Bytes(b)});
    }
    problem.tables.push_back(std::move(table));
  }
  const std::int64_t gpus = Draw(random, 1, 5);
  for (std::int64_t g = 0; g < gpus; ++g) {
    AssignGpu gpu;
    gpu.table = static_cast<std::size_t>(Draw(random, 0, kinds - 1));
    if (Draw(random, 0, 5) == 0) gpu.memory_limit = Bytes(Draw(random, 0, 9));
    if (Draw(random, 0, 9) == 0) gpu.max_batch = BatchSize(3);
    if (Draw(random, 0, 9) == 0) gpu.allowed = {BatchSize(2), BatchSize(5)};
    problem.gpus.push_back(gpu);
  }
  problem.batch = BatchSize(Draw(random, 1, 3 * gpus + 2));
  if (communication) {
    for (std::int64_t g = 0; g < gpus; ++g) {
      problem.communication.emplace_back(Draw(random, 0, 10));
    }
  }
  return problem;
}

TEST(AssignPropertiesTest, EqualsTheEnumerationOfAllAssignmentsTiesIncluded) {
  Random random(21);
  int solved = 0;
  for (int trial = 0; trial < Trials(30'000); ++trial) {
    const AssignProblem problem = RandomProblem(random, trial % 3 == 0);
    const auto assignment = SolveAssignment(problem);
    const auto best = ByEnumeration(problem);
    ASSERT_EQ(assignment.has_value(), best.has_value()) << trial;
    if (!assignment) {
      ASSERT_EQ(assignment.error().code, Code::kFailedPrecondition);
      continue;
    }
    ++solved;
    ASSERT_TRUE(assignment->ties_resolved);
    ASSERT_EQ(MeritOf(*assignment), *best) << trial;
    ExpectValid(problem, *assignment);
  }
  EXPECT_GT(solved, Trials(10'000));
}

// The closest mini-batch to the problem's, in steps of `step`, that has an
// assignment; 0 if none has.
std::int64_t NearestFeasible(AssignProblem problem, std::int64_t step) {
  constexpr std::int64_t kMost = 5 * 9;  // RandomProblem's GPUs and batches
  for (std::int64_t batch = problem.batch.count() + step;
       batch >= 1 && batch <= kMost; batch += step) {
    problem.batch = BatchSize(batch);
    if (SolveAssignment(problem)) return batch;
  }
  return 0;
}

TEST(AssignPropertiesTest, NamesTheNearestFeasibleBatches) {
  Random random(22);
  int named = 0;
  for (int trial = 0; trial < Trials(5000); ++trial) {
    const AssignProblem problem = RandomProblem(random, trial % 3 == 0);
    const auto assignment = SolveAssignment(problem);
    if (assignment) continue;
    const std::int64_t below = NearestFeasible(problem, -1);
    const std::int64_t above = NearestFeasible(problem, 1);
    std::string nearest = "no GPU has a batch that it may use";
    if (below > 0 && above > 0) {
      nearest =
          fmt::format("the nearest that would do are {} and {}", below, above);
    } else if (below > 0) {
      nearest = fmt::format("the most that would do is {}", below);
    } else if (above > 0) {
      nearest = fmt::format("the least that would do is {}", above);
    }
    EXPECT_THAT(assignment.error().message,
                ::testing::EndsWith("; " + nearest));
    named += below > 0 || above > 0 ? 1 : 0;
  }
  EXPECT_GT(named, Trials(250));
}

// The plain dynamic programme over batches: the least makespan of the first
// GPUs for each sum.
std::int64_t ByPlainProgramme(const AssignProblem& problem) {
  constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
  const auto size = static_cast<std::size_t>(problem.batch.count()) + 1;
  std::vector<std::int64_t> best(size, kNone);
  best[0] = 0;
  for (const AssignGpu& gpu : problem.gpus) {
    for (std::size_t s = size; s-- > 0;) {
      std::int64_t least = best[s];
      for (const BatchCost& cost : problem.tables[gpu.table]) {
        const auto b = static_cast<std::size_t>(cost.batch.count());
        if (b > s || best[s - b] == kNone) continue;
        least = std::min(
            least, std::max<std::int64_t>(best[s - b], cost.time.count()));
      }
      best[s] = least;
    }
  }
  return best.back();
}

TEST(AssignPropertiesTest, EqualsThePlainProgrammeOnMediumInstances) {
  Random random(23);
  for (int trial = 0; trial < Trials(300); ++trial) {
    AssignProblem problem;
    problem.batch = BatchSize(Draw(random, 50, 300));
    const std::int64_t kinds = Draw(random, 1, 6);
    const std::int64_t step = trial % 4 == 0 ? 16 : 1;
    for (std::int64_t k = 0; k < kinds; ++k) {
      Table table;
      const std::int64_t rate = Draw(random, 50, 400);
      const std::int64_t noise = Draw(random, 1, trial % 3 == 0 ? 9000 : 300);
      for (std::int64_t b = step; b <= 120; b += step) {
        table.push_back({BatchSize(b),
                         Nanoseconds(rate * b + Draw(random, 0, noise)),
                         Bytes(0)});
      }
      problem.tables.push_back(std::move(table));
    }
    const std::int64_t gpus = Draw(random, 1, 24);
    for (std::int64_t g = 0; g < gpus; ++g) {
      problem.gpus.push_back(
          {.table = static_cast<std::size_t>(Draw(random, 0, kinds - 1))});
    }
    const auto assignment = SolveAssignment(problem);
    const std::int64_t makespan = ByPlainProgramme(problem);
    ASSERT_EQ(assignment.has_value(),
              makespan != std::numeric_limits<std::int64_t>::max());
    if (!assignment) continue;
    ASSERT_EQ(assignment->makespan.count(), makespan) << trial;
    ASSERT_TRUE(assignment->ties_resolved);
    ExpectValid(problem, *assignment);
    // Unresolved ties do not change the makespan.
    const auto quick = SolveAssignment(problem, {.max_nodes = 0, .stop = {}});
    ASSERT_EQ(quick->makespan, assignment->makespan);
    ExpectValid(problem, *quick);
    EXPECT_LE(MeritOf(*assignment), MeritOf(*quick));
  }
}

// Measured iteration times of Gavel (OSDI 2020), which are not monotone and
// only for powers of two; tries all combinations.
TEST(AssignPropertiesTest, EqualsTheEnumerationOnGavelsMeasuredTimes) {
  const std::string path = test::DataPath("gavel_resnet.csv");
  for (const char* model : {"ResNet-18", "ResNet-50"}) {
    const auto times = ReadTimesFile(path, model);
    ASSERT_TRUE(times) << times.error().message;
    for (int copies = 1; copies <= 2; ++copies) {
      AssignProblem problem;
      for (const GpuTimes& gpu : *times) {
        Table table;
        for (const BatchTime& time : gpu.times) {
          table.push_back({time.batch, time.time, Bytes(0)});
        }
        for (int i = 0; i < copies; ++i) {
          problem.gpus.push_back({.table = problem.tables.size()});
        }
        problem.tables.push_back(std::move(table));
      }
      for (std::int64_t batch = 16; batch <= 800; batch += 16) {
        problem.batch = BatchSize(batch);
        const auto assignment = SolveAssignment(problem);
        const auto best = ByEnumeration(problem);
        ASSERT_EQ(assignment.has_value(), best.has_value()) << batch;
        if (assignment) {
          EXPECT_EQ(MeritOf(*assignment), *best);
        }
      }
    }
  }
}

}  // namespace
}  // namespace ucudnn
