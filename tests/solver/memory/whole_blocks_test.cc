// The delay of one task that whole blocks make room for: by hand, and beside
// all choices of few blocks.

#include "solver/memory/whole_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "tests/support/trials.h"

namespace ucudnn {
namespace {

using Block = RoomProblem::Block;

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr std::size_t kAllNodes = 1'000'000;

// On one everything moves in time, if it has that, and on the other nothing.
constexpr RoomProblem::Link kFastLink = {1, 1e9};
constexpr RoomProblem::Link kStillLink = {1e-6, 0};

double InParts(const RoomProblem& problem) {
  std::vector<Block> again = problem.blocks;
  std::sort(again.begin(), again.end(), [](const Block& a, const Block& b) {
    return a.per_byte < b.per_byte;
  });
  const auto skip = [&](std::size_t i) {
    return again[i].per_byte == kInfinite;
  };
  return LeastDelayInParts(problem, again, skip, -kInfinite);
}

double Whole(const RoomProblem& problem) {
  return LeastDelayOfWholeBlocks(problem, kAllNodes, -kInfinite);
}

TEST(WholeBlocksTest, AreComputedAgainAsAWhole) {
  RoomProblem problem;
  problem.ways = {{.base = 0, .lack = 80}};
  problem.blocks = {{.bytes = 100, .per_byte = 0.4},
                    {.bytes = 60, .per_byte = 0.5}};
  problem.out = problem.in = kStillLink;
  EXPECT_DOUBLE_EQ(InParts(problem), 80 * 0.4);
  EXPECT_DOUBLE_EQ(Whole(problem), 100 * 0.4);
  // 60 bytes are enough.
  problem.ways = {{.base = 0, .lack = 55}};
  EXPECT_DOUBLE_EQ(InParts(problem), 55 * 0.4);
  EXPECT_DOUBLE_EQ(Whole(problem), 60 * 0.5);
  problem.blocks[0].divisible = true;
  EXPECT_DOUBLE_EQ(Whole(problem), 55 * 0.4);
}

// The example of solver/memory/whole_blocks.h.
TEST(WholeBlocksTest, MoveOrAreComputedAgain) {
  RoomProblem problem;
  problem.ways = {{.base = 0, .lack = 150}};
  problem.blocks = {{.bytes = 100, .out_time = 40, .per_byte = 0.5},
                    {.bytes = 100, .out_time = 80, .per_byte = 0.9}};
  for (Block& block : problem.blocks) block.in_time = 1e9;
  problem.out = {.rate = 1, .moved = 80};
  problem.in = kFastLink;
  // 80 bytes move, and 70 of A are computed again.
  EXPECT_DOUBLE_EQ(InParts(problem), 35);
  // B leaves, which the task waits 20 ns for, and A is computed again.
  EXPECT_DOUBLE_EQ(Whole(problem), 70);
  // Another way to run the task takes 30 ns more, but only B has to leave.
  problem.ways.insert(problem.ways.begin(), {.base = 30, .lack = 90});
  EXPECT_DOUBLE_EQ(Whole(problem), 50);
  // The same backwards, but what is computed again hides what returns.
  problem.ways = {{.base = 0, .lack = 150}};
  for (Block& block : problem.blocks) std::swap(block.in_time, block.out_time);
  std::swap(problem.in, problem.out);
  EXPECT_DOUBLE_EQ(Whole(problem), 50);
}

// A leaves early, and returns while the task runs and B leaves.
TEST(WholeBlocksTest, MayBeOthersAfterTheTask) {
  RoomProblem problem;
  problem.ways = {{.base = 0, .lack = 100}};
  problem.blocks = {{.bytes = 100, .out_time = 200},
                    {.bytes = 100, .in_time = 200}};
  problem.out = problem.in = {.rate = 1, .moved = 200};
  EXPECT_DOUBLE_EQ(Whole(problem), 0);
}

TEST(WholeBlocksTest, NeedNotLeaveIfTheHostHasThem) {
  RoomProblem problem;
  problem.ways = {{.base = 0, .lack = 100}};
  problem.blocks = {{.bytes = 70, .in_time = 70, .host_has = true},
                    {.bytes = 50, .in_time = 10}};
  problem.dropped = 70;
  problem.out = {.rate = 1, .moved = 0};
  problem.in = {.rate = 1, .moved = 70};
  // 30 bytes leave, and 100 return in 70 ns.
  EXPECT_DOUBLE_EQ(LeastDelayOfMoves(problem), 60);
  // All 50 leave, or 120 return.
  EXPECT_DOUBLE_EQ(Whole(problem), 80);
}

TEST(WholeBlocksTest, CannotMakeMoreRoomThanTheyHave) {
  RoomProblem problem;
  problem.ways = {{.base = 5, .lack = 101}};
  problem.blocks = {{.bytes = 100, .per_byte = 1}};
  problem.out = problem.in = kFastLink;
  EXPECT_EQ(Whole(problem), kInfinite);
  problem.ways = {{.base = 5, .lack = -1}};
  EXPECT_EQ(Whole(problem), 5);
}

// Of a link that carries these blocks, by falling time.
struct Carried {
  std::vector<std::pair<double, double>> blocks;  // time, bytes

