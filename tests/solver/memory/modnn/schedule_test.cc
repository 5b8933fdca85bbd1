// Algorithm 1 on graphs small enough to follow by hand.

#include "solver/memory/modnn/schedule.h"

#include <gtest/gtest.h>

#include <string>

#include "solver/check/memory_plan.h"
#include "solver/memory/modnn/modnn.h"
#include "tests/solver/memory/modnn/hand_graph.h"

namespace ucudnn {
namespace {

using std::chrono_literals::operator""us;
using test::HandGraph;

// One image in a pool of ten units, which the independent check accepts.
MemoryRound PlanInTenUnits(const TrainingGraph& graph) {
  MemoryRequest request;
  request.budget = Bytes(10 * test::kUnitBytes);
  request.sub_batch = BatchSize(1);
  const Result<MemoryPlan> plan = PlanModnn(graph, request);
  EXPECT_TRUE(plan) << plan.error().message;
  if (!plan) return {};
  const Status valid = ValidateMemoryPlan(*plan, graph);
  EXPECT_TRUE(valid) << valid.error().message;
  return plan->rounds.front();
}

int Count(const MemoryRound& round, EventOp op) {
  int count = 0;
  for (const MemoryEvent& event : round.events) count += event.op == op;
  return count;
}

// The first event of this kind on the block, or of this task.
MemoryEvent Find(const MemoryRound& round, EventOp op, std::size_t what) {
  for (const MemoryEvent& event : round.events) {
    const bool same =
        op == EventOp::kCompute ? event.task == what : event.block == what;
    if (event.op == op && same) return event;
  }
  ADD_FAILURE() << Name(op) << " of " << what << " is missing";
  return {};
}

TEST(ModnnScheduleTest, MovesNothingWhereMemorySuffices) {
  HandGraph g(1);
  const auto a = g.Activation("a", 3);
  const auto b = g.Activation("b", 3);
  g.Forward("t1", {}, {a});
  g.Forward("t2", {a}, {b});
  g.Forward("t3", {a, b}, {g.Activation("c", 4)});
  const MemoryRound round = PlanInTenUnits(g.graph());
  EXPECT_EQ(Count(round, EventOp::kOffload), 0);
  EXPECT_EQ(round.time, 3us);
}

// a and x are made, x is used once and leaves while others compute, and
// returns for the last task. Tasks take 10 us.
struct Detour {
  HandGraph g{1};
  std::size_t a = g.Activation("a", 1);
  std::size_t x = g.Activation("x", 4);
  std::size_t big = g.Activation("big", 6);
  std::size_t c = g.Activation("c", 1);

