#include "solver/memory/best/round_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/solver/memory/small_graphs.h"

namespace ucudnn {
namespace {

// One round of the residual network on a link of so many GB/s.
struct OneRound {
  explicit OneRound(double link_gb_per_s)
      : graph(test::OnSmallDevice(test::SmallResidual(8), link_gb_per_s)),
        rounds(ModelRounds(graph, graph.batch).value()),
        options(rounds.models.front()) {}

  PlannedRound Search(std::int64_t capacity, std::int64_t programs,
                      std::int64_t effort = 200) {
    RoundLimits limits;
    limits.gaps.capacity = capacity;
    limits.gaps.effort = effort;
    limits.programs = programs;
    return SearchRound(rounds.models.front(), options, {}, limits);
  }

  static bool RunsTwice(const PlannedRound& round) {
    const std::vector<std::size_t>& tasks = round.program->tasks;
    return std::set(tasks.begin(), tasks.end()).size() < tasks.size();
  }

  TrainingGraph graph;
  Rounds rounds;
  TaskOptions options;
};

TEST(SearchRoundTest, NeitherMovesNorComputesAgainWhatFits) {
  OneRound one(5);
  const PlannedRound found = one.Search(test::PeakOf(one.graph).count(), 20);
  EXPECT_EQ(found.choice.missing, 0);
  EXPECT_EQ(found.choice.schedule.moved, 0);
  EXPECT_FALSE(OneRound::RunsTwice(found));
}

TEST(SearchRoundTest, NothingRunsTwiceUnlessProgramsAreAllowed) {
  OneRound one(0.01);
  const std::int64_t capacity = (test::PeakOf(one.graph) * 5 / 8).count();
  const PlannedRound moved = one.Search(capacity, 0);
  ASSERT_EQ(moved.choice.missing, 0);
  EXPECT_FALSE(OneRound::RunsTwice(moved));
  EXPECT_GT(moved.choice.schedule.moved, 0);
}

TEST(SearchRoundTest, ComputesAgainWhereTheLinkIsSlow) {
  OneRound one(0.01);
  const std::int64_t capacity = (test::PeakOf(one.graph) * 5 / 8).count();
  const PlannedRound moved = one.Search(capacity, 0);
  const PlannedRound again = one.Search(capacity, 60);
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
  const PlannedRound found = one.Search(capacity, 60);
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

TEST(SearchRoundTest, SaysWhatIsMissing) {
  OneRound one(5);
  const PlannedRound none = one.Search(50'000, 0);
  ASSERT_GT(none.choice.missing, 0);
  EXPECT_EQ(one.Search(50'000 + none.choice.missing, 0).choice.missing, 0);
}

TEST(SearchRoundTest, IsTheSameEachTime) {
  OneRound one(0.2);
  const std::int64_t capacity = (test::PeakOf(one.graph) / 2).count();
  const PlannedRound a = one.Search(capacity, 20);
  const PlannedRound b = one.Search(capacity, 20);
  EXPECT_EQ(a.program->choices, b.program->choices);
  EXPECT_EQ(a.choice.choices.moved, b.choice.choices.moved);
  EXPECT_EQ(a.choice.schedule.time, b.choice.schedule.time);
}

}  // namespace
}  // namespace ucudnn