  void Add(double time, double bytes) {
    blocks.emplace_back(time, bytes);
    std::sort(blocks.rbegin(), blocks.rend());
  }
  double Bytes() const {
    double sum = 0;
    for (const auto& [time, bytes] : blocks) sum += bytes;
    return sum;
  }
  // What it has moved when there is no time left.
  double Moved(double rate) const {
    double moved = 0;
    double waiting = 0;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const double next = i + 1 < blocks.size() ? blocks[i + 1].first : 0;
      waiting += blocks[i].second;
      const double now = std::min(waiting, (blocks[i].first - next) * rate);
      moved += now;
      waiting -= now;
    }
    return moved;
  }
  double Wait(double rate) const { return (Bytes() - Moved(rate)) / rate; }
};

// All choices: each block stays, is computed again, or moves out, in, or both.
double OptimumOf(const RoomProblem& problem) {
  const std::vector<Block>& blocks = problem.blocks;
  std::size_t choices = 1;
  for (std::size_t i = 0; i < blocks.size(); ++i) choices *= 5;
  double least = kInfinite;
  for (std::size_t choice = 0; choice < choices; ++choice) {
    Carried out;
    Carried in;
    double out_bytes = 0;
    double again = 0;
    double time = 0;
    std::size_t rest = choice;
    bool possible = true;
    for (const Block& block : blocks) {
      const std::size_t kind = rest % 5;
      rest /= 5;
      if (kind == 4) {
        possible = possible && block.per_byte < kInfinite;
        again += block.bytes;
        time += block.bytes * block.per_byte;
      }
      if (kind == 1 || kind == 3) {
        out_bytes += block.bytes;
        if (!block.host_has) out.Add(block.out_time, block.bytes);
      }
      if (kind == 2 || kind == 3) in.Add(block.in_time, block.bytes);
    }
    if (!possible) continue;
    for (const RoomProblem::Way& way : problem.ways) {
      if (again + std::min(out_bytes, in.Bytes()) < way.lack) continue;
      least = std::min(least, way.base + out.Wait(problem.out.rate) +
                                  std::max(time, in.Wait(problem.in.rate)));
    }
  }
  return least;
}

RoomProblem RandomRoomProblem(std::mt19937& random) {
  const auto below = [&](std::size_t n) {
    return static_cast<double>(random() % n);
  };
  RoomProblem problem;
  Carried out;
  Carried in;
  double all = 0;
  for (int i = 0; i < 5; ++i) {
    Block block{.bytes = 1 + below(20)};
    block.out_time = below(30);
    block.in_time = below(30);
    block.host_has = below(6) == 0;
    if (!block.host_has && below(4) > 0) block.per_byte = (1 + below(8)) / 4;
    if (block.host_has) {
      problem.dropped += block.bytes;
    } else {
      out.Add(block.out_time, block.bytes);
    }
    in.Add(block.in_time, block.bytes);
    all += block.bytes;
    problem.blocks.push_back(block);
  }
  const double most = all * (1 + below(8)) / 8;
  problem.ways = {{below(20), most / 2}, {0, most}};
  problem.out.rate = 0.5 + below(3);
  problem.in.rate = 0.5 + below(3);
  problem.out.moved = out.Moved(problem.out.rate);
  problem.in.moved = in.Moved(problem.in.rate);
  return problem;
}

TEST(WholeBlocksTest, AreBetweenPartsAndTheOptimum) {
  std::mt19937 random(1);
  int above_parts = 0;
  int equal = 0;
  for (int i = 0; i < Trials(300); ++i) {
    const RoomProblem problem = RandomRoomProblem(random);
    const double optimum = OptimumOf(problem);
    const double parts = InParts(problem);
    EXPECT_LE(parts, LeastDelayOfMoves(problem));
    double before = parts;
    for (const std::size_t nodes :
         {std::size_t{0}, std::size_t{3}, std::size_t{10}, kAllNodes}) {
      const double bound = LeastDelayOfWholeBlocks(problem, nodes, -kInfinite);
      EXPECT_GE(bound, before - 1e-9) << i;
      EXPECT_LE(bound, optimum + 1e-9) << i;
      before = bound;
    }
    above_parts += before > parts + 0.5 ? 1 : 0;
    equal += before > optimum - 1e-9 ? 1 : 0;
    EXPECT_LE(LeastDelayOfWholeBlocks(problem, kAllNodes, optimum),
              optimum + 1e-9);
  }
  EXPECT_GT(above_parts, Trials(150));
  EXPECT_GT(equal, Trials(100));
}

TEST(WholeBlocksTest, AreOptimalIfOneLinkIsFast) {
  std::mt19937 random(2);
  for (int i = 0; i < Trials(200); ++i) {
    RoomProblem problem = RandomRoomProblem(random);
    for (Block& block : problem.blocks) {
      (i % 2 == 0 ? block.in_time : block.out_time) = 1e9;
    }
    (i % 2 == 0 ? problem.in : problem.out) = kFastLink;
    EXPECT_NEAR(Whole(problem), OptimumOf(problem), 1e-9) << i;
  }
}

}  // namespace
}  // namespace ucudnn
