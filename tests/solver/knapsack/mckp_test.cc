#include "solver/knapsack/mckp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <random>

#include "solver/check/validate_choice.h"
#include "tests/support/trials.h"

namespace ucudnn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Items = std::vector<MckpItem>;

std::vector<MckpClass> Classes(const std::vector<Items>& items) {
  std::vector<MckpClass> classes;
  for (const Items& one : items) classes.push_back({one, 1});
  return classes;
}

constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();

// The least cost by the obvious dynamic programme over weights; kNone if
// nothing fits.
std::int64_t LeastCost(const std::vector<MckpClass>& classes,
                       std::int64_t capacity) {
  using Totals = std::vector<std::pair<std::int64_t, std::int64_t>>;
  Totals best = {{0, 0}};  // weight and least cost
  Totals next;
  for (const MckpClass& one : classes) {
    for (std::int64_t i = 0; i < one.count; ++i) {
      next.clear();
      for (const auto& [weight, cost] : best) {
        for (const MckpItem& item : one.items) {
          if (weight + item.weight > capacity) continue;
          next.emplace_back(weight + item.weight, cost + item.cost);
        }
      }
      std::sort(next.begin(), next.end());
      best.clear();
      for (const auto& total : next) {
        if (best.empty() || total.second < best.back().second) {
          best.push_back(total);
        }
      }
    }
  }
  return best.empty() ? kNone : best.back().second;
}

// Whether the solution's figures are right.
void ExpectValid(const std::vector<MckpClass>& classes, std::int64_t capacity,
                 const MckpSolution& solution) {
  const Status valid = ValidateMckp(solution, classes, capacity);
  ASSERT_TRUE(valid) << valid.error().message;
}

//   class 0: 10 at weight 0, 6 at 4, 5 at 6     class 1: 9 at 1, 4 at 5
// With capacity 6 the relaxation would buy class 1's step (5 for 4) and a
// quarter of class 0's; whole, that leaves 10 + 4 at weight 5. Buying class 0's
// first step (4 for 4) instead costs 6 + 9.
TEST(MckpTest, TakesTheStepThatSavesMost) {
  const std::vector<Items> items = {{{10, 0}, {6, 4}, {5, 6}},
                                    {{9, 1}, {4, 5}}};
  const auto solution = SolveMckp(Classes(items), 6);
  ASSERT_TRUE(solution);
  EXPECT_THAT(solution->choice, ElementsAre(0, 1));
  EXPECT_EQ(solution->cost, 14);
  EXPECT_EQ(solution->weight, 5);
  EXPECT_TRUE(solution->optimal);
}

TEST(MckpTest, IgnoresDominatedItemsInAnyOrder) {
  const std::vector<Items> items = {{{5, 9}, {7, 3}, {7, 2}, {9, 2}, {5, 8}}};
  EXPECT_THAT(SolveMckp(Classes(items), 7)->choice, ElementsAre(2));
  EXPECT_THAT(SolveMckp(Classes(items), 8)->choice, ElementsAre(4));
}

