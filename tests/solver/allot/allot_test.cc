#include "solver/allot/allot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <stop_token>
#include <thread>

#include "solver/check/validate_allotment.h"
#include "tests/solver/allot/allot_instances.h"

namespace ucudnn {
namespace {

using test::Line;
using test::Table;
using test::TableOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

AllotJob JobOf(std::int64_t batch, std::vector<Table> tables) {
  AllotJob job;
  job.batch = BatchSize(batch);
  job.tables = std::move(tables);
  return job;
}

// Twice as many images in the same time on the first kind as on the second.
AllotJob TwoSpeeds() { return JobOf(12, {Line(12, 0, 10), Line(12, 0, 20)}); }

Allotment Solved(const AllotProblem& problem) {
  const auto allotment = SolveAllotment(problem);
  EXPECT_TRUE(allotment) << allotment.error().message;
  if (!allotment) return {};
  EXPECT_TRUE(allotment->optimal);
  const Status valid = ValidateAllotment(*allotment, problem);
  EXPECT_TRUE(valid) << valid.error().message;
  return *allotment;
}

std::string ErrorOf(const AllotProblem& problem, Code code) {
  const auto allotment = SolveAllotment(problem);
  if (allotment) return "no error";
  EXPECT_EQ(allotment.error().code, code);
  return allotment.error().message;
}

TEST(AllotTest, GivesASingleJobEverything) {
  const Allotment allotment = Solved({.free = {1, 2}, .jobs = {TwoSpeeds()}});
  EXPECT_EQ(allotment.objective, kWholeShare);
  EXPECT_THAT(allotment.jobs[0].devices, ElementsAre(1, 2));
  // 6 images on the fast device, 3 on each slow one.
  EXPECT_EQ(allotment.jobs[0].step, Nanoseconds(60));
  EXPECT_EQ(allotment.jobs[0].shares[0].batch, BatchSize(6));
  EXPECT_EQ(allotment.jobs[0].shares[2].batch, BatchSize(3));
}

TEST(AllotTest, TradesOneFastDeviceForTwoSlowOnes) {
  const Allotment allotment =
      Solved({.free = {1, 2}, .jobs = {TwoSpeeds(), TwoSpeeds()}});
  // Equal counts would give one job the two slow devices or a mixed pair and
  // the other job a slow one. Each can have half of what it has alone.
  EXPECT_EQ(allotment.objective, kWholeShare / 2);
  EXPECT_EQ(allotment.jobs[0].step, Nanoseconds(120));
  EXPECT_EQ(allotment.jobs[1].step, Nanoseconds(120));
}

TEST(AllotTest, GivesAJobTheKindThatSuitsItBest) {
  // The second job gains nothing from the first kind.
  AllotJob indifferent = JobOf(8, {Line(8, 0, 10), Line(8, 0, 10)});
  for (const AllotGoal goal :
       {AllotGoal::kMaxMinShare, AllotGoal::kThroughput}) {
    const Allotment allotment = Solved(
        {.free = {1, 1}, .jobs = {indifferent, TwoSpeeds()}, .goal = goal});
    EXPECT_THAT(allotment.jobs[0].devices, ElementsAre(0, 1));
    EXPECT_THAT(allotment.jobs[1].devices, ElementsAre(1, 0));
  }
}

TEST(AllotTest, GivesAHeavierJobMore) {
  AllotJob heavy = JobOf(60, {Line(60, 0, 1)});
  heavy.weight = 2 * kUnitWeight;
  const AllotJob light = JobOf(60, {Line(60, 0, 1)});
  const Allotment allotment = Solved({.free = {6}, .jobs = {heavy, light}});
  EXPECT_THAT(allotment.jobs[0].devices, ElementsAre(4));
  EXPECT_THAT(allotment.jobs[1].devices, ElementsAre(2));
  // 10 alone, 15 and 30 together: shares of 2/3 and 1/3, weighted 1/3 each.
  EXPECT_EQ(allotment.objective, kWholeShare / 3);
}

TEST(AllotTest, ThroughputGivesUpFairness) {
  // The first job scales perfectly, the second hardly at all.
  const AllotJob scales = JobOf(64, {Line(64, 0, 10)});
  const AllotJob stays = JobOf(64, {Line(64, 10'000, 10)});
  const AllotProblem problem = {.free = {8}, .jobs = {scales, stays}};
  AllotProblem total = problem;
  total.goal = AllotGoal::kThroughput;
  const Allotment allotment = Solved(total);
  EXPECT_THAT(allotment.jobs[0].devices, ElementsAre(7));
  EXPECT_THAT(allotment.jobs[1].devices, ElementsAre(1));
}

TEST(AllotTest, KeepsLeastAndMostDevices) {
  AllotJob wide = JobOf(12, {Line(12, 0, 10)});
  wide.least = 4;
  AllotJob narrow = JobOf(12, {Line(12, 0, 10)});
  narrow.most = 1;
  const Allotment allotment = Solved({.free = {6}, .jobs = {wide, narrow}});
  EXPECT_GE(allotment.jobs[0].shares.size(), 4U);
  EXPECT_EQ(allotment.jobs[1].shares.size(), 1U);
  // Alone it could not have more than one device either.
  EXPECT_EQ(allotment.jobs[1].share, kWholeShare);
}

TEST(AllotTest, StopsWhereTheExchangeCostsMoreThanItGains) {
  AllotJob job = JobOf(12, {Line(12, 0, 10)});
  job.communication = {Nanoseconds(0), Nanoseconds(5), Nanoseconds(90),
                       Nanoseconds(95)};
  const Allotment allotment = Solved({.free = {4}, .jobs = {job}});
  EXPECT_THAT(allotment.jobs[0].devices, ElementsAre(2));
  EXPECT_EQ(allotment.jobs[0].step, Nanoseconds(65));
}

TEST(AllotTest, UsesOnlyBatchesThatWereMeasured) {
  // 12 is 8 + 4 or 4 + 4 + 4; two devices cannot have 6 each.
  const AllotJob job = JobOf(12, {TableOf({{1, 5}, {2, 8}, {4, 14}, {8, 26}})});
  const Allotment allotment = Solved({.free = {5}, .jobs = {job, job}});
  EXPECT_EQ(allotment.jobs[0].alone, Nanoseconds(14));
  std::vector<std::size_t> sizes = {allotment.jobs[0].shares.size(),
                                    allotment.jobs[1].shares.size()};
  std::sort(sizes.begin(), sizes.end());
  EXPECT_THAT(sizes, ElementsAre(2U, 3U));
}

TEST(AllotTest, GivesDevicesThatTheLeastShareDoesNotNeed) {
  // The least share is the second job's, which can use one device only.
  AllotJob slow = JobOf(1, {Line(1, 0, 10), {}});
  slow.weight = 4 * kUnitWeight;
  const AllotJob other = JobOf(12, {Line(12, 0, 10), Line(12, 0, 10)});
  const Allotment allotment = Solved({.free = {1, 4}, .jobs = {other, slow}});
  EXPECT_THAT(allotment.jobs[0].devices, ElementsAre(0, 4));
}

TEST(AllotTest, ReportsProgressUpToTheOptimum) {
  std::vector<AllotProgress> seen;
  const auto allotment =
      SolveAllotment({.free = {1, 2}, .jobs = {TwoSpeeds(), TwoSpeeds()}}, {},
                     [&](const AllotProgress& now) { seen.push_back(now); });
  ASSERT_TRUE(allotment);
  ASSERT_FALSE(seen.empty());
  EXPECT_EQ(seen.back().objective, allotment->objective);
  EXPECT_EQ(seen.back().bound, allotment->bound);
  for (std::size_t i = 1; i < seen.size(); ++i) {
    EXPECT_GE(seen[i].objective, seen[i - 1].objective);
    EXPECT_LE(seen[i].bound, seen[i - 1].bound);
  }
}

TEST(AllotTest, SaysWhichJobCannotRunEvenAlone) {
  AllotJob job = TwoSpeeds();
  job.least = 4;
  EXPECT_THAT(ErrorOf({.free = {1, 2}, .jobs = {TwoSpeeds(), job}},
                      Code::kFailedPrecondition),
              HasSubstr("job 1 cannot run"));
}

TEST(AllotTest, SaysIfThereAreTooFewDevicesForAllJobs) {
  EXPECT_THAT(
      ErrorOf({.free = {1, 1}, .jobs = {TwoSpeeds(), TwoSpeeds(), TwoSpeeds()}},
              Code::kFailedPrecondition),
      HasSubstr("do not suffice for all jobs"));
}

TEST(AllotTest, ASearchThatIsStoppedAtOnceFindsNothing) {
  std::stop_source stop;
  stop.request_stop();
  const auto allotment =
      SolveAllotment({.free = {1, 2}, .jobs = {TwoSpeeds(), TwoSpeeds()}},
                     {.stop = stop.get_token()});
  ASSERT_FALSE(allotment);
  EXPECT_EQ(allotment.error().code, Code::kCancelled);
}

TEST(AllotTest, ASearchThatIsCutShortKeepsAValidBound) {
  test::Random random(7);
  for (int i = 0; i < 20; ++i) {
    AllotProblem problem;
    problem.free = {5, 6, 5};
    problem.goal =
        i % 2 == 0 ? AllotGoal::kMaxMinShare : AllotGoal::kThroughput;
    for (int j = 0; j < 5; ++j) {
      problem.jobs.push_back(JobOf(
          32,
          {Line(32, test::Draw(random, 0, 400), test::Draw(random, 50, 100)),
           Line(32, test::Draw(random, 0, 400), test::Draw(random, 50, 200)),
           Line(32, test::Draw(random, 0, 400), test::Draw(random, 50, 400))}));
    }
    const Allotment best = Solved(problem);
    // Stops once there is anything.
    std::stop_source stop;
    const auto cut = SolveAllotment(problem, {.stop = stop.get_token()},
                                    [&](const AllotProgress& now) {
                                      if (now.objective > 0)
                                        stop.request_stop();
                                    });
    ASSERT_TRUE(cut) << cut.error().message;
    EXPECT_LE(cut->objective, best.objective);
    EXPECT_GE(cut->bound, best.objective);
    const Status valid = ValidateAllotment(*cut, problem);
    EXPECT_TRUE(valid) << valid.error().message;
  }
}

TEST(AllotTest, TheSameProblemHasTheSameAnswer) {
  const AllotProblem problem = {.free = {2, 3},
                                .jobs = {TwoSpeeds(), TwoSpeeds()}};
  const Allotment first = Solved(problem);
  const Allotment second = Solved(problem);
  for (std::size_t j = 0; j < 2; ++j) {
    EXPECT_EQ(first.jobs[j].shares, second.jobs[j].shares);
  }
}

TEST(AllotTest, CallsOfManyThreadsHaveTheSameAnswerAndPrintNothing) {
  test::Random random(8);
  AllotProblem problem;
  problem.free = {5, 6, 5};
  problem.goal = AllotGoal::kThroughput;
  for (int j = 0; j < 5; ++j) {
    AllotJob& job = problem.jobs.emplace_back(JobOf(32, {}));
    for (int k = 0; k < 3; ++k) {
      job.tables.push_back(Line(32, test::Draw(random, 0, 400),
                                test::Draw(random, 50, 300)));
    }
  }
  ::testing::internal::CaptureStdout();
  std::vector<Result<Allotment>> answers(4, SolveAllotment(problem));
  std::vector<std::jthread> threads;
  for (Result<Allotment>& answer : answers) {
    threads.emplace_back([&] { answer = SolveAllotment(problem); });
  }
  threads.clear();
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
  for (const Result<Allotment>& answer : answers) {
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(answer->nodes, answers[0]->nodes);
    for (std::size_t j = 0; j < problem.jobs.size(); ++j) {
      EXPECT_EQ(answer->jobs[j].shares, answers[0]->jobs[j].shares);
    }
  }
}

TEST(AllotTest, HugeRatiosOfTimesDoNotOverflow) {
  const std::int64_t most = std::int64_t{1} << 49;
  const AllotJob job = JobOf(2, {TableOf({{1, 1}, {2, most}})});
  const Allotment allotment = Solved({.free = {3}, .jobs = {job, job}});
  EXPECT_EQ(allotment.objective, 1);
}

TEST(AllotTest, RefusesWhatIsMalformed) {
  const auto refusal = [](const auto& change) {
    AllotProblem problem = {.free = {1, 2}, .jobs = {TwoSpeeds()}};
    change(&problem);
    return ErrorOf(problem, Code::kInvalidArgument);
  };
  EXPECT_THAT(refusal([](AllotProblem* p) { p->jobs.clear(); }),
              HasSubstr("the number of jobs is 0; 1 to 1024"));
  EXPECT_THAT(refusal([](AllotProblem* p) { p->free.clear(); }),
              HasSubstr("the number of kinds is 0"));
  EXPECT_THAT(refusal([](AllotProblem* p) {
                p->free = {0, 0};
              }),
              HasSubstr("the number of free devices is 0"));
  EXPECT_THAT(refusal([](AllotProblem* p) {
                p->free = {-1, 2};
              }),
              HasSubstr("of a kind is -1"));
  EXPECT_THAT(refusal([](AllotProblem* p) { p->jobs[0].weight = 0; }),
              HasSubstr("job 0: the weight is 0"));
  EXPECT_THAT(refusal([](AllotProblem* p) { p->jobs[0].batch = BatchSize(0); }),
              HasSubstr("job 0: the mini-batch is 0"));
  EXPECT_THAT(refusal([](AllotProblem* p) { p->jobs[0].least = 0; }),
              HasSubstr("least number of devices is 0"));
  EXPECT_THAT(refusal([](AllotProblem* p) { p->jobs[0].most = 0; }),
              HasSubstr("devices"));
  EXPECT_THAT(refusal([](AllotProblem* p) { p->jobs[0].tables.pop_back(); }),
              HasSubstr("1 tables for 2 kinds"));
  EXPECT_THAT(refusal([](AllotProblem* p) {
                std::swap(p->jobs[0].tables[0][0], p->jobs[0].tables[0][1]);
              }),
              HasSubstr("rising batches"));
  EXPECT_THAT(refusal([](AllotProblem* p) {
                p->jobs[0].tables[0][0].time = Nanoseconds(-1);
              }),
              HasSubstr("takes -1 ns"));
  EXPECT_THAT(refusal([](AllotProblem* p) {
                p->jobs[0].communication = {Nanoseconds(1)};
              }),
              HasSubstr("1 communication times for up to 3 devices"));
}

}  // namespace
}  // namespace ucudnn
