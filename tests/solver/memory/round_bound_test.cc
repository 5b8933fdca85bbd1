// The bounds of one round: by hand, and with recomputation beside the
// exhaustive optimum.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "solver/memory/best/best.h"
#include "solver/memory/bounds.h"
#include "tests/solver/memory/small_graphs.h"

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
      if (SizeOf(now) <= budget_) {
        Reach(time + *graph_.tasks[task].work.fixed, next, now);
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

Nanoseconds BoundOf(const TrainingGraph& graph, Bytes budget) {
  PlanFreedom freedom;
  freedom.recomputes = true;
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
  // 90 bytes too many, at 10 a microsecond.
  const Nanoseconds bound = LowerBoundTime(maker.graph(), Bytes(220), {});
  EXPECT_LE(bound, 400us + 9us);
  EXPECT_GE(bound, 400us + 9us - 100ns);
}

// Random chains with skips: every second block or so is read by the backward
// pass. Sizes are multiples of `unit` bytes.
TrainingGraph RandomGraph(std::mt19937& random, double link_rate,
                          std::int64_t unit) {
  const auto below = [&](std::size_t n) { return random() % n; };
  GraphMaker maker(link_rate);
  std::vector<std::size_t> blocks;
  const std::size_t layers = 4 + below(2);
  for (std::size_t i = 0; i < layers; ++i) {
    std::vector<std::size_t> reads;
    if (i > 0) reads.push_back(blocks.back());
    if (i > 1 && below(3) == 0) reads.push_back(blocks[below(i - 1)]);
    blocks.push_back(
        maker.Block(unit * static_cast<std::int64_t>(1 + below(20))));
    maker.Run(TaskKind::kForward, reads, {blocks.back()},
              Nanoseconds(1000 * (1 + below(20))));
  }
  std::size_t error = maker.Block(unit, BlockKind::kGradient);
  maker.Run(TaskKind::kLoss, {blocks.back()}, {error}, 1us);
  for (std::size_t i = layers; i-- > 0;) {
    std::vector<std::size_t> reads = {error};
    if (below(2) == 0) reads.push_back(blocks[i]);
    error = maker.Block(unit * static_cast<std::int64_t>(1 + below(5)),
                        BlockKind::kGradient);
    maker.Run(TaskKind::kBackward, reads, {error}, 3us);
  }
  return maker.graph();
}

TEST(RoundBoundTest, IsNeverAboveTheOptimum) {
  std::mt19937 random(1);
  int above_the_sum = 0;
  for (int i = 0; i < 60; ++i) {
    const TrainingGraph graph = RandomGraph(random, kNoLink, 1);
    Bytes most;
    Nanoseconds sum{0};
    for (const MemoryBlock& block : graph.blocks) most += block.bytes;
    for (const Task& task : graph.tasks) sum += *task.work.fixed;
    for (const int eighths : {2, 3, 4, 5}) {
      const Bytes budget = most * eighths / 8;
      const Nanoseconds bound = BoundOf(graph, budget);
      EXPECT_LE(bound, Optimum(graph, budget).Time());
      if (bound > sum) ++above_the_sum;
    }
  }
  EXPECT_GT(above_the_sum, 30);
}

TEST(RoundBoundTest, IsNeverAboveAPlanThatMovesBlocks) {
  constexpr std::int64_t kAligned = kPlanAlignment.count();
  std::mt19937 random(2);
  int above_the_sum = 0;
  int within_a_tenth = 0;
  for (int i = 0; i < 100; ++i) {
    // A unit a microsecond, as tasks compute.
    const TrainingGraph graph =
        RandomGraph(random, static_cast<double>(kAligned), kAligned);
    const Bytes most = test::PeakOf(graph);
    for (const int eighths : {5, 6, 7}) {
      const MemoryRequest request{.budget = most * eighths / 8};
      const Result<MemoryPlan> plan = PlanBest(graph, request);
      if (!plan) continue;
      const Nanoseconds bound = LowerBoundTime(graph, request.budget, {});
      EXPECT_LE(bound, plan->time);
      if (bound <= *IdealTime(graph)) continue;
      ++above_the_sum;
      if (plan->time < bound * 1.1) ++within_a_tenth;
    }
  }
  EXPECT_GT(above_the_sum, 30);
  EXPECT_GT(within_a_tenth, 10);
}

}  // namespace
}  // namespace ucudnn
