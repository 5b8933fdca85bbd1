#include "solver/memory/lanes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "solver/check/memory_plan.h"
#include "solver/memory/placement.h"
#include "solver/memory/summary.h"
#include "tests/solver/memory/small_graphs.h"

namespace ucudnn {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(TaskOrderTest, KnowsWhatFollowsFromOtherTasks) {
  TaskOrder order;
  // 0 before 1 and 2, 1 before 3; 3 also names 0.
  const std::vector<std::vector<std::size_t>> named = {{}, {0}, {0}, {0, 1}};
  for (const auto& before : named) {
    order.Add([&](std::size_t other) {
      return std::ranges::count(before, other) > 0;
    });
  }
  EXPECT_TRUE(order.Before(0, 3));
  EXPECT_FALSE(order.Before(1, 2));
  EXPECT_FALSE(order.Before(2, 3));
  EXPECT_FALSE(order.Before(3, 0));
  EXPECT_FALSE(order.Before(1, 1));
  EXPECT_THAT(order.After(0), IsEmpty());
  EXPECT_THAT(order.After(3), ElementsAre(1));
}

// A stem, branches of one, two and one tasks, and what joins them.
MemoryRound Fork(TrainingGraph* graph) {
  test::GraphMaker maker(1e3);
  std::vector<std::size_t> b;
  for (int i = 0; i < 6; ++i) b.push_back(maker.Block(100));
  const auto run = [&](std::vector<std::size_t> reads, std::size_t writes,
                       int time) {
    maker.Run(TaskKind::kForward, std::move(reads), {writes},
              Nanoseconds(time));
  };
  run({}, b[0], 1);
  run({b[0]}, b[1], 9);
  run({b[0]}, b[2], 1);
  run({b[2]}, b[3], 1);
  run({b[0]}, b[4], 1);
  run({b[1], b[3], b[4]}, b[5], 1);
  *graph = maker.graph();
  MemoryRound round;
  for (std::size_t t = 0; t < graph->tasks.size(); ++t) {
    MemoryEvent event;
    event.op = EventOp::kCompute;
    event.task = t;
    event.duration = *graph->tasks[t].work.fixed;
    round.events.push_back(event);
    round.events.emplace_back();  // something that runs no task
  }
  return round;
}

TEST(LanesTest, GiveBranchesTheLaneThatIsIdleFirst) {
  TrainingGraph graph;
  const MemoryRound round = Fork(&graph);
  const auto lanes = [&](int streams) {
    const std::vector<std::size_t> all = LanesOf(graph, round, streams);
    std::vector<std::size_t> of_tasks;
    for (std::size_t i = 0; i < all.size(); i += 2) of_tasks.push_back(all[i]);
    return of_tasks;
  };
  EXPECT_THAT(lanes(1), ElementsAre(0, 0, 0, 0, 0, 0));
  // The long branch keeps the stem's lane; the others share the second one, and
  // what joins them follows the last of these.
  EXPECT_THAT(lanes(2), ElementsAre(0, 0, 1, 1, 1, 1));
  EXPECT_THAT(lanes(3), ElementsAre(0, 0, 1, 1, 2, 2));
}

// What a task touches, by address: blocks and its workspace.
struct Touched {
  std::vector<MemoryRange> reads;
  std::vector<MemoryRange> writes;
};
bool Meet(const std::vector<MemoryRange>& a,
          const std::vector<MemoryRange>& b) {
  for (const MemoryRange& x : a) {
    for (const MemoryRange& y : b) {
      if (x.offset < y.offset + y.bytes && y.offset < x.offset + x.bytes) {
        return true;
      }
    }
  }
  return false;
}

// Pairs of tasks of the plan's round that blocks and lanes allow to run at
// once, but addresses do not. An order of its own: by all paths.
int Hindered(const TrainingGraph& graph, const MemoryPlan& plan, int streams) {
  const MemoryRound& round = plan.rounds.front();
  const std::vector<std::size_t> lanes = LanesOf(graph, round, streams);
  std::map<std::size_t, MemoryRange> at;
  for (const ResidentBlock& block : plan.resident)
    at[block.block] = block.range;
  std::vector<std::size_t> events;
  std::vector<Touched> touched;
  for (std::size_t i = 0; i < round.events.size(); ++i) {
    const MemoryEvent& event = round.events[i];
    if (event.op == EventOp::kAlloc) at[event.block] = event.range;
    if (event.op != EventOp::kCompute) continue;
    Touched& mine = touched.emplace_back();
    for (const std::size_t b : graph.tasks[event.task].reads) {
      mine.reads.push_back(at.at(b));
    }
    for (const std::size_t b : graph.tasks[event.task].writes) {
      mine.writes.push_back(at.at(b));
    }
    if (event.range.bytes > Bytes()) mine.writes.push_back(event.range);
    events.push_back(i);
  }
  const std::size_t n = events.size();
  const auto task = [&](std::size_t place) -> const Task& {
    return graph.tasks[round.events[events[place]].task];
  };
  std::vector<std::vector<bool>> before(n, std::vector<bool>(n));
  int hindered = 0;
  for (std::size_t j = 0; j < n; ++j) {
    for (std::size_t i = 0; i < j; ++i) {
      if (lanes[events[i]] == lanes[events[j]] || Conflict(task(i), task(j))) {
        before[i][j] = true;
        for (std::size_t k = 0; k < i; ++k) {
          if (before[k][i]) before[k][j] = true;
        }
      }
    }
    for (std::size_t i = 0; i < j; ++i) {
      if (before[i][j]) continue;
      const Touched& a = touched[i];
      const Touched& b = touched[j];
      if (Meet(a.writes, b.writes) || Meet(a.writes, b.reads) ||
          Meet(a.reads, b.writes)) {
        ++hindered;
      }
    }
  }
  return hindered;
}

MemoryPlan PlanFor(const TrainingGraph& graph, Bytes budget, int streams,
                   const char* policy = "baseline") {
  MemoryRequest request;
  request.budget = budget;
  request.streams = streams;
  auto plan = PlanMemory(graph, request, **FindMemoryPolicy(policy));
  EXPECT_TRUE(plan) << plan.error().message;
  return *std::move(plan);
}

TEST(LanesTest, KeepAddressesApartOfTasksThatMayRunAtOnce) {
  int hindered = 0;
  for (const TrainingGraph& graph : test::SmallGraphs(8)) {
    SCOPED_TRACE(graph.network);
    const MemoryPlan one = PlanFor(graph, 1_GiB, 1);
    for (int streams = 2; streams <= 4; ++streams) {
      const MemoryPlan plan = PlanFor(graph, 1_GiB, streams);
      EXPECT_EQ(Hindered(graph, plan, streams), 0) << streams;
      const Status valid = ValidateMemoryPlan(plan, graph);
      EXPECT_TRUE(valid) << valid.error().message;
      EXPECT_EQ(plan.time, one.time);
      EXPECT_EQ(plan.load, one.load);
      hindered += Hindered(graph, one, streams);
    }
  }
  EXPECT_GT(hindered, 100);
}

TEST(LanesTest, ServeAnyPolicyThatCopiesNothing) {
  const TrainingGraph graph = test::OnSmallDevice(test::SmallInception(8));
  const MemoryPlan one = PlanFor(graph, 1_GiB, 1, "vdnn-dyn");
  const MemoryPlan plan = PlanFor(graph, 1_GiB, 2, "vdnn-dyn");
  EXPECT_GT(Hindered(graph, one, 2), 0);
  EXPECT_EQ(Hindered(graph, plan, 2), 0);
  EXPECT_EQ(plan.time, one.time);
}

TEST(LanesTest, KeepToTheBudget) {
  const TrainingGraph graph = test::OnSmallDevice(test::SmallInception(8));
  const MemoryPlan one = PlanFor(graph, 1_GiB, 1);
  const int most = Hindered(graph, one, 4);
  const Bytes whole = PlanFor(graph, 1_GiB, 4).peak;
  ASSERT_GT(whole, one.peak);
  // With less than all, tasks that are close to each other may run at once.
  MemoryPlan some = one;
  some.budget = one.peak + (whole - one.peak) / 2;
  PlaceForStreams(graph, 4, {}, &some);
  EXPECT_GT(Hindered(graph, some, 4), 0);
  EXPECT_LT(Hindered(graph, some, 4), most);
  Summarise(graph, &some);
  EXPECT_LE(some.peak, some.budget);
  const Status valid = ValidateMemoryPlan(some, graph);
  EXPECT_TRUE(valid) << valid.error().message;
  // With nothing to spare the plan stays as it is.
  MemoryPlan tight = one;
  tight.budget = one.load;
  const MemoryPlan before = tight;
  PlaceForStreams(graph, 4, {}, &tight);
  EXPECT_EQ(tight, before);
}

TEST(LanesTest, LeaveAPlanAsItIsThatCopies) {
  const TrainingGraph graph = test::OnSmallDevice(test::SmallResidual(8));
  const MemoryPlan one = PlanFor(graph, 1_GiB, 1, "vdnn-all-m");
  ASSERT_GT(one.offloaded, Bytes());
  EXPECT_EQ(PlanFor(graph, 1_GiB, 2, "vdnn-all-m"), one);
}

}  // namespace
}  // namespace ucudnn
