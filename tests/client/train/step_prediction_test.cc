#include "client/train/step_prediction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ucudnn::train {
namespace {

using ::testing::ElementsAre;

constexpr Nanoseconds At(std::int64_t time) { return Nanoseconds(time); }

TEST(PredictStepTest, IsThePlansTimeOfARankAlone) {
  const RankPasses rank = {At(5), {}, {}, At(100), At(7)};
  const StepPrediction step = PredictStep(std::span(&rank, 1), {}, {});
  EXPECT_THAT(step.passes, ElementsAre(At(100)));
  EXPECT_EQ(step.step, At(112));
}

// Rank 0 is the slower one before the first meeting, rank 1 between both:
// neither's own time is that of the step.
TEST(PredictStepTest, RanksMeetAtEveryExchangeOfStatistics) {
  const std::vector<RankPasses> ranks = {
      {At(3), {At(50), At(60)}, {At(100)}, At(100), At(1)},
      {At(0), {At(20), At(70)}, {At(90)}, At(90), At(2)}};
  const std::vector<GradientBucket> buckets(1);
  // Met at 50 and, 50 later, at 100.
  StepPrediction step = PredictStep(ranks, buckets, {});
  EXPECT_THAT(step.passes, ElementsAre(At(140), At(120)));
  EXPECT_EQ(step.step, At(3 + 140 + 2));
  // 4 at each of both.
  step = PredictStep(ranks, buckets, {.statistics = At(4)});
  EXPECT_THAT(step.passes, ElementsAre(At(148), At(128)));
}

TEST(PredictStepTest, UpdatesFollowTheLastSum) {
  std::vector<RankPasses> ranks = {
      {At(0), {}, {At(40), At(95)}, At(100), At(1)},
      {At(0), {}, {At(30), At(80)}, At(90), At(2)}};
  const ExchangeCosts costs = {.bucket = At(3), .ns_per_byte = 0.5};
  // From 40 to 63, and from 95 to 103.
  const std::vector<GradientBucket> buckets = {{{}, Bytes(40)},
                                               {{}, Bytes(10)}};
  EXPECT_EQ(PredictStep(ranks, buckets, costs).step, At(103 + 2));
  // A long sum delays the next.
  const std::vector<GradientBucket> long_first = {{{}, Bytes(200)},
                                                  {{}, Bytes(10)}};
  EXPECT_EQ(PredictStep(ranks, long_first, costs).step, At(143 + 8 + 2));
  // Passes hide what ends before them.
  ranks[0].end = At(200);
  EXPECT_EQ(PredictStep(ranks, buckets, costs).step, At(200 + 1));
}

TEST(RankPassesTest, SurvivesTheWay) {
  const RankPasses passes = {At(5), {At(1), At(2)}, {At(3)},
                             At(9), At(7),          true};
  const RankPasses back = DecodeRankPasses(Encode(passes));
  EXPECT_EQ(back.loading, passes.loading);
  EXPECT_EQ(back.meetings, passes.meetings);
  EXPECT_EQ(back.buckets, passes.buckets);
  EXPECT_EQ(back.end, passes.end);
  EXPECT_EQ(back.updates, passes.updates);
  EXPECT_TRUE(back.gradients_on_host);
}

// forward -> loss -> backward in a network of one normalised convolution.
TEST(PassesOfTest, FindsMeetingsBucketsAndUpdatesOfAPlan) {
  TrainingGraph graph;
  graph.device.h2d_rate = 1000;  // bytes a microsecond
  graph.blocks = {{"input", BlockKind::kInput, {}, Bytes(500)},
                  {"conv.dW", BlockKind::kWeightGradient, Bytes(8), {}},
                  {"bn.dW", BlockKind::kWeightGradient, Bytes(8), {}}};
  const auto add = [&](const char* name, TaskKind kind,
                       std::vector<std::size_t> writes) {
    Task task;
    task.name = name;
    task.kind = kind;
    task.writes = std::move(writes);
    graph.tasks.push_back(std::move(task));
  };
  add("bn.forward", TaskKind::kForward, {});
  add("bn.backward", TaskKind::kBackward, {2});
  add("conv.backward_filter", TaskKind::kBackwardFilter, {1});
  add("conv.update", TaskKind::kUpdate, {});
  std::vector<TaskOperation> operations(4);
  operations[0].what = operations[1].what = TaskOperator::kNormalise;
  operations[3].what = TaskOperator::kUpdate;
  MemoryPlan plan;
  plan.resident = {{0, {}}};
  MemoryRound& round = plan.rounds.emplace_back();
  round.batch = BatchSize(4);
  const auto run = [&](std::size_t task, std::int64_t start,
                       std::int64_t duration) {
    MemoryEvent event;
    event.op = EventOp::kCompute;
    event.task = task;
    event.start = At(start);
    event.duration = At(duration);
    round.events.push_back(event);
  };
  run(0, 0, 10);
  run(0, 10, 10);  // again, without an exchange
  run(1, 20, 20);
  run(2, 40, 30);
  run(3, 70, 5);
  round.time = plan.time = At(75);
  const std::vector<GradientBucket> buckets = {{{2}, Bytes(8)},
                                               {{1}, Bytes(8)}};
  const RankPasses passes = PassesOf(plan, graph, operations, buckets, true);
  EXPECT_EQ(passes.loading, At(2000));
  EXPECT_THAT(passes.meetings, ElementsAre(At(5), At(30)));
  EXPECT_THAT(passes.buckets, ElementsAre(At(40), At(70)));
  EXPECT_EQ(passes.end, At(70));
  EXPECT_EQ(passes.updates, At(5));
  EXPECT_FALSE(passes.gradients_on_host);
  EXPECT_THAT(PassesOf(plan, graph, operations, buckets, false).meetings,
              ElementsAre());

  // A gradient leaves once it is there, and comes back for an update that
  // waits.
  MemoryEvent away;
  away.op = EventOp::kOffload;
  away.block = 2;
  away.start = At(40);
  away.duration = At(25);
  round.events.insert(round.events.begin() + 3, away);
  round.time = plan.time = At(90);
  const RankPasses moved = PassesOf(plan, graph, operations, buckets, true);
  EXPECT_THAT(moved.buckets, ElementsAre(At(65), At(70)));
  EXPECT_EQ(moved.updates, At(20));
  EXPECT_TRUE(moved.gradients_on_host);
  away.op = EventOp::kPrefetch;
  round.events.insert(round.events.begin() + 4, away);
  EXPECT_FALSE(
      PassesOf(plan, graph, operations, buckets, true).gradients_on_host);
}

// Without other ranks each update follows its gradient.
TEST(PassesOfTest, CountsUpdatesBetweenPassesOnce) {
  TrainingGraph graph;
  for (const TaskKind kind : {TaskKind::kBackwardFilter, TaskKind::kUpdate,
                              TaskKind::kBackwardFilter, TaskKind::kUpdate}) {
    graph.tasks.emplace_back().kind = kind;
  }
  const std::vector<TaskOperation> operations(4);
  MemoryPlan plan;
  MemoryRound& round = plan.rounds.emplace_back();
  for (std::size_t task = 0; task < 4; ++task) {
    MemoryEvent& event = round.events.emplace_back();
    event.op = EventOp::kCompute;
    event.task = task;
    event.start = At(10 * std::int64_t(task));
    event.duration = At(10);
  }
  round.time = plan.time = At(40);
  const RankPasses rank = PassesOf(plan, graph, operations, {}, false);
  EXPECT_EQ(PredictStep(std::span(&rank, 1), {}, {}).step, At(40));
}

}  // namespace
}  // namespace ucudnn::train
