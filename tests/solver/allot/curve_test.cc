#include "solver/allot/curve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "tests/solver/allot/allot_instances.h"

namespace ucudnn::allot_internal {
namespace {

using ::testing::ElementsAre;
using ucudnn::test::Draw;
using ucudnn::test::Random;
using ucudnn::test::RandomAllotment;

constexpr std::size_t kAll = 1'000'000;

// Whether a choice of `others` needs no more devices and no more time.
bool IsCovered(const Choice& choice, const std::vector<Choice>& others) {
  return std::any_of(others.begin(), others.end(), [&](const Choice& other) {
    return other.time <= choice.time &&
           std::equal(other.counts.begin(), other.counts.end(),
                      choice.counts.begin(), std::less_equal<>());
  });
}

// The example of solver/allot/choices.cc.
TEST(CurveTest, HasTheChoicesThatAreDrawn) {
  const std::vector<std::int64_t> free = {3, 4};
  AllotJob job;
  job.batch = BatchSize(12);
  job.tables = {{{BatchSize(4), Nanoseconds(40), Bytes(0)}},
                {{BatchSize(2), Nanoseconds(40), Bytes(0)}}};
  const Curve curve(job, free);
  ASSERT_EQ(curve.groups().size(), 1U);
  const Curve::Group& group = curve.groups().front();
  const Prices prices = {5, 2};
  std::vector<Choice> choices;
  ASSERT_TRUE(curve.AddChoicesOfGroup(group, 0, 0, prices, 17, kAll, &choices));
  std::vector<std::array<std::int64_t, 3>> found;
  for (const Choice& choice : choices) {
    found.push_back({choice.counts[0], choice.counts[1], choice.cost});
  }
  EXPECT_THAT(found, ElementsAre(std::array<std::int64_t, 3>{1, 4, 13},
                                 std::array<std::int64_t, 3>{2, 2, 14},
                                 std::array<std::int64_t, 3>{3, 0, 15}));
  const auto cheapest = curve.CheapestOfGroup(group, 0, prices, 18);
  ASSERT_TRUE(cheapest.choice);
  EXPECT_EQ(cheapest.choice->cost, 13);
  EXPECT_EQ(cheapest.bound, 13);
}

TEST(CurveTest, ChoicesOfManyTimesAreAsGoodAsThoseOfEachTime) {
  Random random(8);
  std::size_t compared = 0;
  for (int i = 0; i < 500; ++i) {
    SCOPED_TRACE(i);
    const AllotProblem problem = RandomAllotment(random);
    Prices prices;
    for (std::size_t k = 0; k < problem.free.size(); ++k) {
      prices.push_back(Draw(random, 0, 5));
    }
    for (const AllotJob& job : problem.jobs) {
      const Curve curve(job, problem.free);
      const std::size_t times = curve.times().size();
      for (const Curve::Group& group : curve.groups()) {
        if (times == 0) continue;
        std::vector<Choice> one_by_one;
        for (std::size_t t = 0; t < times; ++t) {
          ASSERT_TRUE(curve.AddChoicesOfGroup(group, t, t, prices, kMaxCount,
                                              kAll, &one_by_one));
        }
        std::vector<Choice> at_once;
        ASSERT_TRUE(curve.AddChoicesOfGroup(group, 0, times - 1, prices,
                                            kMaxCount, kAll, &at_once));
        for (const Choice& choice : one_by_one) {
          EXPECT_TRUE(IsCovered(choice, at_once));
        }
        for (const Choice& choice : at_once) {
          EXPECT_TRUE(IsCovered(choice, one_by_one));
          EXPECT_EQ(choice.cost, CostOf(choice.counts, prices));
          EXPECT_TRUE(curve.Holds(choice.counts, choice.time + group.extra));
        }
        compared += at_once.size();
      }
    }
  }
  EXPECT_GT(compared, 1000U);
}

}  // namespace
}  // namespace ucudnn::allot_internal
