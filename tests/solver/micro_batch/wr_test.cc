#include "solver/micro_batch/wr.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "solver/check/validate.h"
#include "tests/solver/instances.h"
#include "tests/support/trials.h"

namespace ucudnn {
namespace {

using test::BestByEnumeration;
using test::Draw;
using test::ForEachConfiguration;
using test::kPolicies;
using test::Point;
using test::Random;
using test::RandomKernel;
using test::Score;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr Bytes kPlenty = Bytes::Max();

KernelProfile Kernel(std::vector<MeasuredPoint> points) {
  KernelProfile kernel;
  kernel.id.layer = "conv2";
  kernel.points = std::move(points);
  return kernel;
}

WrRequest Request(std::int64_t batch, Bytes limit,
                  BatchPolicy policy = BatchPolicy::kAll) {
  return {BatchSize(batch), limit, policy};
}

MeasuredPoint Adds(MeasuredPoint point, std::int64_t adding) {
  point.adding = Nanoseconds(adding);
  return point;
}

// "2xFFT@4 1xGEMM@2"
std::string Text(const KernelPlan& plan) {
  std::string text;
  for (const MicroBatch& micro : plan.micro_batches) {
    if (!text.empty()) text += ' ';
    text += fmt::format("{}x{}@{}", micro.count, micro.algorithm.name,
                        micro.batch.count());
  }
  return text;
}

std::string Solve(std::vector<MeasuredPoint> points, const WrRequest& request) {
  const KernelProfile kernel = Kernel(std::move(points));
  const auto plan = SolveWr(kernel, request);
  return plan ? Text(*plan) : plan.error().message;
}

TEST(WrTest, SplitsTheBatchWhenTheFastAlgorithmNeedsTooMuchWorkspace) {
  const std::vector<MeasuredPoint> points = {
      Point(4, "FFT", 64, 10), Point(2, "FFT", 32, 6), Point(4, "GEMM", 0, 20)};
  EXPECT_EQ(Solve(points, Request(4, 32_B)), "2xFFT@2");
  EXPECT_EQ(Solve(points, Request(4, 64_B)), "1xFFT@4");
  EXPECT_EQ(Solve(points, Request(4, 31_B)), "1xGEMM@4");
}

TEST(WrTest, ReportsTimeWorkspaceAndTheUndividedAlternative) {
  const KernelProfile kernel =
      Kernel({Point(4, "FFT", 64, 10), Point(2, "FFT", 32, 6),
              Point(1, "WINO", 40, 2), Point(4, "GEMM", 8, 20)});
  const KernelPlan plan = SolveWr(kernel, Request(3, 50_B)).value();
  EXPECT_EQ(Text(plan), "3xWINO@1");
  EXPECT_EQ(plan.time, Nanoseconds(6));
  EXPECT_EQ(plan.workspace, 40_B);
  EXPECT_EQ(plan.undivided_time, std::nullopt);
  EXPECT_EQ(SolveWr(kernel, Request(4, 50_B)).value().undivided_time,
            Nanoseconds(20));
}

TEST(WrTest, PutsTheLargestMicroBatchFirst) {
  EXPECT_EQ(
      Solve({Point(2, "A", 0, 2), Point(5, "B", 0, 4)}, Request(12, kPlenty)),
      "2xB@5 1xA@2");
}

TEST(WrTest, LetsTheMicroBatchWriteThatSavesMost) {
  // Undivided in 11: neither is of half the size before one that adds.
  EXPECT_EQ(
      Solve({Adds(Point(4, "A", 0, 11), 30), Adds(Point(2, "B", 0, 5), 7)},
            Request(4, kPlenty)),
      "1xA@4");
  // 5 + 7 + 7, where all of them adding would take 21 and A before it 23.
  const KernelProfile kernel =
      Kernel({Adds(Point(4, "A", 0, 16), 30), Adds(Point(2, "B", 0, 5), 7)});
  const KernelPlan plan = SolveWr(kernel, Request(6, kPlenty)).value();
  EXPECT_EQ(Text(plan), "1xB@2 2xB@2");
  EXPECT_EQ(plan.time, Nanoseconds(19));
  EXPECT_EQ(plan.micro_batches[0].time, Nanoseconds(5));
  EXPECT_EQ(plan.micro_batches[1].time, Nanoseconds(7));
  // The smaller one writes.
  EXPECT_EQ(
      Solve({Adds(Point(4, "A", 0, 16), 17), Adds(Point(2, "B", 0, 5), 9)},
            Request(6, kPlenty)),
      "1xB@2 1xA@4");
}

TEST(WrTest, BreaksTiesByCountThenWorkspaceThenName) {
  // 4 = 2 + 2 in the same time.
  EXPECT_EQ(
      Solve({Point(2, "A", 0, 5), Point(4, "B", 9, 10)}, Request(4, kPlenty)),
      "1xB@4");
  // 6 = 4 + 2 = 3 + 3, both of two micro-batches in 12.
  EXPECT_EQ(
      Solve({Point(2, "A", 0, 4), Point(4, "B", 9, 8), Point(3, "C", 7, 6)},
            Request(6, kPlenty)),
      "2xC@3");
  EXPECT_EQ(
      Solve({Point(4, "Z", 5, 8), Point(4, "B", 5, 8), Point(4, "A", 6, 8)},
            Request(4, kPlenty)),
      "1xB@4");
  // All equal: the largest first micro-batch.
  EXPECT_EQ(
      Solve({Point(2, "A", 0, 4), Point(4, "B", 0, 8), Point(3, "C", 0, 6)},
            Request(6, kPlenty)),
      "1xB@4 1xA@2");
}

TEST(WrTest, DoesNotDependOnTheOrderOfThePoints) {
  Random random(7);
  for (int i = 0; i < 300; ++i) {
    KernelProfile kernel =
        RandomKernel(random, {.max_batch = 8, .max_time = 4, .max_spread = 1});
    const WrRequest request = Request(8, Bytes(Draw(random, 0, 12)));
    const auto plan = SolveWr(kernel, request);
    std::reverse(kernel.points.begin(), kernel.points.end());
    EXPECT_EQ(plan, SolveWr(kernel, request));
  }
}

TEST(WrTest, AdmitsTheMiniBatchUnderEveryPolicy) {
  const std::vector<MeasuredPoint> points = {
      Point(6, "WHOLE", 0, 20), Point(3, "THREE", 0, 5), Point(4, "P", 0, 14),
      Point(2, "P", 0, 7), Point(12, "WHOLE", 0, 100)};
  EXPECT_EQ(Solve(points, Request(6, kPlenty, BatchPolicy::kAll)), "2xTHREE@3");
  EXPECT_EQ(Solve(points, Request(6, kPlenty, BatchPolicy::kPowerOfTwo)),
            "1xWHOLE@6");
  EXPECT_EQ(Solve(points, Request(6, kPlenty, BatchPolicy::kUndivided)),
            "1xWHOLE@6");
  // 6 may be a mini-batch, but not a part of 12.
  EXPECT_EQ(Solve(points, Request(12, kPlenty, BatchPolicy::kPowerOfTwo)),
            "3xP@4");
}

TEST(WrTest, NamesTheSmallestSufficientLimit) {
  const KernelProfile kernel =
      Kernel({Point(8, "A", 4096, 9), Point(3, "A", 2048, 9),
              Point(2, "A", 1024, 9), Point(6, "A", 512, 9)});
  const auto plan = SolveWr(kernel, Request(8, 1023_B));
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(plan.error().message,
              HasSubstr("the smallest limit that would do is 1KiB"));
  EXPECT_TRUE(SolveWr(kernel, Request(8, 1024_B)));
}

TEST(WrTest, NamesTheNearestBatchThatMeasuredSizesSumTo) {
  const std::vector<MeasuredPoint> points = {Point(4, "A", 0, 9),
                                             Point(6, "A", 8, 9)};
  EXPECT_THAT(Solve(points, Request(11, 0_B)),
              HasSubstr("the nearest batch below that would do is 10"));
  EXPECT_THAT(Solve(points, Request(3, kPlenty)),
              HasSubstr("add up to 3 or to any smaller batch"));
  EXPECT_THAT(Solve(points, Request(12, kPlenty, BatchPolicy::kUndivided)),
              HasSubstr("the nearest batch below that would do is 6"));
  EXPECT_FALSE(SolveWr(Kernel({}), Request(3, kPlenty)));
}

TEST(WrTest, PlansAllKernelsOrNamesTheLimitSufficientForAll) {
  Profile profile;
  profile.kernels = {
      Kernel({Point(2, "A", 100, 9), Point(4, "A", 150, 17)}),
      Kernel({Point(4, "A", 300, 9)}),
      Kernel({Point(4, "A", 200, 9), Point(1, "B", 10, 2)}),
  };
  profile.kernels[1].id.layer = "conv7";
  const WorkspacePlan plan = SolveWr(profile, Request(4, 300_B)).value();
  EXPECT_EQ(plan.total_time, Nanoseconds(17 + 9 + 8));
  EXPECT_EQ(plan.lower_bound, plan.total_time);
  EXPECT_TRUE(plan.optimal);
  EXPECT_EQ(plan.undivided_time, Nanoseconds(17 + 9 + 9));
  EXPECT_EQ(plan.total_workspace, Bytes(150 + 300 + 10));
  const auto none = SolveWr(profile, Request(4, 50_B));
  EXPECT_THAT(none.error().message, HasSubstr("conv7"));
  EXPECT_THAT(none.error().message, HasSubstr("would do is 300"));
  EXPECT_EQ(SolveWr(Profile{}, Request(4, 50_B)).error().code,
            Code::kInvalidArgument);
}

TEST(WrTest, HasNoUndividedTotalIfOneKernelHasNone) {
  Profile profile;
  profile.kernels = {Kernel({Point(4, "A", 0, 9)}),
                     Kernel({Point(2, "A", 0, 5)})};
  const WorkspacePlan plan = SolveWr(profile, Request(4, 0_B)).value();
  EXPECT_EQ(plan.undivided_time, std::nullopt);
  EXPECT_EQ(plan.kernels[0].undivided_time, Nanoseconds(9));
  EXPECT_EQ(plan.kernels[1].undivided_time, std::nullopt);
}

TEST(WrTest, RefusesArgumentsOutsideTheirRange) {
  const std::vector<MeasuredPoint> good = {Point(1, "A", 0, 1)};
  for (const WrRequest& request :
       {Request(0, 0_B), Request(-1, 0_B), Request((1 << 24) + 1, 0_B),
        Request(1, Bytes(-1))}) {
    const auto plan = SolveWr(Kernel(good), request);
    ASSERT_FALSE(plan);
    EXPECT_EQ(plan.error().code, Code::kInvalidArgument);
    EXPECT_THAT(plan.error().message, HasSubstr("is accepted"));
  }
  constexpr std::int64_t kTooLong = (std::int64_t{1} << 62) + 1;
  for (const MeasuredPoint& bad :
       {Point(0, "A", 0, 1), Point(-5, "A", 0, 1), Point(1, "A", -1, 1),
        Point(1, "A", 0, -1), Point(1, "A", 0, kTooLong),
        Point(1, "A", 0, 1, -1), Point(1, "A", 0, 1, kTooLong),
        Adds(Point(1, "A", 0, 1), -1), Adds(Point(1, "A", 0, 1), kTooLong)}) {
    const auto plan = SolveWr(Kernel({good[0], bad}), Request(1, 0_B));
    ASSERT_FALSE(plan);
    EXPECT_EQ(plan.error().code, Code::kInvalidArgument);
  }
}

TEST(WrTest, RefusesSumsThatOverflow) {
  constexpr std::int64_t kLongest = std::int64_t{1} << 62;
  EXPECT_EQ(Solve({Point(1, "A", 0, kLongest), Point(3, "B", 0, kLongest)},
                  Request(3, kPlenty)),
            "1xB@3");
  const auto plan =
      SolveWr(Kernel({Point(1, "A", 0, kLongest)}), Request(2, kPlenty));
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, Code::kOutOfRange);
  EXPECT_EQ(Solve({Point(1, "A", 0, kLongest / 2)}, Request(2, kPlenty)),
            "2xA@1");
  Profile profile;
  profile.kernels = {Kernel({Point(1, "A", 0, kLongest)}),
                     Kernel({Point(1, "A", 0, 1)})};
  EXPECT_EQ(SolveWr(profile, Request(1, kPlenty)).error().code,
            Code::kOutOfRange);
  profile.kernels[0].points[0] =
      Point(1, "A", std::numeric_limits<std::int64_t>::max(), 1);
  EXPECT_EQ(SolveWr(profile, Request(1, kPlenty)).error().code,
            Code::kOutOfRange);
}

TEST(WrTest, KeepsTheBatchUndividedWithinTheNoise) {
  // Twice 6 is faster than 13 by 1, less than the spreads' 2 * 1 + 0.
  EXPECT_EQ(Solve({Point(4, "A", 0, 13), Point(2, "B", 0, 6, 1)},
                  Request(4, kPlenty)),
            "1xA@4");
  // The spreads equal the advantage.
  EXPECT_EQ(Solve({Point(4, "A", 0, 15, 1), Point(2, "B", 0, 6, 1)},
                  Request(4, kPlenty)),
            "1xA@4");
  // The advantage exceeds the spreads.
  EXPECT_EQ(Solve({Point(4, "A", 0, 16, 1), Point(2, "B", 0, 6, 1)},
                  Request(4, kPlenty)),
            "2xB@2");
  // There is no undivided alternative.
  EXPECT_EQ(Solve({Point(2, "B", 0, 6, 100)}, Request(4, kPlenty)), "2xB@2");
}

TEST(WrTest, TriesTheMostReliableDivisionIfTheFastestFails) {
  const KernelProfile kernel =
      Kernel({Point(4, "A", 0, 100, 1), Point(2, "NOISY", 0, 20, 40),
              Point(2, "CALM", 0, 30, 2)});
  const KernelPlan plan = SolveWr(kernel, Request(4, kPlenty)).value();
  EXPECT_EQ(Text(plan), "2xCALM@2");
  Profile profile;
  profile.kernels = {kernel};
  const WorkspacePlan whole = SolveWr(profile, Request(4, kPlenty)).value();
  EXPECT_EQ(whole.total_time, Nanoseconds(60));
  EXPECT_EQ(whole.lower_bound, Nanoseconds(40));
  EXPECT_FALSE(whole.optimal);
}

// Compares every mini-batch of the curve, under every policy and limit, with an
// enumeration.
TEST(WrTest, EqualsExhaustiveEnumeration) {
  Random random(1);
  for (int i = 0; i < Trials(3000); ++i) {
    const KernelProfile kernel =
        RandomKernel(random, {.max_batch = Draw(random, 1, 9),
                              .max_points_per_batch = Draw(random, 1, 3),
                              .max_time = Draw(random, 0, 1) == 0 ? 3 : 50,
                              .max_adding = i % 2 * 50});
    for (const BatchPolicy policy : kPolicies) {
      const Bytes limit(Draw(random, 0, 12));
      const WrCurve curve =
          SolveWrCurve(kernel.points, BatchSize(10), limit, policy).value();
      for (std::int64_t b = 1; b <= 10; ++b) {
        const auto best =
            BestByEnumeration(kernel.points, b, limit.count(), policy);
        const auto time = curve.TimeAt(BatchSize(b));
        ASSERT_EQ(time.has_value(), best.has_value()) << i << " " << b;
        if (!best.has_value()) {
          EXPECT_TRUE(curve.PlanAt(BatchSize(b)).empty());
          continue;
        }
        const KernelPlan plan =
            SolveWr(kernel, {BatchSize(b), limit, policy}).value();
        std::int64_t count = 0;
        for (const MicroBatch& micro : plan.micro_batches) {
          count += micro.count;
        }
        EXPECT_EQ(time->count(), best->time);
        EXPECT_EQ(count, best->count);
        EXPECT_EQ(plan.workspace.count(), best->workspace);
        EXPECT_EQ(plan.time, *time);
        EXPECT_EQ(plan.micro_batches, curve.PlanAt(BatchSize(b)));
      }
    }
  }
}

TEST(WrTest, GivesPlansThatAnIndependentCheckAccepts) {
  Random random(2);
  int plans = 0;
  for (int i = 0; i < Trials(5000); ++i) {
    Profile profile;
    for (std::int64_t k = Draw(random, 1, 3); k > 0; --k) {
      profile.kernels.push_back(RandomKernel(
          random,
          {.max_batch = 16, .max_spread = i % 2 * 3, .max_adding = i % 3 * 20},
          fmt::format("conv{}", k)));
    }
    const WrRequest request =
        Request(Draw(random, 1, 24), Bytes(Draw(random, 0, 12)),
                kPolicies[static_cast<std::size_t>(i) % 3]);
    const auto plan = SolveWr(profile, request);
    if (!plan) {
      EXPECT_EQ(plan.error().code, Code::kFailedPrecondition);
      continue;
    }
    ++plans;
    const Status valid = ValidatePlan(
        *plan, profile, {WorkspaceMode::kReuse, request.policy, {}});
    ASSERT_TRUE(valid) << valid.error().message;
    if (i % 2 == 0) {
      EXPECT_TRUE(plan->optimal);
    }
  }
  EXPECT_GT(plans, Trials(1000));
}

TEST(WrTest, IsNeverSlowerWithMoreWorkspaceOrMoreSizes) {
  Random random(3);
  for (int i = 0; i < Trials(3000); ++i) {
    const KernelProfile kernel =
        RandomKernel(random, {.max_batch = 12, .max_adding = i % 2 * 40});
    const BatchSize batch(Draw(random, 1, 16));
    std::array<Nanoseconds, 3> last = {Nanoseconds::max(), Nanoseconds::max(),
                                       Nanoseconds::max()};
    for (std::int64_t limit = 0; limit <= 12; ++limit) {
      for (std::size_t p = 0; p < 3; ++p) {
        const auto plan = SolveWr(kernel, {batch, Bytes(limit), kPolicies[p]});
        const Nanoseconds time = plan ? plan->time : Nanoseconds::max();
        EXPECT_LE(time, last[p]);
        last[p] = time;
        if (p > 0) {
          EXPECT_LE(last[p - 1], time);
        }
      }
    }
  }
}

TEST(WrTest, NamesTheSmallestLimitThatSuffices) {
  Random random(4);
  for (int i = 0; i < Trials(3000); ++i) {
    const KernelProfile kernel = RandomKernel(random, {});
    const BatchSize batch(Draw(random, 1, 12));
    const BatchPolicy policy = kPolicies[static_cast<std::size_t>(i) % 3];
    const auto limit = SmallestLimit(kernel.points, batch, policy);
    EXPECT_EQ(limit.has_value(),
              SolveWr(kernel, {batch, kPlenty, policy}).has_value());
    if (!limit.has_value()) continue;
    EXPECT_TRUE(SolveWr(kernel, {batch, *limit, policy}));
    if (*limit > 0_B) {
      EXPECT_FALSE(SolveWr(kernel, {batch, *limit - 1_B, policy}));
    }
  }
}

// Whatever the true times within the spreads are, no plan is slower than the
// undivided batch, and a division is used whenever one is safe.
TEST(WrTest, DividesIfAndOnlyIfADivisionPassesTheNoiseTest) {
  Random random(5);
  int divided = 0;
  int doubtful = 0;
  for (int i = 0; i < Trials(5000); ++i) {
    const KernelProfile kernel = RandomKernel(
        random, {.max_batch = 6, .max_spread = 20, .max_adding = i % 2 * 40});
    const WrCurve curve =
        SolveWrCurve(kernel.points, BatchSize(6), 9_B, BatchPolicy::kAll)
            .value();
    for (std::int64_t b = 1; b <= 6; ++b) {
      const auto undivided = curve.UndividedTimeAt(BatchSize(b));
      if (!undivided.has_value()) continue;
      const MeasuredPoint* whole = nullptr;
      for (const MeasuredPoint& p : kernel.points) {
        if (p.batch.count() != b || p.workspace > 9_B) continue;
        if (whole == nullptr ||
            std::tie(p.time, p.workspace, p.algorithm) <
                std::tie(whole->time, whole->workspace, whole->algorithm)) {
          whole = &p;
        }
      }
      bool safe = false;
      ForEachConfiguration(
          kernel.points, b, BatchPolicy::kAll, [&](const Score& score) {
            safe = safe || (score.count > 1 && score.workspace <= 9 &&
                            score.time + score.spread <
                                (whole->time - whole->spread).count());
          });
      const std::vector<MicroBatch> plan = curve.PlanAt(BatchSize(b));
      const bool is_divided = plan.size() > 1 || plan[0].count > 1;
      EXPECT_EQ(is_divided, safe) << i << " batch " << b;
      EXPECT_LE(*curve.TimeAt(BatchSize(b)), *undivided);
      EXPECT_LE(*curve.LowerBoundAt(BatchSize(b)), *curve.TimeAt(BatchSize(b)));
      divided += is_divided ? 1 : 0;
      doubtful += *curve.LowerBoundAt(BatchSize(b)) < *undivided && !safe;
    }
  }
  EXPECT_GT(divided, Trials(500));
  EXPECT_GT(doubtful, Trials(500));
}

TEST(WrTest, AdmitsTheSizesOfAPolicy) {
  EXPECT_TRUE(
      PolicyAdmits(BatchPolicy::kUndivided, BatchSize(6), BatchSize(6)));
  EXPECT_FALSE(
      PolicyAdmits(BatchPolicy::kUndivided, BatchSize(2), BatchSize(6)));
  EXPECT_TRUE(
      PolicyAdmits(BatchPolicy::kPowerOfTwo, BatchSize(1), BatchSize(6)));
  EXPECT_FALSE(
      PolicyAdmits(BatchPolicy::kPowerOfTwo, BatchSize(3), BatchSize(6)));
  EXPECT_FALSE(PolicyAdmits(BatchPolicy::kAll, BatchSize(7), BatchSize(6)));
  EXPECT_FALSE(PolicyAdmits(BatchPolicy::kAll, BatchSize(0), BatchSize(6)));
}

}  // namespace
}  // namespace ucudnn
