#include "solver/assign/assign.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/solver/assign/assign_instances.h"

namespace ucudnn {
namespace {

using test::Batches;
using test::ProblemOf;
using test::Table;
using test::TableOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(AssignTest, GivesTheFasterGpuTheLargerBatch) {
  Table fast;
  Table slow;
  for (int b = 1; b <= 12; ++b) {
    fast.push_back({BatchSize(b), Nanoseconds(10 * b), Bytes(0)});
    slow.push_back({BatchSize(b), Nanoseconds(20 * b), Bytes(0)});
  }
  const auto assignment = SolveAssignment(ProblemOf(12, {fast, slow}));
  ASSERT_TRUE(assignment);
  EXPECT_THAT(Batches(*assignment), ElementsAre(8, 4));
  EXPECT_EQ(assignment->makespan, Nanoseconds(80));
  EXPECT_TRUE(assignment->ties_resolved);
}

TEST(AssignTest, LeavesOutAGpuThatWouldBeTheSlowest) {
  const auto assignment = SolveAssignment(
      ProblemOf(4, {TableOf({{2, 10}, {4, 18}}), TableOf({{2, 50}})}));
  ASSERT_TRUE(assignment);
  EXPECT_THAT(Batches(*assignment), ElementsAre(4, 0));
}

TEST(AssignTest, UsesALargerBatchIfItIsFaster) {
  // A batch of 2 takes longer than one of 4, so the even split is not the best.
  const Table table = TableOf({{2, 30}, {3, 31}, {4, 12}, {5, 90}});
  EXPECT_THAT(Batches(*SolveAssignment(ProblemOf(8, {table, table, table}))),
              ElementsAre(4, 4, 0));
  EXPECT_EQ(SolveAssignment(ProblemOf(6, {table, table, table}))->makespan,
            Nanoseconds(30));
}

TEST(AssignTest, TakesFewestGpusThenLeastTotalTimeAmongEqualMakespans) {
  // All of these take 10 at most: {4, 0, 0}, {2, 2, 0}, {2, 1, 1}, ...
  const Table table = TableOf({{1, 3}, {2, 5}, {4, 10}});
  EXPECT_THAT(Batches(*SolveAssignment(
                  ProblemOf(5, {TableOf({{1, 10}}), table, table}))),
              ElementsAre(0, 4, 1));
}

TEST(AssignTest, NamesTheNearestFeasibleBatches) {
  const Table table = TableOf({{4, 1}, {6, 1}, {64, 9}});
  const auto message = [&](std::int64_t batch) {
    const auto assignment = SolveAssignment(ProblemOf(batch, {table, table}));
    EXPECT_FALSE(assignment);
    EXPECT_EQ(assignment.error().code, Code::kFailedPrecondition);
    return assignment.error().message;
  };
  EXPECT_THAT(message(9), HasSubstr("are 8 and 10"));
  EXPECT_THAT(message(3), HasSubstr("least that would do is 4"));
  EXPECT_THAT(message(13), HasSubstr("are 12 and 64"));
  EXPECT_THAT(message(200), HasSubstr("most that would do is 128"));
  const auto none = SolveAssignment(ProblemOf(5, {{}}));
  EXPECT_THAT(none.error().message, HasSubstr("no GPU has a batch"));
}

TEST(AssignTest, RespectsMemoryAndAllowedBatches) {
  Table table;
  for (int b = 1; b <= 8; ++b) {
    table.push_back({BatchSize(b), Nanoseconds(b), Bytes(100 + 10 * b)});
  }
  AssignProblem problem = ProblemOf(8, {table, table, table});
  problem.gpus[0].memory_limit = Bytes(125);  // batches to 2
  problem.gpus[1].allowed = {BatchSize(4)};
  problem.gpus[2].max_batch = BatchSize(3);
  EXPECT_THAT(Batches(*SolveAssignment(problem)), ElementsAre(1, 4, 3));
  problem.gpus[0].memory_limit = Bytes(50);
  EXPECT_THAT(SolveAssignment(problem).error().message,
              HasSubstr("the most that would do is 7"));
}

TEST(AssignTest, CountsTheCommunicationOfTheGpusThatTakePart) {
  Table table;
  for (int b = 1; b <= 12; ++b) {
    table.push_back({BatchSize(b), Nanoseconds(10 * b), Bytes(0)});
  }
  AssignProblem problem = ProblemOf(12, {table, table, table});
  problem.communication = {Nanoseconds(0), Nanoseconds(15), Nanoseconds(40)};
  const auto assignment = SolveAssignment(problem);
  ASSERT_TRUE(assignment);
  EXPECT_THAT(Batches(*assignment), ElementsAre(6, 6, 0));
  EXPECT_EQ(assignment->makespan, Nanoseconds(75));  // 60 + 15, not 40 + 40
  EXPECT_EQ(assignment->communication, Nanoseconds(15));
}

TEST(AssignTest, RefusesInvalidProblems) {
  const auto code = [](const AssignProblem& problem) {
    const auto assignment = SolveAssignment(problem);
    return assignment ? Code::kOk : assignment.error().code;
  };
  const AssignProblem good = ProblemOf(2, {TableOf({{1, 5}, {2, 6}})});
  EXPECT_EQ(code(good), Code::kOk);
  AssignProblem bad = good;
  bad.batch = BatchSize(0);
  EXPECT_EQ(code(bad), Code::kInvalidArgument);
  bad.batch = BatchSize(kMaxBatchSize.count() + 1);
  EXPECT_EQ(code(bad), Code::kInvalidArgument);
  bad = good;
  bad.gpus.clear();
  EXPECT_EQ(code(bad), Code::kInvalidArgument);
  bad = good;
  bad.gpus[0].table = 1;
  EXPECT_EQ(code(bad), Code::kInvalidArgument);
  bad = good;
  bad.communication = {Nanoseconds(-1)};
  EXPECT_EQ(code(bad), Code::kInvalidArgument);
  bad.gpus.push_back({.table = 0});
  bad.communication = {Nanoseconds(1)};
  EXPECT_EQ(code(bad), Code::kInvalidArgument);
  EXPECT_EQ(code(ProblemOf(2, {TableOf({{2, 5}, {1, 6}})})),
            Code::kInvalidArgument);
  EXPECT_EQ(code(ProblemOf(2, {TableOf({{2, 5}, {2, 6}})})),
            Code::kInvalidArgument);
  EXPECT_EQ(code(ProblemOf(2, {TableOf({{0, 5}, {2, 6}})})),
            Code::kInvalidArgument);
  EXPECT_EQ(code(ProblemOf(2, {TableOf({{2, -5}})})), Code::kInvalidArgument);
  EXPECT_EQ(code(ProblemOf(2, {TableOf({{2, std::int64_t{1} << 62}})})),
            Code::kOutOfRange);
  Limits limits;
  std::stop_source source;
  source.request_stop();
  limits.stop = source.get_token();
  // 3 must come from the slow pair, so there is a search to stop.
  EXPECT_EQ(SolveAssignment(ProblemOf(3, {TableOf({{2, 1}, {3, 9}}),
                                          TableOf({{2, 1}, {3, 9}})}),
                            limits)
                .error()
                .code,
            Code::kCancelled);
}

TEST(AssignTest, FindsTheEvenSplitIfThereIsOne) {
  const Table table = TableOf({{2, 7}, {4, 9}});
  EXPECT_EQ(EvenSplit(ProblemOf(4, {table, table})), Nanoseconds(7));
  EXPECT_FALSE(EvenSplit(ProblemOf(5, {table, table})).has_value());
  EXPECT_FALSE(EvenSplit(ProblemOf(6, {table, table})).has_value());
}

}  // namespace
}  // namespace ucudnn