  Detour() {
    g.Forward("t1", {}, {a}, 10);
    g.Forward("t2", {a}, {x}, 10);
    g.Forward("t3", {x}, {g.Activation("d", 1)}, 10);
    g.Forward("t4", {a}, {big}, 10);
    g.Forward("t5", {big}, {c}, 10);
  }
};

TEST(ModnnScheduleTest, OffloadsAsSoonAsAnyoneCouldAndFetchesJustInTime) {
  Detour detour;
  HandGraph& g = detour.g;
  auto last = detour.c;
  for (int i = 6; i <= 9; ++i) {
    const auto next = g.Activation("c" + std::to_string(i), 1);
    g.Forward("t" + std::to_string(i), {last}, {next}, 10);
    last = next;
  }
  g.Forward("t10", {detour.x, last}, {g.Activation("y", 1)}, 10);
  const MemoryRound round = PlanInTenUnits(g.graph());
  // Figure 3 (b): x leaves once it was made, for room that t4 needs at 30 us.
  EXPECT_EQ(Find(round, EventOp::kOffload, detour.x).start, 20us);
  // (9): before t9 there is time for t9's 10 us, and x takes 4.
  EXPECT_EQ(Find(round, EventOp::kPrefetch, detour.x).start, 80us);
  EXPECT_EQ(round.time, 100us);
}

TEST(ModnnScheduleTest, FetchesEarlierWhatTakesLonger) {
  Detour detour;
  HandGraph& g = detour.g;
  auto last = detour.c;
  for (int i = 6; i <= 9; ++i) {
    const auto next = g.Activation("c" + std::to_string(i), 1);
    g.Forward("t" + std::to_string(i), {last}, {next}, 1);
    last = next;
  }
  g.Forward("t10", {detour.x, last}, {g.Activation("y", 1)}, 10);
  const MemoryRound round = PlanInTenUnits(g.graph());
  // 4 us are more than t7 to t9 take after t6, but not more than t6 to t9.
  EXPECT_EQ(Find(round, EventOp::kPrefetch, detour.x).start, 50us);
  EXPECT_EQ(round.time, 64us);
}

TEST(ModnnScheduleTest, FetchesNothingEarlyThatDefragmentationWouldFree) {
  Detour detour;
  HandGraph& g = detour.g;
  // t11 alone reads it, so no offloading scheme moves it before.
  const auto kept = g.Activation("kept", 4);
  auto last = g.Activation("c6", 1);
  g.Forward("t6", {detour.c}, {kept, last}, 1);
  for (int i = 7; i <= 9; ++i) {
    const auto next = g.Activation("c" + std::to_string(i), 1);
    g.Forward("t" + std::to_string(i), {last}, {next}, 1);
    last = next;
  }
  const auto y = g.Activation("y", 3);
  g.Forward("t10", {detour.x, last}, {y}, 10);
  g.Forward("t11", {kept, y}, {g.Activation("z", 1)}, 10);
  const MemoryRound round = PlanInTenUnits(g.graph());
  // x by (9) at 50 us, as above, but t10 needs 8 units beside kept's 4.
  EXPECT_GE(Find(round, EventOp::kPrefetch, detour.x).start, 54us);
  // x, and what t9 and t6 made and the defragmentation moved.
  EXPECT_EQ(Count(round, EventOp::kPrefetch), 3);
}

TEST(ModnnScheduleTest, DefragmentsWhereNoSchemeMakesRoom) {
  HandGraph g(1);
  const auto a = g.Activation("a", 3);
  const auto m = g.Activation("m", 3);
  const auto z = g.Activation("z", 6);
  g.Forward("t1", {}, {a});
  g.Forward("t2", {a}, {m});
  g.Forward("t3", {m}, {z});
  const MemoryRound round = PlanInTenUnits(g.graph());
  // m lies between two free ranges, and t3 needs it.
  EXPECT_EQ(Find(round, EventOp::kAlloc, z).range.offset,
            Bytes(3 * test::kUnitBytes));
  EXPECT_EQ(Count(round, EventOp::kOffload), 1);
  EXPECT_EQ(Find(round, EventOp::kOffload, m).start, 2us);
  EXPECT_EQ(Find(round, EventOp::kPrefetch, m).start, 5us);
  EXPECT_EQ(round.time, 9us);
}

TEST(ModnnScheduleTest, CopiesABlockToTheHostOnce) {
  Detour detour;
  HandGraph& g = detour.g;
  const auto y = g.Activation("y", 2);
  g.Forward("t6", {detour.x, detour.c}, {y}, 10);
  // Out again, for five units, and back.
  g.Forward("t7", {y}, {g.Activation("other", 5)}, 10);
  g.Forward("t8", {detour.x, y}, {g.Activation("z", 1)}, 10);
  const MemoryRound round = PlanInTenUnits(g.graph());
  EXPECT_EQ(Count(round, EventOp::kOffload), 1);
  EXPECT_EQ(Count(round, EventOp::kPrefetch), 2);
}

// The algorithm of a convolution of 10 us, or of `fast` with a workspace for
// which x must leave: x is made at 3 us and takes 4, at 4 us.
std::string ChosenDuringOffload(std::int64_t fast) {
  HandGraph g(1);
  const auto h = g.Activation("h", 1);
  const auto a = g.Activation("a", 1);
  const auto x = g.Activation("x", 4);
  const auto y = g.Activation("y", 1);
  g.Forward("t1", {}, {h});
  g.Forward("t2", {h}, {a});
  g.Forward("t3", {a}, {x});
  g.Forward("t4", {x}, {g.Activation("d", 1)});
  const auto conv = g.Forward("conv", {a}, {y});
  g.Measured(1, "GEMM", 0, 10);
  g.Measured(1, "WINOGRAD", 6, fast);
  g.Forward("t6", {x, y}, {g.Activation("z", 1)});
  const MemoryRound round = PlanInTenUnits(g.graph());
  return Find(round, EventOp::kCompute, conv).parts.front().algorithm;
}

TEST(ModnnScheduleTest, WeighsAFastAlgorithmAgainstItsOffloads) {
  EXPECT_EQ(ChosenDuringOffload(6), "WINOGRAD");
  EXPECT_EQ(ChosenDuringOffload(7), "GEMM");  // ties: less workspace
  EXPECT_EQ(ChosenDuringOffload(9), "GEMM");
}

// The same where the workspace lies where x, of 4 us, would return to.
std::string ChosenDuringPrefetch(std::int64_t fast) {
  Detour detour;
  HandGraph& g = detour.g;
  const auto y = g.Activation("y", 1);
  const auto conv = g.Forward("conv", {detour.c}, {y});
  g.Measured(1, "GEMM", 0, 10);
  g.Measured(1, "WINOGRAD", 5, fast);
  g.Forward("t7", {detour.x, y}, {g.Activation("z", 1)});
  const MemoryRound round = PlanInTenUnits(g.graph());
  return Find(round, EventOp::kCompute, conv).parts.front().algorithm;
}

TEST(ModnnScheduleTest, WeighsAFastAlgorithmAgainstDelayedPrefetches) {
  EXPECT_EQ(ChosenDuringPrefetch(5), "WINOGRAD");
  EXPECT_EQ(ChosenDuringPrefetch(7), "GEMM");
}

TEST(ModnnScheduleTest, NamesTheTaskThatDoesNotFit) {
  HandGraph g(1);
  g.Forward("t1", {}, {g.Activation("a", 11)});
  MemoryRequest request;
  request.budget = Bytes(10 * test::kUnitBytes);
  const Result<MemoryPlan> plan = PlanModnn(g.graph(), request);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, Code::kFailedPrecondition);
  EXPECT_NE(plan.error().message.find("t1"), std::string::npos);
}

}  // namespace
}  // namespace ucudnn
