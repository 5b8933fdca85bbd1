#include "solver/memory/best/emit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "solver/memory/finish.h"
#include "tests/solver/memory/best/built.h"
#include "tests/solver/memory/modnn/hand_graph.h"

namespace ucudnn {
namespace {

using ::testing::ElementsAre;

constexpr std::int64_t kUnit = test::kUnitBytes;

// a.Y is used by f2 and again by b1; f3 and f4 run between these. The link
// takes 4 us for it each way.
//
//   place   0 f1   1 f2   2 f3   3 f4   4 b1
//   a.Y     W      R                    R
struct OneGap {
  explicit OneGap(std::int64_t f2_us, bool duplex = true) : hand(1) {
    const auto x = hand.Block("x", BlockKind::kInput, 1);
    a = hand.Activation("a.Y", 4);
    const auto b = hand.Activation("b.Y", 1);
    const auto c = hand.Activation("c.Y", 3);
    const auto d = hand.Activation("d.Y", 1);
    const auto e = hand.Activation("e.Y", 1);
    hand.Forward("f1", {x}, {a}, 1);
    hand.Forward("f2", {a}, {b}, f2_us);
    hand.Forward("f3", {b}, {c}, 10);
    hand.Forward("f4", {c}, {d}, 10);
    hand.Task("b1", TaskKind::kBackward, {a, d}, {e}, 1);
    graph = hand.graph();
    graph.device.duplex = duplex;
  }

  // The round in which a.Y is away in its gap, in so many units of memory.
  MemoryRound Emit(std::int64_t units) {
    test::Built built(graph);
    RoundChoices choices = built.scheduler.NoChoices();
    for (std::size_t g = 0; g < built.program.gaps.size(); ++g) {
      const BlockGap& gap = built.program.gaps[g];
      choices.moved[g] = gap.block == a && gap.after == 1;
    }
    RoundSchedule schedule;
    built.scheduler.Schedule(choices, units * kUnit, &schedule);
    EXPECT_TRUE(schedule.fits);
    const MemoryPlan plan =
        NewPlan(built.rounds, {.budget = 1_GiB}, kPlanAlignment);
    const MemoryRound round = EmitRound(built.scheduler, built.options,
                                        plan.resident, choices.moved, schedule);
    EXPECT_EQ(round.time.count(), schedule.time);
    return round;
  }

  // "14 free compute" for each event of a.Y and of tasks, in microseconds.
  std::vector<std::string> EventsOf(const MemoryRound& round) const {
    std::vector<std::string> events;
    for (const MemoryEvent& event : round.events) {
      const bool task = event.op == EventOp::kCompute;
      if (!task && event.block != a) continue;
      events.push_back(fmt::format(
          "{} {} {}", Microseconds(event.start),
          task ? graph.tasks[event.task].name : std::string(Name(event.op)),
          Name(event.stream)));
    }
    return events;
  }

  test::HandGraph hand;
  TrainingGraph graph;
  std::size_t a = 0;
};

TEST(EmitRoundTest, ABlockLeavesOnceComputedAndReturnsOnceThereIsRoom) {
  OneGap gap(10);
  // f4 needs four units, so a.Y has to wait for its end.
  EXPECT_THAT(gap.EventsOf(gap.Emit(7)),
              ElementsAre("0 alloc compute", "0 f1 compute", "1 offload d2h",
                          "1 f2 compute", "11 free compute", "11 f3 compute",
                          "21 f4 compute", "31 alloc h2d", "31 prefetch h2d",
                          "35 b1 compute", "36 free compute"));
}

TEST(EmitRoundTest, ABlockReturnsDuringTasksIfThereIsRoom) {
  OneGap gap(10);
  const std::vector<std::string> events = gap.EventsOf(gap.Emit(9));
  EXPECT_THAT(events, ::testing::Contains("11 prefetch h2d"));
  EXPECT_THAT(events, ::testing::Contains("31 b1 compute"));
}

TEST(EmitRoundTest, OneStreamCopiesBothWaysUnlessTheLinkIsDuplex) {
  OneGap gap(10, false);
  const std::vector<std::string> events = gap.EventsOf(gap.Emit(7));
  EXPECT_THAT(events, ::testing::Contains("1 offload copy"));
  EXPECT_THAT(events, ::testing::Contains("31 prefetch copy"));
}

TEST(EmitRoundTest, ATaskWaitsForTheMemoryOfWhatIsStillLeaving) {
  OneGap gap(1);
  // f3 cannot start before the copy has ended at 5 us.
  const std::vector<std::string> events = gap.EventsOf(gap.Emit(7));
  EXPECT_THAT(events, ::testing::Contains("5 free compute"));
  EXPECT_THAT(events, ::testing::Contains("5 f3 compute"));
}

}  // namespace
}  // namespace ucudnn
