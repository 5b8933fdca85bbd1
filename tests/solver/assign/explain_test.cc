#include "solver/assign/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ucudnn {
namespace {

using ::testing::HasSubstr;

std::vector<BatchCost> RowsOf(
    const std::vector<std::pair<std::int64_t, std::int64_t>>& rows) {
  std::vector<BatchCost> table;
  for (const auto& [batch, time] : rows) {
    table.push_back({BatchSize(batch), Nanoseconds(time), Bytes(batch)});
  }
  return table;
}

TEST(AssignExplainTest, NamesTheBindingConstraintOfEachGpu) {
  AssignProblem problem;
  problem.batch = BatchSize(20);
  problem.tables = {
      RowsOf({{4, 40}, {8, 90}}),           // the slowest
      RowsOf({{4, 30}, {6, 50}}),           // next too slow
      RowsOf({{2, 35}}),                    // nothing larger
      RowsOf({{4, 20}, {5, 30}, {6, 31}}),  // limits, to 4
      RowsOf({{1, 10}, {6, 40}, {7, 40}}),  // sum reached
      RowsOf({{2, 41}, {4, 70}}),           // left too slow
      RowsOf({{30, 1}}),                    // left without a batch
      RowsOf({{3, 1}}),                     // left by its limits
      RowsOf({{1, 40}}),                    // left, not needed
  };
  for (std::size_t t = 0; t < problem.tables.size(); ++t) {
    problem.gpus.push_back({.table = t});
  }
  problem.gpus[3].max_batch = BatchSize(4);
  problem.gpus[7].memory_limit = Bytes(2);
  const auto assignment = SolveAssignment(problem);
  ASSERT_TRUE(assignment);
  EXPECT_EQ(assignment->makespan, Nanoseconds(40));
  EXPECT_EQ(assignment->shares[4].batch, BatchSize(6));
  const auto explained = ExplainShares(problem, *assignment);
  const std::vector<Binding> expected = {
      Binding::kSlowest,     Binding::kNextTooSlow, Binding::kNothingLarger,
      Binding::kLimits,      Binding::kSlowest,     Binding::kLeftTooSlow,
      Binding::kLeftNoBatch, Binding::kLeftLimits,  Binding::kLeftNotNeeded};
  for (std::size_t g = 0; g < expected.size(); ++g) {
    EXPECT_EQ(Name(explained[g].binding), Name(expected[g])) << g;
    EXPECT_FALSE(explained[g].text.empty());
  }
  EXPECT_THAT(explained[1].text, HasSubstr("6, takes 50 ns"));
  EXPECT_EQ(explained[1].other.batch, BatchSize(6));
  EXPECT_THAT(explained[5].text, HasSubstr("2, takes 41 ns"));
}

TEST(AssignExplainTest, SaysIfOnlyTheSumLimitsABatch) {
  AssignProblem problem;
  problem.batch = BatchSize(5);
  problem.tables = {RowsOf({{4, 50}}), RowsOf({{1, 10}, {2, 20}})};
  problem.gpus = {{.table = 0}, {.table = 1}};
  const auto assignment = SolveAssignment(problem);
  ASSERT_TRUE(assignment);
  const auto explained = ExplainShares(problem, *assignment);
  EXPECT_EQ(explained[1].binding, Binding::kSumReached);
  EXPECT_THAT(explained[1].text, HasSubstr("could take 2"));
}

TEST(AssignExplainTest, FindsTheGainOfOneMoreGpuOfEachKind) {
  AssignProblem problem;
  problem.batch = BatchSize(12);
  std::vector<std::pair<std::int64_t, std::int64_t>> fast;
  std::vector<std::pair<std::int64_t, std::int64_t>> slow;
  for (int b = 1; b <= 12; ++b) {
    fast.emplace_back(b, 10 * b);
    slow.emplace_back(b, 20 * b);
  }
  problem.tables = {RowsOf(fast), RowsOf(slow)};
  problem.gpus = {{.table = 0}, {.table = 1}, {.table = 1}};
  const auto assignment = SolveAssignment(problem);
  ASSERT_TRUE(assignment);
  EXPECT_EQ(assignment->makespan, Nanoseconds(60));  // 6, 3, 3
  const auto gains = MarginalGains(problem, *assignment);
  ASSERT_TRUE(gains);
  ASSERT_EQ(gains->size(), 2U);
  EXPECT_EQ((*gains)[0].makespan, Nanoseconds(40));  // 4, 4, 2, 2
  EXPECT_EQ((*gains)[0].gain, Nanoseconds(20));
  EXPECT_EQ((*gains)[1].gpu, 1U);
  // 5, 2, 2 and 2 are only 11.
  EXPECT_EQ((*gains)[1].makespan, Nanoseconds(60));
  // A fourth GPU costs more communication than it gains.
  problem.communication = {Nanoseconds(0), Nanoseconds(0), Nanoseconds(0),
                           Nanoseconds(500)};
  const auto talking = SolveAssignment(problem);
  EXPECT_EQ(talking->makespan, Nanoseconds(60));
  const auto none = MarginalGains(problem, *talking);
  EXPECT_EQ((*none)[1].gain, Nanoseconds(0));
  problem.communication.pop_back();
  EXPECT_TRUE(MarginalGains(problem, *talking)->empty());
}

}  // namespace
}  // namespace ucudnn