TEST(MckpTest, NamesTheSmallestSufficientCapacity) {
  const std::vector<Items> items = {{{5, 9}, {7, 3}}, {{1, 4}}};
  const auto solution = SolveMckp(Classes(items), 6);
  ASSERT_FALSE(solution);
  EXPECT_EQ(solution.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(solution.error().message, HasSubstr("would do is 7"));
  EXPECT_TRUE(SolveMckp(Classes(items), 7));
  EXPECT_FALSE(SolveMckp(Classes(items), -1));
}

TEST(MckpTest, RefusesInvalidInstances) {
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
  const auto code = [](const Items& items, std::int64_t count) {
    const std::vector<MckpClass> classes = {{items, count}};
    const auto solution = SolveMckp(classes, 100);
    return solution ? Code::kOk : solution.error().code;
  };
  EXPECT_EQ(code({}, 1), Code::kInvalidArgument);
  EXPECT_EQ(code({{1, 1}}, 0), Code::kInvalidArgument);
  EXPECT_EQ(code({{1, 1}}, std::int64_t{1} << 40), Code::kInvalidArgument);
  EXPECT_EQ(code({{-1, 1}}, 1), Code::kInvalidArgument);
  EXPECT_EQ(code({{1, -1}}, 1), Code::kInvalidArgument);
  EXPECT_EQ(code({{kHuge, 1}}, 1), Code::kOutOfRange);
  EXPECT_EQ(code({{1, kHuge}}, 2), Code::kOutOfRange);
  EXPECT_EQ(code({{1, 1}}, 1), Code::kOk);
}

TEST(MckpTest, HasAnEmptySolutionForNoClasses) {
  const auto solution = SolveMckp({}, 0);
  ASSERT_TRUE(solution);
  EXPECT_EQ(solution->cost, 0);
  EXPECT_TRUE(solution->optimal);
}

TEST(MckpTest, StaysExactWithTheLargestNumbers) {
  constexpr std::int64_t kBig = std::int64_t{1} << 58;
  const std::vector<Items> items = {
      {{kBig, 0}, {kBig - 1, kBig - 1}, {0, kBig}},
      {{kBig, 1}, {1, kBig}},
      {{kBig - 5, 0}, {kBig / 2, kBig / 2 + 1}}};
  for (const std::int64_t capacity :
       {std::int64_t{1}, kBig - 1, kBig, kBig + 1, kBig + kBig / 2 + 1,
        2 * kBig, 3 * kBig, std::numeric_limits<std::int64_t>::max()}) {
    const auto solution = SolveMckp(Classes(items), capacity);
    ASSERT_TRUE(solution);
    ExpectValid(Classes(items), capacity, *solution);
    EXPECT_TRUE(solution->optimal);
    EXPECT_EQ(solution->cost, LeastCost(Classes(items), capacity));
  }
}

// If the cheapest items fit, nothing is searched, but everything is checked.
TEST(MckpTest, TakesTheCheapestItemsIfTheyFit) {
  const std::vector<Items> items = {
      {{9, 0}, {4, 3}, {1, 7}}, {{2, 5}}, {{6, 2}, {3, 9}, {3, 8}, {8, 1}}};
  std::vector<MckpClass> classes = Classes(items);
  classes[0].count = 6;
  classes[2].count = 2;
  const auto solution = SolveMckp(classes, 6 * 7 + 5 + 2 * 8);
  ASSERT_TRUE(solution);
  EXPECT_THAT(solution->choice, ElementsAre(2, 2, 2, 2, 2, 2, 0, 2, 2));
  EXPECT_EQ(solution->cost, 6 * 1 + 2 + 2 * 3);
  EXPECT_EQ(solution->weight, 6 * 7 + 5 + 2 * 8);
  EXPECT_EQ(solution->lower_bound, solution->cost);
  EXPECT_EQ(solution->nodes, 0);
  EXPECT_TRUE(solution->optimal);

  constexpr std::int64_t kRoom = std::numeric_limits<std::int64_t>::max();
  const auto code = [&](const Items& last) {
    std::vector<MckpClass> more = classes;
    more.push_back({last, 3});
    const auto answer = SolveMckp(more, kRoom);
    return answer ? Code::kOk : answer.error().code;
  };
  EXPECT_EQ(code({{3, 0}, {2, 1}, {1, 2}}), Code::kOk);
  EXPECT_EQ(code({{3, 0}, {2, 1}, {-1, 2}}), Code::kInvalidArgument);
  EXPECT_EQ(code({{3, -1}, {2, 1}, {1, 2}}), Code::kInvalidArgument);
  EXPECT_EQ(code({{kRoom, 0}, {1, 2}}), Code::kOutOfRange);
  EXPECT_EQ(code({{3, 0}, {1, std::int64_t{1} << 59}}), Code::kOutOfRange);
  EXPECT_EQ(code({{3, 0}, {1, std::int64_t{1} << 58}}), Code::kOk);
}

// Classes are equal if their items are, wherever these are in memory; classes
// that agree only in the first and last item are different.
TEST(MckpTest, RecognisesEqualClassesByTheirItems) {
  const Items first = {{100, 0}, {60, 10}, {0, 30}};
  const Items second = {{100, 0}, {70, 10}, {0, 30}};
  std::vector<Items> items;
  for (int i = 0; i < 30; ++i) items.push_back(i % 3 == 0 ? second : first);
  std::vector<MckpClass> shared;
  for (int i = 0; i < 30; ++i) {
    shared.push_back({i % 3 == 0 ? items[0] : items[1], 1});
  }
  for (std::int64_t capacity = 0; capacity <= 900; capacity += 7) {
    const auto apart = SolveMckp(Classes(items), capacity);
    const auto alike = SolveMckp(shared, capacity);
    ASSERT_TRUE(apart && alike);
    ExpectValid(shared, capacity, *alike);
    EXPECT_EQ(alike->choice, apart->choice);
    EXPECT_EQ(alike->cost, LeastCost(shared, capacity));
  }
}

// Instances that are easy, tied, correlated or repetitive.
std::vector<Items> RandomItems(std::mt19937_64& random, int shape,
                               std::size_t classes) {
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  std::vector<Items> all;
  for (std::size_t k = 0; k < classes; ++k) {
    Items items;
    const std::int64_t size = 1 + below(6);
    const std::int64_t scale = shape == 0 ? 10 : 1000;
    const std::int64_t anchor = below(scale);
    for (std::int64_t i = 0; i < size; ++i) {
      const std::int64_t weight = below(scale);
      switch (shape) {
        case 1:  // cost falls by what weight rises, nearly
          items.push_back({2 * scale - weight + below(20), weight});
          break;
        case 2:  // exactly: a subset sum
          items.push_back({scale + anchor - weight, weight});
          break;
        case 3:  // in steps
          items.push_back({below(scale) / 64 * 64, weight / 128 * 128});
          break;
        default:
          items.push_back({below(scale), weight});
      }
    }
    all.push_back(items);
  }
  return all;
}

TEST(MckpTest, EqualsTheObviousProgrammeOnSmallInstances) {
  std::mt19937_64 random(1);
  for (int trial = 0; trial < Trials(10'000); ++trial) {
    std::vector<Items> items = RandomItems(random, trial % 5, 1 + random() % 6);
    // Times and workspaces come in steps of clocks and allocators.
    if (trial % 4 == 0) {
      for (MckpItem& item : items[random() % items.size()]) item.cost += 1;
      for (Items& one : items) {
        for (MckpItem& item : one) item = {32 * item.cost, 256 * item.weight};
      }
    }
    std::vector<MckpClass> classes = Classes(items);
    for (MckpClass& one : classes) {
      if (trial % 3 == 0) one.count = 1 + static_cast<int>(random() % 4);
    }
    std::int64_t least = 0;
    std::int64_t most = 0;
    for (const MckpClass& one : classes) {
      const auto [low, high] = std::minmax_element(
          one.items.begin(), one.items.end(),
          [](const auto& a, const auto& b) { return a.weight < b.weight; });
      least += low->weight * one.count;
      most += high->weight * one.count;
    }
    const std::int64_t capacity =
        least + static_cast<std::int64_t>(
                    random() % static_cast<std::uint64_t>(most - least + 2));
    const auto solution = SolveMckp(classes, capacity);
    ASSERT_TRUE(solution) << trial;
    ExpectValid(classes, capacity, *solution);
    ASSERT_TRUE(solution->optimal) << trial;
    ASSERT_EQ(solution->cost, LeastCost(classes, capacity)) << trial;
  }
}

TEST(MckpTest, EqualsTheObviousProgrammeWithManyCopies) {
  std::mt19937_64 random(2);
  for (int trial = 0; trial < Trials(200); ++trial) {
    const std::vector<Items> items =
        RandomItems(random, trial % 5, 1 + random() % 3);
    std::vector<MckpClass> classes = Classes(items);
    // Half of the copies are given as counts, half as classes of their own.
    for (MckpClass& one : classes) {
      one.count = 1 + static_cast<int>(random() % 15);
    }
    const std::size_t given = classes.size();
    for (std::size_t k = 0; k < given; ++k) {
      for (std::uint64_t i = random() % 8; i > 0; --i) {
        classes.push_back({classes[k].items, 1});
      }
    }
    std::int64_t most = 0;
    for (const MckpClass& one : classes) {
      for (const auto& item : one.items) {
        most = std::max(most, item.weight * one.count);
      }
    }
    const std::int64_t capacity = static_cast<std::int64_t>(
        random() % static_cast<std::uint64_t>(2 * most + 1));
    const auto solution = SolveMckp(classes, capacity);
    const std::int64_t least = LeastCost(classes, capacity);
    ASSERT_EQ(solution.has_value(), least != kNone);
    if (!solution) continue;
    ExpectValid(classes, capacity, *solution);
    ASSERT_TRUE(solution->optimal) << trial;
    ASSERT_EQ(solution->cost, least) << trial;
  }
}

TEST(MckpTest, IsDeterministicAndNeverCostsMoreWithMoreCapacity) {
  std::mt19937_64 random(3);
  for (int trial = 0; trial < 100; ++trial) {
    const std::vector<Items> items = RandomItems(random, trial % 5, 30);
    const std::vector<MckpClass> classes = Classes(items);
    std::int64_t last = std::numeric_limits<std::int64_t>::max();
    for (std::int64_t capacity = 0; capacity < 30'000; capacity += 531) {
      const auto solution = SolveMckp(classes, capacity);
      if (!solution) continue;
      EXPECT_LE(solution->cost, last);
      last = solution->cost;
      EXPECT_EQ(SolveMckp(classes, capacity)->choice, solution->choice);
    }
  }
}

TEST(MckpTest, ReturnsABoundWhenLimitsEndTheSearch) {
  std::mt19937_64 random(4);
  int unproven = 0;
  for (int trial = 0; trial < 200; ++trial) {
    const std::vector<Items> items = RandomItems(random, trial % 5, 12);
    const std::vector<MckpClass> classes = Classes(items);
    std::int64_t capacity = 0;
    for (const Items& one : items) capacity += one[0].weight;
    const std::int64_t least = LeastCost(classes, capacity);
    for (const std::int64_t nodes : {0, 5, 50}) {
      const auto solution =
          SolveMckp(classes, capacity, {.max_nodes = nodes, .stop = {}});
      ASSERT_TRUE(solution);
      ExpectValid(classes, capacity, *solution);
      EXPECT_LE(solution->lower_bound, least);
      EXPECT_GE(solution->cost, least);
      unproven += solution->optimal ? 0 : 1;
    }
  }
  EXPECT_GT(unproven, 50);
}

TEST(MckpTest, StopsWhenAsked) {
  std::mt19937_64 random(5);
  const std::vector<Items> items = RandomItems(random, 0, 200);
  std::stop_source source;
  source.request_stop();
  Limits limits;
  limits.stop = source.get_token();
  const auto solution = SolveMckp(Classes(items), 600, limits);
  ASSERT_TRUE(solution);
  EXPECT_EQ(solution->nodes, 0);
  ExpectValid(Classes(items), 600, *solution);
}

}  // namespace
}  // namespace ucudnn
