#include "solver/micro_batch/pareto.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>

#include "tests/solver/instances.h"
#include "tests/solver/micro_batch/naive_pareto.h"

namespace ucudnn {
namespace {

using test::Draw;
using test::ForEachConfiguration;
using test::kPolicies;
using test::NaiveFront;
using test::Point;
using test::Random;
using test::RandomKernel;
using test::Score;
using ::testing::HasSubstr;

FrontPoint At(std::int64_t workspace, std::int64_t time) {
  return {Nanoseconds(time), Bytes(workspace)};
}

std::vector<FrontPoint> FrontByEnumeration(
    const std::vector<MeasuredPoint>& points, const WrRequest& request) {
  std::map<std::int64_t, std::int64_t> fastest;  // per workspace
  ForEachConfiguration(
      points, request.batch.count(), request.policy, [&](const Score& score) {
        if (score.workspace > request.workspace_limit.count()) return;
        const auto [it, added] = fastest.emplace(score.workspace, score.time);
        it->second = std::min(it->second, score.time);
      });
  std::vector<FrontPoint> front;
  for (const auto& [workspace, time] : fastest) {
    if (front.empty() || time < front.back().time.count()) {
      front.push_back(At(workspace, time));
    }
  }
  return front;
}

TEST(ParetoTest, KeepsUndominatedConfigurations) {
  const std::vector<MeasuredPoint> points = {
      Point(4, "FFT", 64, 10), Point(2, "FFT", 32, 6), Point(4, "GEMM", 0, 20),
      Point(1, "WINO", 8, 6), Point(2, "GEMM", 0, 10)};
  const ParetoFront front =
      SolvePareto(points, {BatchSize(4), 64_B, BatchPolicy::kAll}).value();
  EXPECT_EQ(front.points(), (std::vector{At(0, 20), At(32, 12), At(64, 10)}));
  EXPECT_EQ(front.FastestWithin(Bytes(-1)), std::nullopt);
  EXPECT_EQ(front.FastestWithin(31_B), 0U);
  EXPECT_EQ(front.FastestWithin(32_B), 1U);
  EXPECT_EQ(front.FastestWithin(Bytes::Max()), 2U);
  const std::vector<MicroBatch> plan = front.PlanAt(1);
  ASSERT_EQ(plan.size(), 1U);
  EXPECT_EQ(plan[0].batch, BatchSize(2));
  EXPECT_EQ(plan[0].count, 2);
}

TEST(ParetoTest, EqualsExhaustiveEnumeration) {
  Random random(11);
  for (int i = 0; i < 6000; ++i) {
    const KernelProfile kernel = RandomKernel(
        random, {.max_batch = Draw(random, 1, 9),
                 .max_points_per_batch = Draw(random, 1, 4),
                 .max_time = Draw(random, 0, 1) == 0 ? 4 : 60,
                 .max_workspace = Draw(random, 0, 1) == 0 ? 12 : 1000,
                 .max_adding = i % 2 * 60});
    const WrRequest request{BatchSize(Draw(random, 1, 11)),
                            Bytes(Draw(random, 0, 1000)),
                            kPolicies[static_cast<std::size_t>(i) % 3]};
    const auto front = SolvePareto(kernel.points, request);
    const auto expected = FrontByEnumeration(kernel.points, request);
    if (expected.empty()) {
      ASSERT_FALSE(front);
      EXPECT_EQ(front.error().code, Code::kFailedPrecondition);
      continue;
    }
    ASSERT_TRUE(front) << front.error().message;
    EXPECT_EQ(front->points(), expected) << i;
    EXPECT_EQ(NaiveFront(kernel.points, request), expected) << i;
  }
}

TEST(ParetoTest, EqualsThePapersRecurrenceOnLargerInstances) {
  Random random(12);
  for (int i = 0; i < 60; ++i) {
    const KernelProfile kernel =
        RandomKernel(random, {.max_batch = 40,
                              .max_points_per_batch = 5,
                              .max_time = 1000,
                              .max_workspace = 200,
                              .max_adding = i % 4 < 2 ? 0 : 2000});
    const WrRequest request{BatchSize(40), 150_B,
                            kPolicies[static_cast<std::size_t>(i) % 2]};
    const auto front = SolvePareto(kernel.points, request);
    if (!front) continue;
    EXPECT_EQ(front->points(), NaiveFront(kernel.points, request)) << i;
  }
}

// With and without noise.
TEST(ParetoTest, EachPointHasThePlanOfWorkspaceReuse) {
  Random random(13);
  for (int i = 0; i < 3000; ++i) {
    const KernelProfile kernel =
        RandomKernel(random, {.max_batch = 9,
                              .max_spread = i % 2 == 0 ? 0 : 9,
                              .max_adding = i % 4 < 2 ? 0 : 40});
    const WrRequest request{BatchSize(Draw(random, 1, 14)), 12_B,
                            kPolicies[static_cast<std::size_t>(i) % 3]};
    const auto front = SolvePareto(kernel.points, request);
    if (!front) continue;
    for (std::size_t p = 0; p < front->points().size(); ++p) {
      const FrontPoint& point = front->points()[p];
      if (p > 0) {
        EXPECT_GT(point.workspace, front->points()[p - 1].workspace);
        EXPECT_LT(point.time, front->points()[p - 1].time);
      }
      const KernelPlan plan =
          SolveWr(kernel, {request.batch, front->LimitOf(p), request.policy})
              .value();
      EXPECT_EQ(plan.time, point.time);
      EXPECT_TRUE(i % 2 == 1 || front->LimitOf(p) == point.workspace);
      EXPECT_EQ(plan.workspace, point.workspace);
      EXPECT_EQ(plan.micro_batches, front->PlanAt(p));
    }
  }
}

// Compares the front under noise with WR under every limit.
TEST(ParetoTest, OmitsPointsThatNoiseRulesOut) {
  Random random(14);
  int shorter = 0;
  for (int i = 0; i < 3000; ++i) {
    KernelProfile kernel = RandomKernel(random, {.max_batch = 7,
                                                 .max_time = 12,
                                                 .max_spread = 12,
                                                 .max_adding = i % 2 * 20});
    const WrRequest request{BatchSize(7), 12_B, BatchPolicy::kAll};
    const auto front = SolvePareto(kernel.points, request);
    if (!front) continue;
    std::vector<FrontPoint> expected;
    for (std::int64_t limit = 0; limit <= 12; ++limit) {
      const auto plan =
          SolveWr(kernel, {request.batch, Bytes(limit), request.policy});
      if (plan && (expected.empty() || plan->time < expected.back().time)) {
        while (!expected.empty() &&
               expected.back().workspace >= plan->workspace) {
          expected.pop_back();
        }
        expected.push_back({plan->time, plan->workspace});
      }
    }
    EXPECT_EQ(front->points(), expected) << i;
    for (MeasuredPoint& point : kernel.points) point.spread = Nanoseconds(0);
    shorter += expected != SolvePareto(kernel.points, request)->points();
  }
  EXPECT_GT(shorter, 100);
}

TEST(ParetoTest, RefusesTheArgumentsThatWorkspaceReuseRefuses) {
  const std::vector<MeasuredPoint> points = {Point(4, "A", 100, 9)};
  const auto none = SolvePareto(points, {BatchSize(4), 99_B});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(none.error().message,
              HasSubstr("smallest limit that would do is 100"));
  EXPECT_THAT(SolvePareto(points, {BatchSize(5), 100_B}).error().message,
              HasSubstr("nearest batch below that would do is 4"));
  EXPECT_EQ(SolvePareto(points, {BatchSize(0), 99_B}).error().code,
            Code::kInvalidArgument);
  EXPECT_EQ(SolvePareto({}, {BatchSize(1), 99_B}).error().code,
            Code::kFailedPrecondition);
  const std::vector<MeasuredPoint> endless = {
      Point(1, "A", 0, std::int64_t{1} << 62)};
  EXPECT_EQ(SolvePareto(endless, {BatchSize(2), 99_B}).error().code,
            Code::kOutOfRange);
}

}  // namespace
}  // namespace ucudnn
