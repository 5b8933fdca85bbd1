#include "solver/memory/best/round_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <random>
#include <set>
#include <vector>

#include "tests/solver/memory/small_graphs.h"
#include "tests/support/trials.h"

namespace ucudnn {
namespace {

using namespace std::chrono_literals;

// One round of the residual network on a link of so many GB/s.
struct OneRound {
  explicit OneRound(double link_gb_per_s)
      : graph(test::OnSmallDevice(test::SmallResidual(8), link_gb_per_s)),
        rounds(ModelRounds(graph, graph.batch).value()),
        options(rounds.models.front()) {}

  FoundRound Search(std::int64_t capacity, std::int64_t programs,
                    std::int64_t effort = 200) {
    RoundLimits limits;
    limits.gaps.capacity = capacity;
    limits.gaps.effort = effort;
    limits.programs = programs;
    return SearchRound(rounds.models.front(), options, {}, limits);
  }

  static bool RunsTwice(const FoundRound& round) {
    const std::vector<std::size_t>& tasks = round.program->tasks;
    return std::set(tasks.begin(), tasks.end()).size() < tasks.size();
  }

  TrainingGraph graph;
  Rounds rounds;
  TaskOptions options;
};

TEST(SearchRoundTest, NeitherMovesNorComputesAgainWhatFits) {
  OneRound one(5);
  const FoundRound found = one.Search(test::PeakOf(one.graph).count(), 20);
  EXPECT_EQ(found.choice.missing, 0);
  EXPECT_EQ(found.choice.schedule.moved, 0);
  EXPECT_FALSE(OneRound::RunsTwice(found));
}

TEST(SearchRoundTest, NothingRunsTwiceUnlessProgramsAreAllowed) {
  OneRound one(0.01);
  const std::int64_t capacity = (test::PeakOf(one.graph) * 5 / 8).count();
  const FoundRound moved = one.Search(capacity, 0);
  ASSERT_EQ(moved.choice.missing, 0);
  EXPECT_FALSE(OneRound::RunsTwice(moved));
  EXPECT_GT(moved.choice.schedule.moved, 0);
}

TEST(SearchRoundTest, ComputesAgainWhereTheLinkIsSlow) {
  OneRound one(0.01);
  const std::int64_t capacity = (test::PeakOf(one.graph) * 5 / 8).count();
  const FoundRound moved = one.Search(capacity, 0);
  const FoundRound again = one.Search(capacity, 60);
  ASSERT_EQ(again.choice.missing, 0);
  EXPECT_TRUE(OneRound::RunsTwice(again));
  EXPECT_LT(again.choice.schedule.time, moved.choice.schedule.time);
  // What runs twice is what the choices say.
  const std::vector<bool>& recomputed = again.program->choices.recomputed;
  EXPECT_GT(std::count(recomputed.begin(), recomputed.end(), true), 0);
}

TEST(SearchRoundTest, MoreProgramsAreNeverSlower) {
  OneRound one(0.2);
  const std::int64_t capacity = (test::PeakOf(one.graph) / 2).count();
  std::int64_t before = one.Search(capacity, 0).choice.schedule.time;
  const FoundRound found = one.Search(capacity, 60);
  EXPECT_LE(found.choice.schedule.time, before);
}

// Where no block's choice alone would help any more, others may.
TEST(SearchRoundTest, GoesOnFromSlowerChoices) {
  int faster = 0;
  for (const double rate : {0.05, 0.1, 0.2, 0.5}) {
    OneRound one(rate);
    for (const int sixteenths : {7, 8, 9, 10, 11}) {
      const std::int64_t capacity =
          (test::PeakOf(one.graph) * sixteenths / 16).count();
      const auto few = one.Search(capacity, 30).choice;
      const auto many = one.Search(capacity, 600).choice;
      if (few.missing > 0) continue;
      EXPECT_LE(many.schedule.time, few.schedule.time);
      if (many.schedule.time < few.schedule.time) ++faster;
    }
  }
  EXPECT_GT(faster, 0);
}

// A chain whose first blocks are the largest, as in VGG-16.
TrainingGraph FewLargeBlocks(std::mt19937& random) {
  const auto below = [&](std::size_t n) { return random() % n; };
  const auto size = [](std::size_t units) {
    return kPlanAlignment.count() * static_cast<std::int64_t>(units);
  };
  test::GraphMaker maker(256);
  std::vector<std::size_t> blocks;
  for (std::size_t left = 6; left > 0; --left) {
    std::vector<std::size_t> reads;
    if (!blocks.empty()) reads.push_back(blocks.back());
    blocks.push_back(maker.Block(size(2 + below(14) * left / 2)));
    maker.Run(TaskKind::kForward, reads, {blocks.back()},
              1us * (2 + below(12)));
  }
  std::size_t error = maker.Block(size(1), BlockKind::kGradient);
  maker.Run(TaskKind::kLoss, {blocks.back()}, {error}, 20us);
  for (std::size_t i = blocks.size(); i-- > 0;) {
    const std::size_t next =
        maker.Block(size(1 + below(4)), BlockKind::kGradient);
    maker.Run(TaskKind::kBackward, {error, blocks[i]}, {next},
              1us * (4 + below(10)));
    error = next;
  }
  return maker.graph();
}

// The least time over all choices of what is computed again, each with its gaps
// improved; max if nothing fits.
std::int64_t LeastOfAllChoices(const RoundModel& round,
                               const TaskOptions& options,
                               const GapLimits& limits) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  const std::vector<bool> can = RecomputableBlocks(round);
  std::vector<std::size_t> blocks;
  for (std::size_t block = 0; block < can.size(); ++block) {
    if (can[block]) blocks.push_back(block);
  }
  for (std::uint32_t set = 0; set >> blocks.size() == 0; ++set) {
    ProgramChoices choices;
    choices.recomputed.assign(can.size(), false);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      choices.recomputed[blocks[i]] = (set >> i & 1) != 0;
    }
    const auto program = MakeProgram(round, choices);
    if (!program) continue;
    Scheduler scheduler(*program, options);
    GapChoice choice = CoverExcess(scheduler, limits.capacity);
    if (choice.missing > 0) continue;
    ImproveChoice(scheduler, limits, &choice);
    least = std::min(least, choice.schedule.time);
  }
  return least;
}

