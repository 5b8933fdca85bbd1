#include "solver/allot/halves.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "tests/solver/instances.h"

namespace ucudnn::allot_internal {
namespace {

using ::testing::ElementsAre;
using ucudnn::test::Draw;
using ucudnn::test::Random;

constexpr std::size_t kAllStates = 100'000;
constexpr std::int64_t kManyNodes = 10'000'000;

Packing PackAsHalves(const PackingProblem& problem, std::size_t most_states,
                     std::int64_t nodes = kManyNodes) {
  return PackHalves(problem, most_states, &nodes, {});
}

TEST(PackHalvesTest, TakesTheOptionsThatUseAllDevicesBest) {
  const std::vector<std::int64_t> free = {2, 1};
  PackingProblem problem;
  problem.free = free;
  problem.jobs = {{{{1, 0}, 5}, {{2, 0}, 9}}, {{{1, 0}, 4}, {{0, 1}, 3}}};
  problem.prices = {{4, 3}};
  const Packing packed = PackAsHalves(problem, kAllStates);
  EXPECT_THAT(packed.options, ElementsAre(1, 1));
  EXPECT_EQ(packed.value, 12);
  EXPECT_TRUE(packed.complete);
}

TEST(PackHalvesTest, ProvesThatNothingIsWorthEnough) {
  const std::vector<std::int64_t> free = {1};
  PackingProblem problem;
  problem.free = free;
  problem.jobs = {{{{1}, 5}}, {{{1}, 5}}};
  problem.prices = {{5}};
  const Packing packed = PackAsHalves(problem, kAllStates);
  EXPECT_TRUE(packed.options.empty());
  EXPECT_TRUE(packed.complete);
}

TEST(PackHalvesTest, IsIncompleteIfNodesRunOut) {
  const std::vector<std::int64_t> free = {4};
  PackingProblem problem;
  problem.free = free;
  problem.jobs = {{{{1}, 5}, {{2}, 6}}, {{{1}, 5}, {{2}, 6}}};
  problem.prices = {{1}};
  EXPECT_FALSE(PackAsHalves(problem, kAllStates, 2).complete);
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
  Prices& prices = problem.prices.emplace_back();
  for (std::size_t k = 0; k < free.size(); ++k) {
    prices.push_back(Draw(random, 0, 4));
  }
  problem.at_least = Draw(random, 0, 60);
  return problem;
}

std::vector<std::int64_t> RandomFree(Random& random) {
  std::vector<std::int64_t> free;
  for (std::int64_t k = Draw(random, 1, 4); k > 0; --k) {
    free.push_back(Draw(random, 0, 9));
  }
  return free;
}

// The value of the options taken, or the least number if they do not fit.
std::int64_t ValueOf(const PackingProblem& problem, const Packing& packed) {
  std::int64_t value = 0;
  std::vector<std::int64_t> left(problem.free.begin(), problem.free.end());
  for (std::size_t j = 0; j < problem.jobs.size(); ++j) {
    const Option& option = problem.jobs[j][packed.options[j]];
    value += option.value;
    for (std::size_t k = 0; k < left.size(); ++k) left[k] -= option.counts[k];
  }
  return std::any_of(left.begin(), left.end(),
                     [](std::int64_t n) { return n < 0; })
             ? std::numeric_limits<std::int64_t>::min()
             : value;
}

TEST(PackHalvesTest, AgreesWithTheDepthFirstSearch) {
  Random random(6);
  int found = 0;
  for (int i = 0; i < 3000; ++i) {
    SCOPED_TRACE(i);
    const auto free = RandomFree(random);
    const PackingProblem problem = RandomPacking(random, free);
    std::int64_t nodes = kManyNodes;
    const Packing expected = Pack(problem, &nodes, {});
    const Packing packed = PackAsHalves(problem, kAllStates);
    ASSERT_TRUE(packed.complete);
    ASSERT_EQ(packed.options.empty(), expected.options.empty());
    if (packed.options.empty()) continue;
    ++found;
    EXPECT_EQ(packed.value, expected.value);
    EXPECT_EQ(ValueOf(problem, packed), packed.value);
  }
  EXPECT_GT(found, 500);
}

TEST(PackHalvesTest, WithFewStatesClaimsNoMoreThanItProved) {
  Random random(7);
  int incomplete = 0;
  for (int i = 0; i < 3000; ++i) {
    SCOPED_TRACE(i);
    const auto free = RandomFree(random);
    const PackingProblem problem = RandomPacking(random, free);
    const Packing best = PackAsHalves(problem, kAllStates);
    const Packing packed = PackAsHalves(problem, 4);
    incomplete += packed.complete ? 0 : 1;
    if (packed.complete) {
      EXPECT_EQ(packed.options.empty(), best.options.empty());
      EXPECT_EQ(packed.value, best.value);
    }
    if (packed.options.empty()) continue;
    EXPECT_LE(packed.value, best.value);
    EXPECT_EQ(ValueOf(problem, packed), packed.value);
  }
  EXPECT_GT(incomplete, 100);
}

TEST(PackHalvesTest, FindsAnyPackingExactlyIfThereIsOne) {
  Random random(8);
  int found = 0;
  for (int i = 0; i < 1000; ++i) {
    SCOPED_TRACE(i);
    const auto free = RandomFree(random);
    PackingProblem problem = RandomPacking(random, free);
    problem.any = true;
    std::int64_t nodes = kManyNodes;
    const Packing expected = Pack(problem, &nodes, {});
    const Packing packed = PackAsHalves(problem, kAllStates);
    ASSERT_TRUE(packed.complete);
    ASSERT_EQ(packed.options.empty(), expected.options.empty());
    const Packing of_few = PackAsHalves(problem, 4);
    if (!of_few.options.empty()) {
      EXPECT_GE(of_few.value, problem.at_least);
      EXPECT_EQ(ValueOf(problem, of_few), of_few.value);
    } else if (of_few.complete) {
      EXPECT_TRUE(packed.options.empty());
    }
    if (packed.options.empty()) continue;
    ++found;
    EXPECT_GE(packed.value, problem.at_least);
    EXPECT_EQ(ValueOf(problem, packed), packed.value);
  }
  EXPECT_GT(found, 100);
}

// Every option of a job is of equally many devices, and one of each job
// together are all free devices.
PackingProblem HiddenPacking(Random& random, std::vector<std::int64_t>* free) {
  constexpr std::size_t kKinds = 4;
  PackingProblem problem;
  free->assign(kKinds, 0);
  for (int j = 0; j < 12; ++j) {
    auto& options = problem.jobs.emplace_back();
    for (int o = 0; o < 10; ++o) {
      Option& option = options.emplace_back();
      for (int n = 0; n < 4; ++n) {
        ++option.counts[static_cast<std::size_t>(Draw(random, 0, kKinds - 1))];
      }
    }
    const auto hidden = static_cast<std::size_t>(Draw(random, 0, 9));
    for (std::size_t k = 0; k < kKinds; ++k) {
      (*free)[k] += options[hidden].counts[k];
    }
  }
  problem.free = *free;
  problem.prices = {Prices(kKinds, 1)};
  problem.any = true;
  return problem;
}

TEST(PackHalvesTest, FindsAnyPackingWithFewStatesWhereAllLoseTheSame) {
  Random random(9);
  int found = 0;
  for (int i = 0; i < 100; ++i) {
    std::vector<std::int64_t> free;
    const PackingProblem problem = HiddenPacking(random, &free);
    const Packing packed = PackAsHalves(problem, 50);
    if (packed.options.empty()) continue;
    ++found;
    EXPECT_EQ(ValueOf(problem, packed), 0);
  }
  EXPECT_GT(found, 90);
}

}  // namespace
}  // namespace ucudnn::allot_internal
