#include "solver/allot/curve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "tests/solver/allot/allot_instances.h"

namespace ucudnn::allot_internal {
namespace {

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