// Without trying all choices, one search in fourteen is slower.
TEST(SearchRoundTest, TriesAllChoicesOfFewLargeBlocks) {
  std::mt19937 random(5);
  int slower = 0;
  int all = 0;
  for (int i = 0; i < (kSlowed ? 3 : 15); ++i) {
    const TrainingGraph graph = FewLargeBlocks(random);
    const RoundModel round =
        ModelRound(graph, graph.batch, true, false, TaskRuns::kInParts).value();
    const TaskOptions options(round);
    for (const int sixteenths : {8, 9, 10, 11}) {
      RoundLimits limits;
      limits.gaps.capacity = (test::PeakOf(graph) * sixteenths / 16).count();
      limits.gaps.effort = 100;
      const std::int64_t least = LeastOfAllChoices(round, options, limits.gaps);
      limits.gaps.effort = 2000;
      limits.programs = 600;
      const GapChoice found = SearchRound(round, options, {}, limits).choice;
      if (found.missing > 0) continue;
      ++all;
      if (found.schedule.time > least) ++slower;
    }
  }
  EXPECT_GT(all, kSlowed ? 8 : 50);
  EXPECT_LE(slower, 1);
}

TEST(SearchRoundTest, SaysWhatIsMissing) {
  OneRound one(5);
  const FoundRound none = one.Search(50'000, 0);
  ASSERT_GT(none.choice.missing, 0);
  EXPECT_EQ(one.Search(50'000 + none.choice.missing, 0).choice.missing, 0);
}

TEST(SearchRoundTest, IsTheSameEachTime) {
  OneRound one(0.2);
  const std::int64_t capacity = (test::PeakOf(one.graph) / 2).count();
  const FoundRound a = one.Search(capacity, 20);
  const FoundRound b = one.Search(capacity, 20);
  EXPECT_EQ(a.program->choices, b.program->choices);
  EXPECT_EQ(a.choice.choices.moved, b.choice.choices.moved);
  EXPECT_EQ(a.choice.schedule.time, b.choice.schedule.time);
}

}  // namespace
}  // namespace ucudnn
