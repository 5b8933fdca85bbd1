#include "solver/memory/best/gap_search.h"

#include <gtest/gtest.h>

#include "tests/solver/memory/best/built.h"
#include "tests/solver/memory/small_graphs.h"

namespace ucudnn {
namespace {

TEST(CoverExcessTest, MovesNothingIfAllFits) {
  const TrainingGraph graph = test::OnSmallDevice(test::SmallResidual(8));
  test::Built built(graph);
  const GapChoice choice =
      CoverExcess(built.scheduler, test::PeakOf(graph).count());
  EXPECT_EQ(choice.missing, 0);
  EXPECT_EQ(choice.schedule.moved, 0);
}

TEST(CoverExcessTest, SaysWhatIsMissing) {
  const TrainingGraph graph = test::OnSmallDevice(test::SmallChain(8));
  test::Built built(graph);
  const GapChoice none = CoverExcess(built.scheduler, 100'000);
  ASSERT_GT(none.missing, 0);
  // That much more is enough for the largest task.
  EXPECT_EQ(CoverExcess(built.scheduler, 100'000 + none.missing).missing, 0);
  EXPECT_GT(CoverExcess(built.scheduler, 100'000 + none.missing - 1).missing,
            0);
}

TEST(ImproveChoiceTest, IsNeverWorseWithMoreEffort) {
  for (const TrainingGraph& graph : test::SmallGraphs(8)) {
    test::Built built(graph);
    GapLimits limits;
    limits.capacity = test::PeakOf(graph).count() * 5 / 8;
    const GapChoice start = CoverExcess(built.scheduler, limits.capacity);
    ASSERT_EQ(start.missing, 0);
    std::int64_t before = start.schedule.time;
    for (const int effort : {0, 10, 100, 1000}) {
      limits.effort = effort;
      GapChoice choice = start;
      ImproveChoice(built.scheduler, limits, &choice);
      EXPECT_LE(choice.schedule.time, before);
      before = choice.schedule.time;
      // What the choice says is what its schedule takes.
      RoundSchedule again;
      built.scheduler.Schedule(choice.choices, limits.capacity, &again);
      ASSERT_TRUE(again.fits);
      EXPECT_EQ(again.time, choice.schedule.time);
    }
  }
}

TEST(ImproveChoiceTest, StopsOnceItIsGoodEnough) {
  const TrainingGraph graph = test::OnSmallDevice(test::SmallChain(8));
  test::Built built(graph);
  GapLimits limits;
  limits.capacity = test::PeakOf(graph).count() * 5 / 8;
  limits.effort = 1000;
  const GapChoice start = CoverExcess(built.scheduler, limits.capacity);
  limits.enough = start.schedule.time;
  GapChoice choice = start;
  ImproveChoice(built.scheduler, limits, &choice);
  EXPECT_EQ(choice.choices.moved, start.choices.moved);
}

}  // namespace
}  // namespace ucudnn
