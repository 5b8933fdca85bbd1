#include "solver/memory/best/schedule.h"

#include <gtest/gtest.h>

#include <random>

#include "solver/check/memory_plan.h"
#include "solver/limits.h"
#include "solver/memory/best/emit.h"
#include "solver/memory/finish.h"
#include "solver/memory/placement.h"
#include "solver/memory/summary.h"
#include "tests/solver/memory/best/built.h"
#include "tests/solver/memory/small_graphs.h"

namespace ucudnn {
namespace {

TEST(SchedulerTest, TakesTheSumOfTheFastestOptionsIfAllFits) {
  const TrainingGraph graph = test::OnSmallDevice(test::SmallChain(16));
  test::Built built(graph);
  RoundSchedule schedule;
  built.scheduler.Schedule(built.scheduler.NoChoices(), std::int64_t{1} << 40,
                           &schedule);
  ASSERT_TRUE(schedule.fits);
  std::int64_t sum = 0;
  for (const std::size_t task : built.program.tasks) {
    sum += built.options.Of(task).back().time;
  }
  EXPECT_EQ(schedule.time, sum);
  EXPECT_EQ(schedule.moved, 0);
}

TEST(SchedulerTest, DoesNotFitWithoutRoomForTheLargestTask) {
  const TrainingGraph graph = test::OnSmallDevice(test::SmallChain(16));
  test::Built built(graph);
  RoundSchedule schedule;
  RoundChoices choices = built.scheduler.NoChoices();
  choices.moved.assign(built.program.gaps.size(), 1);
  built.scheduler.Schedule(choices, built.program.resident, &schedule);
  EXPECT_FALSE(schedule.fits);
}

// Whatever is moved at whatever capacity: the events take as long as the
// schedule says, never hold more than the capacity, and pass the check.
TEST(SchedulerTest, SchedulesWhatTheTimelineGives) {
  std::mt19937 random(3);
  int fitting = 0;
  for (TrainingGraph graph : test::SmallGraphs(8)) {
    for (const bool duplex : {true, false}) {
      graph.device.duplex = duplex;
      test::Built built(graph);
      const Bytes peak = test::PeakOf(graph);
      for (int trial = 0; trial < 60; ++trial) {
        RoundChoices choices = built.scheduler.NoChoices();
        const int part = 1 + static_cast<int>(random() % 4);
        for (char& moved : choices.moved) {
          moved = static_cast<int>(random() % 4) < part;
        }
        for (std::size_t g = 0; g < choices.moved.size(); ++g) {
          choices.deferred[g] = static_cast<int>(random() % 4);
          choices.overtaking[g] = random() % 4 == 0;
        }
        for (std::uint32_t& most : choices.most) {
          if (random() % 4 == 0) most = 0;
        }
        const std::int64_t capacity =
            (peak * static_cast<int>(2 + random() % 7) / 8).count();
        RoundSchedule schedule;
        built.scheduler.Schedule(choices, capacity, &schedule);
        if (!schedule.fits) continue;
        ++fitting;
        MemoryRequest request{.budget = peak * 8};
        MemoryPlan plan = NewPlan(built.rounds, request, kPlanAlignment);
        plan.rounds.push_back(EmitRound(built.scheduler, built.options,
                                        plan.resident, choices.moved,
                                        schedule));
        EXPECT_EQ(plan.rounds.front().time.count(), schedule.time);
        ASSERT_TRUE(PlaceStatically(graph, Limits(), &plan));
        Summarise(graph, &plan);
        EXPECT_LE(plan.load.count(), capacity);
        EXPECT_EQ((plan.offloaded + plan.prefetched).count() > 0,
                  schedule.moved > 0);
        const Status valid = ValidateMemoryPlan(plan, graph);
        ASSERT_TRUE(valid) << valid.error().message;
      }
    }
  }
  EXPECT_GT(fitting, 100);
}

}  // namespace
}  // namespace ucudnn
