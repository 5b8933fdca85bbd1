#include "client/train/share_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ucudnn::train {
namespace {

using ::testing::ElementsAre;

TEST(ShareStepTest, IsAThirtySecondOrTheNextPartThatDivides) {
  EXPECT_EQ(ShareStep(BatchSize(256), 2), BatchSize(8));
  EXPECT_EQ(ShareStep(BatchSize(100), 2), BatchSize(2));
  EXPECT_EQ(ShareStep(BatchSize(127), 2), BatchSize(1));
  EXPECT_EQ(ShareStep(BatchSize(3), 2), BatchSize(1));
  EXPECT_EQ(ShareStep(BatchSize(256), 64), BatchSize(4));
}

TEST(FinerStepTest, IsAFourthOrTheNextPartThatDivides) {
  EXPECT_EQ(FinerStep(BatchSize(16)), BatchSize(4));
  EXPECT_EQ(FinerStep(BatchSize(15)), BatchSize(3));
  EXPECT_EQ(FinerStep(BatchSize(13)), BatchSize(1));
  EXPECT_EQ(FinerStep(BatchSize(2)), BatchSize(1));
  EXPECT_EQ(FinerStep(BatchSize(1)), BatchSize(1));
}

TEST(FirstBatchesTest, DoubleUpToAnEighthOfTheMiniBatch) {
  EXPECT_THAT(FirstBatches(BatchSize(256), BatchSize(8)),
              ElementsAre(BatchSize(8), BatchSize(16), BatchSize(32)));
  EXPECT_THAT(FirstBatches(BatchSize(15), BatchSize(1)),
              ElementsAre(BatchSize(1)));
  EXPECT_THAT(FirstBatches(BatchSize(1), BatchSize(1)),
              ElementsAre(BatchSize(1)));
}

// Two devices, of which the second takes twice as long for an image.
class FinerOfTest : public ::testing::Test {
 protected:
  FinerOfTest() {
    problem_.batch = BatchSize(64);
    problem_.step = BatchSize(16);
    problem_.gpus = {0, 1};
    for (const std::int64_t each : {1000, 2000}) {
      JointMemoryKind& kind = problem_.kinds.emplace_back();
      kind.budget = 1_GiB;
      Task& task = kind.graph.tasks.emplace_back();
      for (const std::int64_t batch : {16, 32, 48, 64}) {
        MeasuredPoint point;
        point.batch = BatchSize(batch);
        point.time = Nanoseconds(each * batch);
        task.work.measured.push_back(point);
        kind.shares.emplace_back(batch);
      }
    }
  }

  // Its plans take `factor` times their tasks' least times.
  JointMemoryPlan Solved(std::int64_t first, std::int64_t second,
                         std::int64_t factor = 1) const {
    JointMemoryPlan solved;
    const std::int64_t shares[] = {first, second};
    for (std::size_t g = 0; g < 2; ++g) {
      const BatchSize share(shares[g]);
      const Nanoseconds time(shares[g] * (g == 0 ? 1000 : 2000) * factor);
      solved.assignment.shares.push_back({share, time});
      solved.assignment.makespan = std::max(solved.assignment.makespan, time);
      if (share > BatchSize(0)) solved.plans[{g, share}].time = time;
    }
    return solved;
  }

  JointMemoryProblem problem_;
};

TEST_F(FinerOfTest, AreTheBestNextToTheSolution) {
  // 44 and 20 take 44 us; no shares of fours take less.
  for (const std::int64_t factor : {1, 3}) {
    const Wanted wanted = FinerOf(problem_, Solved(48, 16, factor));
    ASSERT_EQ(wanted.size(), 2U);
    EXPECT_THAT(wanted[0], ElementsAre(BatchSize(44)));
    EXPECT_THAT(wanted[1], ElementsAre(BatchSize(20)));
  }
}

TEST_F(FinerOfTest, AreNotWantedWhereTheyGainNothing) {
  JointMemoryPlan solved = Solved(48, 16);
  solved.assignment.makespan = Nanoseconds(44'000);
  for (const auto& of : FinerOf(problem_, solved)) EXPECT_TRUE(of.empty());
  // Nor where the search was cut off, or a step cannot be divided.
  solved = Solved(48, 16);
  solved.cut_off = true;
  for (const auto& of : FinerOf(problem_, solved)) EXPECT_TRUE(of.empty());
  problem_.step = BatchSize(1);
  for (const auto& of : FinerOf(problem_, Solved(48, 16))) {
    EXPECT_TRUE(of.empty());
  }
}

TEST_F(FinerOfTest, LeaveOutWhomTheSolutionLeavesOut) {
  for (const auto& of : FinerOf(problem_, Solved(64, 0))) {
    EXPECT_TRUE(of.empty());
  }
}

}  // namespace
}  // namespace ucudnn::train
