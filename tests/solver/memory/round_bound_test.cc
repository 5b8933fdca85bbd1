// The bounds of one round: by hand, and beside exhaustive optima.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "solver/memory/best/best.h"
#include "solver/memory/bounds.h"
#include "solver/memory/whole_blocks.h"
#include "tests/solver/memory/moves_optimum.h"
#include "tests/solver/memory/small_graphs.h"
#include "tests/support/trials.h"

namespace ucudnn {
namespace {

using namespace std::chrono_literals;

using test::GraphMaker;

// No link to speak of: what leaves does not return.
constexpr double kNoLink = 1e-3;

// Every task computes a block of its own, so a state is which are present.
class Optimum {
 public:
  Optimum(const TrainingGraph& graph, Bytes budget)
      : graph_(graph), budget_(budget) {}

  // Dijkstra's algorithm over what has run and what is present: the next task
  // of the program runs, or any earlier one again. Max if nothing fits.
  Nanoseconds Time() {
    Reach(Nanoseconds(0), 0, 0);
    while (!open_.empty()) {
      const auto [time, next, present] = *open_.begin();
      open_.erase(open_.begin());
      if (next == graph_.tasks.size()) return time;
      for (std::size_t task = 0; task <= next; ++task) {
        if (task < next && !graph_.tasks[task].recomputable) continue;
        Run(task, time, next + (task == next ? 1 : 0), present);
      }
    }
    return Nanoseconds::max();
  }

 private:
  using Blocks = std::uint32_t;

  static Blocks Of(const std::vector<std::size_t>& blocks) {
    Blocks set = 0;
    for (const std::size_t block : blocks) set |= Blocks{1} << block;
    return set;
  }

  Bytes SizeOf(Blocks set) const {
    Bytes sum;
    for (std::size_t block = 0; block < graph_.blocks.size(); ++block) {
      if ((set >> block & 1) != 0) sum += graph_.blocks[block].bytes;
    }
    return sum;
  }

  // Runs the task once for each choice of the blocks that it does not use and
  // that are still there.
  void Run(std::size_t task, Nanoseconds time, std::size_t next,
           Blocks present) {
    const Blocks reads = Of(graph_.tasks[task].reads);
    const Blocks writes = Of(graph_.tasks[task].writes);
    if ((present & reads) != reads) return;
    const Blocks others = present & ~reads & ~writes;
    for (Blocks kept = others;; kept = (kept - 1) & others) {
      const Blocks now = kept | reads | writes;
      for (const TaskCost& cost :
           CostsAt(graph_, graph_.tasks[task], graph_.batch)) {
        if (SizeOf(now) + cost.workspace > budget_) break;
        Reach(time + cost.time, next, now);
      }
      if (kept == 0) return;
    }
  }

  void Reach(Nanoseconds time, std::size_t next, Blocks present) {
    const auto [known, first] = least_.try_emplace({next, present}, time);
    if (!first && known->second <= time) return;
    known->second = time;
    open_.emplace(time, next, present);
  }

