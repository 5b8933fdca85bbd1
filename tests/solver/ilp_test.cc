#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/solver/instances.h"
#include "tests/support/cbc_ilp.h"
#include "tests/support/glpk_ilp.h"
#include "tests/support/highs_ilp.h"
#include "tests/support/ilp_solver.h"
#include "tests/support/trials.h"

namespace ucudnn {
namespace {

using test::Draw;
using test::Random;
using ::testing::HasSubstr;

std::vector<std::unique_ptr<IlpSolver>> Judges() {
  std::vector<std::unique_ptr<IlpSolver>> judges;
  judges.push_back(MakeGlpkSolver());
  judges.push_back(test::MakeCbcSolver());
  return judges;
}

struct Instance {
  std::vector<std::vector<MckpItem>> items;
  std::int64_t capacity = 0;

  std::vector<MckpClass> Classes() const {
    std::vector<MckpClass> classes;
    for (const auto& one : items) classes.push_back({one, 1});
    return classes;
  }
};

// Fronts like those of workspace division: time falls as workspace grows.
// Workspaces are multiples of `step`; times are below 10^5, so that the judges'
// tolerances do not matter.
Instance RandomInstance(Random& random, std::int64_t classes,
                        std::int64_t step) {
  Instance instance;
  std::int64_t least = 0;
  std::int64_t most = 0;
  for (std::int64_t k = 0; k < classes; ++k) {
    auto& items = instance.items.emplace_back();
    std::int64_t time = Draw(random, 5'000, 90'000);
    std::int64_t workspace = Draw(random, 0, 3) * step;
    least += workspace;
    for (std::int64_t i = Draw(random, 1, 7); i > 0 && time > 10; --i) {
      items.push_back({time, workspace});
      time -= Draw(random, 1, time / 2);
      workspace += Draw(random, 1, 60) * step;
    }
    most += items.back().weight;
  }
  instance.capacity = Draw(random, least, std::max(least, most));
  return instance;
}

AssignProblem RandomAssignment(Random& random) {
  AssignProblem problem;
  const std::int64_t gpus = Draw(random, 1, 4);
  for (std::int64_t g = 0; g < gpus; ++g) {
    auto& table = problem.tables.emplace_back();
    const std::int64_t rate = Draw(random, 100, 400);
    for (std::int64_t b = 1; b <= 8; ++b) {
      if (Draw(random, 0, 4) == 0) continue;
      table.push_back({BatchSize(b),
                       Nanoseconds(rate * b + Draw(random, 0, 300)), Bytes(0)});
    }
    problem.gpus.push_back({.table = static_cast<std::size_t>(g)});
  }
  problem.batch = BatchSize(Draw(random, 1, 5 * gpus));
  return problem;
}

TEST(IlpTest, JudgesAgreeWithTheKnapsackOnMediumInstances) {
  const auto judges = Judges();
  Random random(31);
  for (int trial = 0; trial < Trials(1500); ++trial) {
    const std::int64_t classes = Draw(random, 1, trial % 50 == 0 ? 30 : 9);
    const Instance instance =
        RandomInstance(random, classes, trial % 2 == 0 ? 1 << 20 : 4352);
    const auto solution = SolveMckp(instance.Classes(), instance.capacity);
    ASSERT_TRUE(solution && solution->optimal);
    const IlpProblem ilp = MckpAsIlp(instance.Classes(), instance.capacity);
    for (const auto& judge : judges) {
      const auto judged = judge->Solve(ilp, 20'000);
      ASSERT_TRUE(judged) << judge->name() << ": " << judged.error().message;
      ASSERT_TRUE(judged->optimal) << judge->name();
      ASSERT_EQ(judged->cost, static_cast<double>(solution->cost))
          << judge->name() << ", trial " << trial;
    }
  }
}

// Fewer instances, because each is solved in another process.
TEST(IlpTest, HighsAgreesOnTheKnapsackAndTheAssignment) {
  const auto highs = test::MakeHighsSolver();
  ASSERT_NE(highs, nullptr) << "Debian's python3-scipy is not installed";
  Random random(33);
  for (int trial = 0; trial < Trials(100); ++trial) {
    const Instance instance = RandomInstance(random, Draw(random, 1, 9), 4352);
    const auto solution = SolveMckp(instance.Classes(), instance.capacity);
    ASSERT_TRUE(solution && solution->optimal);
    const auto judged =
        highs->Solve(MckpAsIlp(instance.Classes(), instance.capacity), 20'000);
    ASSERT_TRUE(judged) << judged.error().message;
    ASSERT_TRUE(judged->optimal);
    ASSERT_EQ(judged->cost, static_cast<double>(solution->cost)) << trial;
  }
  for (int trial = 0; trial < Trials(30); ++trial) {
    const AssignProblem problem = RandomAssignment(random);
    const auto assignment = SolveAssignment(problem);
    const auto judged = highs->Solve(AssignmentAsIlp(problem), 20'000);
    ASSERT_EQ(judged.has_value(), assignment.has_value()) << trial;
    if (!assignment) {
      EXPECT_EQ(judged.error().code, Code::kFailedPrecondition);
      continue;
    }
    EXPECT_NEAR(judged->cost, static_cast<double>(assignment->makespan.count()),
                1e-2)
        << trial;
  }
}

// Three kernels with sizes in bytes and times in nanoseconds, solved as the
// papers' code does: GLPK's simplex, then branch and cut, all with defaults.
TEST(IlpTest, GlpkUnscaledReportsAWorseSolutionAsOptimal) {
  const Instance instance = {{{{222489, 0},
                               {178393, 26981376},
                               {121973, 78719744},
                               {91170, 85391104},
                               {85437, 93615872}},
                              {{985711, 13056}, {913064, 15269120}},
                              {{1715692, 13056},
                               {1148656, 18001920},
                               {1123394, 31233024},
                               {857359, 63337984}}},
                             135663331};
  const auto solution = SolveMckp(instance.Classes(), instance.capacity);
  ASSERT_TRUE(solution);
  EXPECT_EQ(solution->cost, 1948816);
  const IlpProblem ilp = MckpAsIlp(instance.Classes(), instance.capacity);
  EXPECT_EQ(MakeGlpkSolver()->Solve(ilp, 0)->cost, 1948816);
  const auto unscaled = MakeGlpkSolver({.careful = false})->Solve(ilp, 0);
  ASSERT_TRUE(unscaled);
  EXPECT_TRUE(unscaled->optimal);
  EXPECT_EQ(unscaled->cost, 2127628);  // 9% slower
}

TEST(IlpTest, JudgesAgreeWithTheAssignmentOnSmallInstances) {
  const auto judges = Judges();
  Random random(32);
  for (int trial = 0; trial < Trials(150); ++trial) {
    const AssignProblem problem = RandomAssignment(random);
    const auto assignment = SolveAssignment(problem);
    const IlpProblem ilp = AssignmentAsIlp(problem);
    for (const auto& judge : judges) {
      const auto judged = judge->Solve(ilp, 20'000);
      ASSERT_EQ(judged.has_value(), assignment.has_value())
          << judge->name() << ", trial " << trial;
      if (!assignment) {
        EXPECT_EQ(judged.error().code, Code::kFailedPrecondition);
        continue;
      }
      EXPECT_NEAR(judged->cost,
                  static_cast<double>(assignment->makespan.count()), 1e-2)
          << judge->name() << ", trial " << trial;
    }
  }
}

TEST(LpTextTest, StatesTheProgrammeAsPeopleWouldWriteIt) {
  const Instance instance = {{{{5500, 2048}, {4000, 6144}}, {{3000, 1024}}},
                             7000};
  const std::vector<std::string> names = {"conv 1:Forward", "2"};
  EXPECT_EQ(LpText(MckpAsIlp(instance.Classes(), instance.capacity, names),
                   "two kernels"),
            R"(\ two kernels
Minimize
 us: + 5.5 x_1_conv_1_Forward_1 + 4 x_1_conv_1_Forward_2 + 3 x_2_2_1
Subject To
 one_1_conv_1_Forward: + x_1_conv_1_Forward_1 + x_1_conv_1_Forward_2 = 1
 one_2_2: + x_2_2_1 = 1
 capacity: + 2 x_1_conv_1_Forward_1 + 6 x_1_conv_1_Forward_2 + x_2_2_1 <= 6
Bounds
Binaries
 x_1_conv_1_Forward_1 x_1_conv_1_Forward_2 x_2_2_1
End
)");
}

TEST(LpTextTest, DividesNoRowWhoseLimitWouldChange) {
  // 2 x + 4 y with y any number: half of 3 is 1.5.
  IlpProblem problem;
  problem.variables = {{.cost = -1, .least = -2, .most = 5},
                       {.least = 1, .most = kIlpUnbounded, .integer = false}};
  problem.rows = {{{{0, 2}, {1, 4}}, -3, 3}, {{{0, 3}}, -4, kIlpUnbounded}};
  EXPECT_EQ(LpText(problem, "ranges"), R"(\ ranges
Minimize
 us: - 0.001 x1
Subject To
 r1: + 2 x1 + 4 x2 <= 3
 r1_least: + 2 x1 + 4 x2 >= -3
 r2: + x1 >= -1
Bounds
 -2 <= x1 <= 5
 1 <= x2
Generals
 x1
End
)");
}

TEST(IlpTest, JudgesReportThatNothingFits) {
  const Instance instance = {{{{5, 10}, {4, 20}}}, 9};
  for (const auto& judge : Judges()) {
    const auto judged =
        judge->Solve(MckpAsIlp(instance.Classes(), instance.capacity), 0);
    ASSERT_FALSE(judged) << judge->name();
    EXPECT_EQ(judged.error().code, Code::kFailedPrecondition);
  }
}

TEST(IlpTest, CheckNamesTheBrokenConstraint) {
  const Instance instance = {{{{5, 10}, {4, 20}}, {{3, 1}}}, 20};
  const IlpProblem ilp = MckpAsIlp(instance.Classes(), instance.capacity);
  EXPECT_TRUE(CheckIlp(ilp, {1, 0, 1}));
  EXPECT_THAT(CheckIlp(ilp, {1, 0}).error().message, HasSubstr("3 variables"));
  EXPECT_THAT(CheckIlp(ilp, {2, 0, 1}).error().message,
              HasSubstr("variable 0 may not be 2"));
  EXPECT_THAT(CheckIlp(ilp, {0.5, 0.5, 1}).error().message,
              HasSubstr("variable 0 may not be 0.5"));
  EXPECT_THAT(CheckIlp(ilp, {1, 1, 1}).error().message, HasSubstr("row 0"));
  EXPECT_THAT(CheckIlp(ilp, {0, 1, 1}).error().message, HasSubstr("row 2"));
}

}  // namespace
}  // namespace ucudnn
