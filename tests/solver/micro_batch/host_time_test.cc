#include "solver/micro_batch/host_time.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "solver/micro_batch/pareto.h"
#include "solver/micro_batch/wr.h"
#include "tests/solver/instances.h"
#include "tests/support/trials.h"

namespace ucudnn {
namespace {

using test::Draw;
using test::Point;
using test::Random;
using test::RandomKernel;

MeasuredPoint Paced(MeasuredPoint point, std::int64_t enqueue) {
  point.enqueue = Nanoseconds(enqueue);
  return point;
}

KernelPlan Plan(const std::vector<MeasuredPoint>& points, BatchSize batch,
                Bytes limit) {
  KernelProfile kernel;
  kernel.points = CountHostTime(points, batch, limit);
  return SolveWr(kernel, {batch, limit, BatchPolicy::kAll}).value();
}

// Eight images take the device 60 undivided, and 4 x 10 in pairs.
std::vector<MeasuredPoint> DividedInPairs(std::int64_t enqueue) {
  return {Paced(Point(8, "GEMM", 0, 60), 20),
          Paced(Point(2, "WINOGRAD", 0, 10), enqueue)};
}

TEST(HostTimeTest, DividesIfTheHostStaysAhead) {
  const KernelPlan plan = Plan(DividedInPairs(10), BatchSize(8), 0_B);
  ASSERT_EQ(plan.micro_batches.size(), 1U);
  EXPECT_EQ(plan.micro_batches[0].count, 4);
  EXPECT_EQ(plan.time, Nanoseconds(40));
}

TEST(HostTimeTest, DividesIfTheHostIsSlowerThanTheRunsButFastEnough) {
  // Enqueueing takes 4 x 14, less than 60 undivided, so the division is
  // allowed; the plan's time is the device's time.
  EXPECT_EQ(Plan(DividedInPairs(14), BatchSize(8), 0_B).time, Nanoseconds(40));
}

TEST(HostTimeTest, StaysUndividedIfTheHostEnqueuesTooSlowly) {
  // 4 x 15 equals the undivided time.
  const KernelPlan plan = Plan(DividedInPairs(15), BatchSize(8), 0_B);
  EXPECT_EQ(plan.micro_batches[0].count, 1);
  EXPECT_EQ(plan.time, Nanoseconds(60));
  EXPECT_EQ(plan.undivided_time, Nanoseconds(60));
}

TEST(HostTimeTest, PrefersADivisionThatTheHostCanEnqueueInTime) {
  std::vector<MeasuredPoint> points = DividedInPairs(30);
  points.push_back(Paced(Point(4, "WINOGRAD", 0, 25), 28));
  const KernelPlan plan = Plan(points, BatchSize(8), 0_B);
  ASSERT_EQ(plan.micro_batches.size(), 1U);
  EXPECT_EQ(plan.micro_batches[0].count, 2);
  EXPECT_EQ(plan.time, Nanoseconds(50));
}

TEST(HostTimeTest, PrefersTheUndividedPointOfLessPacedTime) {
  // Four short launches instead of one.
  const std::vector<MeasuredPoint> points = {
      Paced(Point(8, "WINOGRAD", 64, 30), 70),
      Paced(Point(8, "GEMM", 0, 36), 20)};
  EXPECT_EQ(Plan(points, BatchSize(8), 64_B).time, Nanoseconds(36));
}

TEST(HostTimeTest, KeepsPointsThatFitLessMemory) {
  const std::vector<MeasuredPoint> points = {
      Paced(Point(8, "GEMM", 0, 60), 80), Paced(Point(8, "FFT", 100, 30), 20)};
  // The better one exceeds the limit, or a division of memory may have no room
  // for it.
  EXPECT_EQ(CountHostTime(points, BatchSize(8), 99_B).size(), 2U);
  EXPECT_EQ(CountHostTime(points, BatchSize(8), 0_B).size(), 2U);
  EXPECT_EQ(CountHostTime(points, BatchSize(8), 100_B).size(), 1U);
}

TEST(HostTimeTest, ChangesNothingWithoutHostTimes) {
  Random random(1);
  for (int i = 0; i < 50; ++i) {
    const KernelProfile kernel =
        RandomKernel(random, {.max_batch = 6, .max_spread = i % 2 * 5});
    const auto counted = CountHostTime(kernel.points, BatchSize(7), 5_B);
    EXPECT_EQ(counted, kernel.points);
  }
}

TEST(HostTimeTest, LeavesInvalidPointsToTheSolver) {
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  for (const MeasuredPoint& point :
       {Paced(Point(2, "A", 0, -1), most), Paced(Point(2, "A", 0, 1), most),
        Paced(Point(2, "A", 0, 1, most), most),
        Paced(Point(2, "A", 0, 1, std::int64_t{1} << 62), 2)}) {
    const auto counted = CountHostTime({&point, 1}, BatchSize(2), 0_B);
    ASSERT_EQ(counted.size(), 1U);
    const auto curve =
        SolveWrCurve(counted, BatchSize(2), 0_B, BatchPolicy::kAll);
    EXPECT_EQ(curve.has_value(),
              point.time >= Nanoseconds(0) && point.spread < Nanoseconds(most));
  }
}

// The sum of the paced times; points of one batch size have different names.
std::int64_t PacedTimeOf(const std::vector<MicroBatch>& plan,
                         const std::vector<MeasuredPoint>& points) {
  std::int64_t paced = 0;
  for (const MicroBatch& micro : plan) {
    const auto point =
        std::ranges::find_if(points, [&](const MeasuredPoint& p) {
          return p.batch == micro.batch && p.algorithm == micro.algorithm;
        });
    paced += std::max(point->time, point->enqueue).count() * micro.count;
  }
  return paced;
}

std::optional<std::int64_t> LeastPacedWhole(
    const std::vector<MeasuredPoint>& points, BatchSize batch, Bytes limit) {
  std::optional<std::int64_t> least;
  for (const MeasuredPoint& p : points) {
    if (p.batch != batch || p.workspace > limit) continue;
    const std::int64_t paced = std::max(p.time, p.enqueue).count();
    least = std::min(least.value_or(paced), paced);
  }
  return least;
}

std::vector<MeasuredPoint> RandomPoints(Random& random, int i) {
  std::vector<MeasuredPoint> points =
      RandomKernel(random, {.max_batch = 6, .max_spread = i % 3}).points;
  for (MeasuredPoint& point : points) {
    point.enqueue = Nanoseconds(Draw(random, 0, 40));
  }
  return points;
}

TEST(HostTimeTest, NoPlanIsSlowerThanUndividedWhetherHostOrDeviceIsAhead) {
  Random random(2);
  int divided = 0;
  int kept_whole = 0;
  for (int i = 0; i < Trials(20'000); ++i) {
    const std::vector<MeasuredPoint> points = RandomPoints(random, i);
    const BatchSize batch(Draw(random, 2, 6));
    const Bytes limit(Draw(random, 0, 12));
    const auto least = LeastPacedWhole(points, batch, limit);
    if (!least) continue;
    const KernelPlan plan = Plan(points, batch, limit);
    EXPECT_LE(PacedTimeOf(plan.micro_batches, points), *least) << i;
    EXPECT_LE(plan.workspace, limit);
    const auto is_divided = [](const KernelPlan& p) {
      return p.micro_batches.size() > 1 || p.micro_batches[0].count > 1;
    };
    KernelProfile as_they_are;
    as_they_are.points = points;
    const auto fastest =
        SolveWr(as_they_are, {batch, limit, BatchPolicy::kAll}).value();
    divided += is_divided(plan) ? 1 : 0;
    kept_whole += is_divided(fastest) && !is_divided(plan) ? 1 : 0;
  }
  EXPECT_GT(divided, Trials(500));
  EXPECT_GT(kept_whole, Trials(200));
}

TEST(HostTimeTest, NoPlanOfAFrontIsSlowerThanUndividedWithinItsWorkspace) {
  Random random(3);
  int plans = 0;
  for (int i = 0; i < Trials(10'000); ++i) {
    const std::vector<MeasuredPoint> points = RandomPoints(random, i);
    const BatchSize batch(Draw(random, 2, 6));
    const auto counted = CountHostTime(points, batch, 0_B);
    const auto front = SolvePareto(counted, {batch, 12_B, BatchPolicy::kAll});
    if (!front) continue;
    for (std::size_t p = 0; p < front->points().size(); ++p) {
      const auto least =
          LeastPacedWhole(points, batch, front->points()[p].workspace);
      if (!least) continue;
      EXPECT_LE(PacedTimeOf(front->PlanAt(p), points), *least) << i;
      ++plans;
    }
  }
  EXPECT_GT(plans, Trials(2'000));
}

}  // namespace
}  // namespace ucudnn