  const TrainingGraph& graph_;
  const Bytes budget_;
  std::map<std::pair<std::size_t, Blocks>, Nanoseconds> least_;
  std::set<std::tuple<Nanoseconds, std::size_t, Blocks>> open_;
};

Nanoseconds BoundOf(const TrainingGraph& graph, Bytes budget,
                    bool recomputes = true) {
  MemoryFreedom freedom;
  freedom.recomputes = recomputes;
  return LowerBoundTime(graph, budget, freedom);
}

// The backward pass needs Y, which does not fit beside Z. Only Y's own task
// reads X, so X must be computed again, too: keeping it is no better.
TEST(RoundBoundTest, ComputesAgainWhatThatReads) {
  GraphMaker maker(kNoLink);
  const std::size_t x = maker.Block(100);
  const std::size_t y = maker.Block(100);
  const std::size_t z = maker.Block(150);
  const std::size_t d = maker.Block(10, BlockKind::kGradient);
  const std::size_t e = maker.Block(10, BlockKind::kGradient);
  maker.Run(TaskKind::kForward, {}, {x}, 30us);
  maker.Run(TaskKind::kForward, {x}, {y}, 20us);
  maker.Run(TaskKind::kForward, {}, {z}, 10us);
  maker.Run(TaskKind::kLoss, {z}, {d}, 110us);
  maker.Run(TaskKind::kBackward, {y, d}, {e}, 40us);
  const TrainingGraph graph = maker.graph();
  // Half a block is missing: half of both tasks' time, in the bound.
  const Nanoseconds bound = BoundOf(graph, Bytes(210));
  EXPECT_LE(bound, 210us + 25us);
  EXPECT_GE(bound, 210us + 25us - 100ns);
  EXPECT_EQ(Optimum(graph, Bytes(210)).Time(), 210us + 50us);
}

// To compute Y again, X has to be there. It leaves while Y is computed the
// first time, and returns when E is. Y could not leave so soon.
TEST(RoundBoundTest, MovesWhatTasksThatRunAgainRead) {
  GraphMaker maker(1);
  const std::size_t x = maker.Block(160);
  const std::size_t y = maker.Block(200);
  const std::size_t w = maker.Block(1);
  const std::size_t z = maker.Block(380);
  const std::size_t d = maker.Block(10, BlockKind::kGradient);
  const std::size_t e = maker.Block(10, BlockKind::kGradient);
  const std::size_t f = maker.Block(10, BlockKind::kGradient);
  maker.Run(TaskKind::kForward, {}, {x}, 90us);
  maker.Run(TaskKind::kForward, {x}, {y}, 100us);
  maker.Run(TaskKind::kForward, {}, {w}, 60us);
  maker.Run(TaskKind::kForward, {}, {z}, 10us);
  maker.Run(TaskKind::kLoss, {z}, {d}, 10us);
  maker.Run(TaskKind::kBackward, {d}, {e}, 200us);
  maker.Run(TaskKind::kBackward, {y, e}, {f}, 40us);
  const TrainingGraph graph = maker.graph();
  const Bytes budget(400);
  EXPECT_EQ(test::MovesOptimum(graph, budget, true).Time(),
            Nanoseconds(510us + 100us).count());
  EXPECT_LE(BoundOf(graph, budget), 510us + 100us);
}

// Y is computed in 10 us, and changed after the task that it does not fit
// beside: only the first is done again.
TEST(RoundBoundTest, ComputesAgainWhatWasThere) {
  GraphMaker maker(kNoLink);
  const std::size_t y = maker.Block(100);
  const std::size_t z = maker.Block(100);
  const std::size_t d = maker.Block(10, BlockKind::kGradient);
  const std::size_t e = maker.Block(10, BlockKind::kGradient);
  maker.Run(TaskKind::kForward, {}, {y}, 10us);
  maker.Run(TaskKind::kForward, {}, {z}, 50us);
  maker.Run(TaskKind::kLoss, {z}, {d}, 50us);
  maker.Run(TaskKind::kForward, {y}, {y}, 70us);
  maker.Run(TaskKind::kBackward, {y, d}, {e}, 40us);
  const TrainingGraph graph = maker.graph();
  const Nanoseconds bound = BoundOf(graph, Bytes(150));
  EXPECT_EQ(test::MovesOptimum(graph, Bytes(150), true).Time(),
            Nanoseconds(220us + 10us).count());
  EXPECT_LE(bound, 220us + 10us);
  EXPECT_GE(bound, 220us + 10us - 100ns);
}

// X does not fit beside the task that makes the error E, and returns while the
// task after that runs. E, which is used until the end, cannot be what returns.
TEST(RoundBoundTest, NothingReturnsThatWasNeverAway) {
  GraphMaker maker(10);
  const std::size_t x = maker.Block(100);
  const std::size_t y = maker.Block(100);
  const std::size_t d = maker.Block(10, BlockKind::kGradient);
  const std::size_t e = maker.Block(100, BlockKind::kGradient);
  const std::size_t f = maker.Block(10, BlockKind::kGradient);
  const std::size_t g = maker.Block(10, BlockKind::kGradient);
  maker.Run(TaskKind::kForward, {}, {x}, 100us);
  maker.Run(TaskKind::kForward, {x}, {y}, 100us);
  maker.Run(TaskKind::kLoss, {y}, {d}, 100us);
  maker.Run(TaskKind::kBackward, {y, d}, {e}, 50us);
  maker.Run(TaskKind::kBackward, {x, e}, {f}, 30us);
  maker.Run(TaskKind::kBackward, {e, f}, {g}, 20us);
  // 90 bytes are too many. The whole of X returns, 10 bytes a microsecond.
  const Nanoseconds bound = LowerBoundTime(maker.graph(), Bytes(220), {});
  EXPECT_LE(bound, 400us + 10us);
  EXPECT_GE(bound, 400us + 10us - 100ns);
}

// The example of solver/memory/round_bound.h: X fits beside the loss, but not
// beside its workspace.
TEST(RoundBoundTest, WorkspaceNeedsRoomThatBlocksHave) {
  for (const bool recomputes : {false, true}) {
    GraphMaker maker(2);
    const std::size_t x = maker.Block(100);
    const std::size_t y = maker.Block(20);
    const std::size_t d = maker.Block(20, BlockKind::kGradient);
    const std::size_t e = maker.Block(20, BlockKind::kGradient);
    maker.Run(TaskKind::kForward, {}, {x}, 100us);
    maker.Run(TaskKind::kForward, {x}, {y}, 20us);
    maker.RunInWays(TaskKind::kLoss, {y}, {d},
                    {{0, 260us}, {70, 100us}, {80, 60us}});
    maker.Run(TaskKind::kBackward, {x, d}, {e}, 50us);
    const TrainingGraph graph = maker.graph();
    const Bytes budget(160);
    // The loss in 60 us. X leaves as a whole and 60 bytes return, or the other
    // way round: 10 us and 50. To compute X again takes 100.
    const Nanoseconds least = 230us + 30us + 30us;
    const Nanoseconds bound = BoundOf(graph, budget, recomputes);
    EXPECT_LE(bound, least);
    EXPECT_GE(bound, least - 100ns);
    // In fact X leaves and returns as a whole.
    EXPECT_EQ(test::MovesOptimum(graph, budget, recomputes).Time(),
              Nanoseconds(230us + 30us + 50us).count());
  }
}

// 145 of the 200 bytes of X and Y have to make room for the loss. From when it
// is written, X has 55 us to leave before the loss, and Y 20. Both have time to
// return after E.
TEST(RoundBoundTest, MovesOrComputesAgainWholeBlocks) {
  GraphMaker maker(2);
  const std::size_t x = maker.Block(100);
  const std::size_t y = maker.Block(100);
  const std::size_t z = maker.Block(5);
  const std::size_t d = maker.Block(150, BlockKind::kGradient);
  const std::size_t e = maker.Block(5, BlockKind::kGradient);
  const std::size_t f = maker.Block(5, BlockKind::kGradient);
  const std::size_t g = maker.Block(5, BlockKind::kGradient);
  const std::size_t h = maker.Block(5, BlockKind::kGradient);
  maker.Run(TaskKind::kForward, {}, {x}, 30us);
  maker.Run(TaskKind::kForward, {}, {y}, 35us);
  maker.Run(TaskKind::kForward, {}, {z}, 20us);
  maker.Run(TaskKind::kLoss, {z}, {d}, 10us);
  maker.Run(TaskKind::kBackward, {d}, {e}, 10us);
  maker.Run(TaskKind::kBackward, {e}, {f}, 190us);
  maker.Run(TaskKind::kBackward, {y, f}, {g}, 10us);
  maker.Run(TaskKind::kBackward, {x, g}, {h}, 10us);
  const TrainingGraph graph = maker.graph();
  const Bytes budget(210);
  const auto expect = [&](bool recomputes, Nanoseconds least) {
    const Nanoseconds bound = BoundOf(graph, budget, recomputes);
    EXPECT_LE(bound, least);
    EXPECT_GE(bound, least - 100ns);
    EXPECT_EQ(test::MovesOptimum(graph, budget, recomputes).Time(),
              least.count());
  };
  // Both leave, in 100 us. (145 bytes would wait for 17.5 us.)
  expect(false, 315us + 45us);
  // X leaves in 50 us, and Y is computed again in 35. For Y the loss would wait
  // for 30 us, and X takes 30. (110 bytes could leave in time, and 35 of X be
  // computed again in 10.5 us.)
  expect(true, 315us + 35us);
}

// Its table of the ways to run the loss, in microseconds.
TEST(RoundBoundTest, TakesTheBestWayOfTheTaskInParts) {
  RoomProblem loss;
  loss.out = {.rate = 2, .moved = 40};
  loss.in = {.rate = 2, .moved = 0};
  const auto round = [&](double time, double workspace) {
    loss.ways = {{.base = 120 + time + 50, .lack = workspace - 20}};
    return LeastDelayOfMoves(loss);
  };
  EXPECT_DOUBLE_EQ(round(260, 0), 430);
  EXPECT_DOUBLE_EQ(round(100, 70), 300);
  EXPECT_DOUBLE_EQ(round(60, 80), 270);
}

struct Chains {
  double link_rate = kNoLink;
  std::int64_t unit = 1;  // that sizes are multiples of, in bytes
  std::size_t least_layers = 4;
  std::size_t most_layers = 5;
  bool workspace = false;   // makes some tasks faster
  bool in_place = false;    // some tasks
  bool after_use = false;   // and some of these after the block was read
  bool all_needed = false;  // each block by the backward pass
};

// Random chains with skips: every second block or so is read by the backward
// pass.
TrainingGraph RandomGraph(std::mt19937& random, const Chains& chains) {
  const auto below = [&](std::size_t n) { return random() % n; };
  const auto units = [&](std::size_t most) {
    return chains.unit * static_cast<std::int64_t>(1 + below(most));
  };
  GraphMaker maker(chains.link_rate);
  const auto run = [&](TaskKind kind, std::vector<std::size_t> reads,
                       std::size_t writes, Nanoseconds time) {
    std::vector<GraphMaker::Way> ways = {{0, time}};
    while (chains.workspace && ways.size() < 3 && below(2) == 0) {
      const GraphMaker::Way& last = ways.back();
      const auto most = static_cast<std::size_t>(last.time / 1us);
      ways.push_back({last.workspace + units(15), 1us * (1 + below(most))});
    }
    maker.RunInWays(kind, std::move(reads), {writes}, ways);
  };
  std::vector<std::size_t> blocks;
  const std::size_t layers =
      chains.least_layers + below(chains.most_layers + 1 - chains.least_layers);
  for (std::size_t i = 0; i < layers; ++i) {
    std::vector<std::size_t> reads;
    if (i > 0) reads.push_back(blocks.back());
    if (i > 1 && below(3) == 0) reads.push_back(blocks[below(i - 1)]);
    blocks.push_back(maker.Block(units(20)));
    run(TaskKind::kForward, reads, blocks.back(),
        Nanoseconds(1000 * (1 + below(20))));
    if (chains.in_place && below(3) == 0) {
      run(TaskKind::kForward, {blocks.back()}, blocks.back(), 2us);
    }
    if (chains.after_use && i > 0 && below(3) == 0) {
      run(TaskKind::kForward, {blocks[i - 1]}, blocks[i - 1], 2us);
    }
  }
  const int slower = chains.workspace ? 4 : 1;
  std::size_t error = maker.Block(chains.unit, BlockKind::kGradient);
  run(TaskKind::kLoss, {blocks.back()}, error, 1us * slower);
  for (std::size_t i = layers; i-- > 0;) {
    std::vector<std::size_t> reads = {error};
    if (chains.all_needed || below(2) == 0) reads.push_back(blocks[i]);
    error = maker.Block(units(5), BlockKind::kGradient);
    run(TaskKind::kBackward, reads, error, 3us * slower);
  }
  return maker.graph();
}

TEST(RoundBoundTest, IsNeverAboveTheOptimum) {
  std::mt19937 random(1);
  for (const bool workspace : {false, true}) {
    int above_the_sum = 0;
    for (int i = 0; i < Trials(30); ++i) {
      const TrainingGraph graph = RandomGraph(random, {.workspace = workspace});
      Bytes most;
      for (const MemoryBlock& block : graph.blocks) most += block.bytes;
      for (const int eighths : {2, 3, 4, 5}) {
        const Bytes budget = most * eighths / 8;
        const Nanoseconds bound = BoundOf(graph, budget);
        EXPECT_LE(bound, Optimum(graph, budget).Time());
        if (bound > *IdealTime(graph)) ++above_the_sum;
      }
    }
    EXPECT_GT(above_the_sum, kSlowed ? 0 : 15);
  }
}

// Few large blocks, which move, or are computed again, as a whole.
TEST(RoundBoundTest, IsNeverAboveTheOptimumOfMoves) {
  std::mt19937 random(3);
  for (const bool recomputes : {false, true}) {
    int above_the_sum = 0;
    int within_a_hundredth = 0;
    for (int i = 0; i < Trials(40); ++i) {
      const TrainingGraph graph =
          RandomGraph(random, {.link_rate = i % 3 == 0 ? 4.0 : 2.0,
                               .least_layers = 3,
                               .most_layers = 3,
                               .workspace = i % 2 == 0,
                               .in_place = true,
                               .after_use = i % 3 == 1,
                               .all_needed = i % 4 < 2});
      Bytes most;
      for (const MemoryBlock& block : graph.blocks) most += block.bytes;
      for (const int sixteenths : {9, 10, 11}) {
        const Bytes budget = most * sixteenths / 16;
        const std::optional<std::int64_t> time =
            test::MovesOptimum(graph, budget, recomputes).Time();
        if (!time) continue;
        const Nanoseconds bound = BoundOf(graph, budget, recomputes);
        EXPECT_LE(bound.count(), *time) << i << " in " << budget.count();
        if (bound <= *IdealTime(graph)) continue;
        ++above_the_sum;
        if (*time * 100 < bound.count() * 101) ++within_a_hundredth;
      }
    }
    if (kSlowed) continue;  // too few
    EXPECT_GT(above_the_sum, 30);
    EXPECT_GT(within_a_hundredth, 15);
  }
}

TEST(RoundBoundTest, IsNeverAboveAPlanThatMovesBlocks) {
  constexpr std::int64_t kAligned = kPlanAlignment.count();
  std::mt19937 random(2);
  for (const bool workspace : {false, true}) {
    int above_the_sum = 0;
    int within_a_tenth = 0;
    for (int i = 0; i < Trials(80); ++i) {
      // A unit a microsecond, as tasks compute.
      const TrainingGraph graph =
          RandomGraph(random, {.link_rate = static_cast<double>(kAligned),
                               .unit = kAligned,
                               .workspace = workspace,
                               .in_place = workspace});
      const Bytes most = test::PeakOf(graph);
      const bool recomputes = i % 2 == 1;
      for (const int eighths : {5, 6, 7}) {
        const MemoryRequest request{.budget = most * eighths / 8,
                                    .recompute = recomputes};
        const Result<MemoryPlan> plan = PlanBest(graph, request);
        if (!plan) continue;
        const Nanoseconds bound = BoundOf(graph, request.budget, recomputes);
        EXPECT_LE(bound, plan->time);
        if (bound <= *IdealTime(graph)) continue;
        ++above_the_sum;
        if (plan->time < bound * 1.1) ++within_a_tenth;
      }
    }
    if (kSlowed) continue;  // too few
    EXPECT_GT(above_the_sum, 10);
    EXPECT_GT(within_a_tenth, 0);
  }
}

}  // namespace
}  // namespace ucudnn
