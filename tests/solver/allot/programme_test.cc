#include "solver/allot/programme.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "tests/solver/instances.h"

namespace ucudnn::allot_internal {
namespace {

using ::testing::ElementsAre;
using ucudnn::test::Draw;
using ucudnn::test::Random;

Packing Packed(const PackingProblem& problem,
               std::int64_t nodes = 10'000'000) {
  Budget budget;
  budget.nodes = nodes;
  return Pack(problem, nodes, &budget);
}

TEST(MasterTest, PricesWhatBoundsTheValueBest) {
  // The second job takes one of three devices. So the first has a half of each
  // of its choices, whose two devices more are worth 4 more.
  const std::vector<std::int64_t> free = {3};
  Master master(2, free, true, 1000);
  master.Add(0, {1}, 5);
  master.Add(0, {3}, 9);
  master.Add(1, {1}, 7);
  master.Optimize();
  EXPECT_THAT(master.prices(), ElementsAre(2));
  EXPECT_EQ(master.WorthOf(0), 3);
  EXPECT_EQ(master.WorthOf(1), 5);
  EXPECT_EQ(master.overload(), 0);
}

TEST(MasterTest, TellsHowFarTheDevicesAreOverloaded) {
  const std::vector<std::int64_t> free = {2};
  Master master(2, free, false, 1000);
  master.Add(0, {1}, 0);
  master.Add(1, {2}, 0);
  master.Optimize();
  EXPECT_NEAR(master.overload(), 1.5, 1e-9);
  EXPECT_THAT(master.prices(), ElementsAre(500));
}

TEST(PackTest, TakesTheOptionsThatUseAllDevicesBest) {
  const std::vector<std::int64_t> free = {2, 1};
  PackingProblem problem;
  problem.free = free;
  problem.jobs = {{{{1, 0}, 5}, {{2, 0}, 9}}, {{{1, 0}, 4}, {{0, 1}, 3}}};
  problem.prices = {4, 3};
  const Packing packed = Packed(problem);
  EXPECT_THAT(packed.options, ElementsAre(1, 1));
  EXPECT_TRUE(packed.complete);
}

TEST(PackTest, ProvesThatNothingIsWorthEnough) {
  const std::vector<std::int64_t> free = {1};
  PackingProblem problem;
  problem.free = free;
  problem.jobs = {{{{1}, 5}}, {{{1}, 5}}};
  problem.prices = {5};
  const Packing packed = Packed(problem);
  EXPECT_TRUE(packed.options.empty());
  EXPECT_TRUE(packed.complete);
}

TEST(PackTest, IsIncompleteWithoutSteps) {
  const std::vector<std::int64_t> free = {4};
  PackingProblem problem;
  problem.free = free;
  problem.jobs = {{{{1}, 5}, {{2}, 6}}, {{{1}, 5}, {{2}, 6}}};
  problem.prices = {1};
  EXPECT_FALSE(Packed(problem, 0).complete);
}

TEST(PackTest, TellsValuesApartThatDifferByOnePartOfAShare) {
  // Three thirds, rounded down, are one part of 10^12 less than a whole.
  const std::vector<std::int64_t> free = {3};
  PackingProblem problem;
  problem.free = free;
  problem.jobs = {{{{1}, 333'333'333'333}, {{2}, 500'000'000'000}},
                  {{{2}, 666'666'666'666}, {{1}, 500'000'000'000}}};
  problem.prices = {1};
  EXPECT_THAT(Packed(problem).options, ElementsAre(1, 1));
  problem.at_least = 1'000'000'000'001;
  const Packing none = Packed(problem);
  EXPECT_TRUE(none.options.empty());
  EXPECT_TRUE(none.complete);
}

PackingProblem RandomPacking(Random& random,
                             const std::vector<std::int64_t>& free) {
  PackingProblem problem;
  problem.free = free;
  for (std::int64_t j = Draw(random, 1, 5); j > 0; --j) {
    auto& options = problem.jobs.emplace_back();
    for (std::int64_t o = Draw(random, 1, 6); o > 0; --o) {
      Option& option = options.emplace_back();
      for (std::size_t k = 0; k < free.size(); ++k) {
        option.counts[k] =
            static_cast<std::int16_t>(Draw(random, 0, free[k] / 2 + 1));
      }
      option.value = Draw(random, 0, 30);
    }
  }
  for (std::size_t k = 0; k < free.size(); ++k) {
    problem.prices.push_back(Draw(random, 0, 4));
  }
  problem.at_least = Draw(random, 0, 60);
  return problem;
}

// The best value from the j-th job on; absent if nothing fits.
std::optional<std::int64_t> BestFrom(const PackingProblem& problem,
                                     std::size_t j,
                                     const std::vector<std::int64_t>& left) {
  if (j == problem.jobs.size()) return 0;
  std::optional<std::int64_t> best;
  for (const Option& option : problem.jobs[j]) {
    std::vector<std::int64_t> after = left;
    for (std::size_t k = 0; k < after.size(); ++k) after[k] -= option.counts[k];
    if (*std::min_element(after.begin(), after.end()) < 0) continue;
    const auto rest = BestFrom(problem, j + 1, after);
    if (!rest.has_value()) continue;
    best = std::max(best.value_or(0), *rest + option.value);
  }
  return best;
}

TEST(PackTest, AgreesWithTheEnumerationOfAllPackings) {
  Random random(6);
  int found = 0;
  for (int i = 0; i < 1000; ++i) {
    SCOPED_TRACE(i);
    std::vector<std::int64_t> free;
    for (std::int64_t k = Draw(random, 1, 4); k > 0; --k) {
      free.push_back(Draw(random, 0, 9));
    }
    PackingProblem problem = RandomPacking(random, free);
    problem.any = i % 4 == 0;
    if (problem.any) {
      problem.at_least = 0;
      for (auto& options : problem.jobs) {
        for (Option& option : options) option.value = 0;
      }
    }
    const auto best = BestFrom(problem, 0, free);
    const bool enough = best.has_value() && *best >= problem.at_least;
    const Packing packed = Packed(problem);
    EXPECT_EQ(!packed.options.empty(), enough);
    EXPECT_TRUE(packed.complete || (problem.any && enough));
    if (packed.options.empty()) continue;
    ++found;
    std::int64_t value = 0;
    for (std::size_t j = 0; j < problem.jobs.size(); ++j) {
      const Option& option = problem.jobs[j][packed.options[j]];
      value += option.value;
      for (std::size_t k = 0; k < free.size(); ++k) {
        free[k] -= option.counts[k];
      }
    }
    EXPECT_GE(*std::min_element(free.begin(), free.end()), 0);
    EXPECT_EQ(value, *best);
  }
  EXPECT_GT(found, 200);
}

}  // namespace
}  // namespace ucudnn::allot_internal
