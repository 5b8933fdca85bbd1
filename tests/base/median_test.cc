#include "base/median.h"

#include <gtest/gtest.h>

#include <limits>
#include <utility>

namespace ucudnn {
namespace {

using Times = std::vector<Nanoseconds>;

MedianAndSpread Of(std::initializer_list<std::int64_t> counts) {
  Times times;
  for (const std::int64_t count : counts) times.emplace_back(count);
  return MedianAndSpreadOf(std::move(times));
}

TEST(MedianTest, TakesTheMiddleOne) {
  EXPECT_EQ(Of({7}).median.count(), 7);
  EXPECT_EQ(Of({7}).spread.count(), 0);
  EXPECT_EQ(Of({1, 2, 100}).median.count(), 2);
}

TEST(MedianTest, InterpolatesBetweenTwo) {
  EXPECT_EQ(Of({1, 4}).median.count(), 2);
  EXPECT_EQ(Of({10, 20, 30, 40}).median.count(), 25);
}

TEST(MedianTest, SpreadsOverTheMiddleQuartiles) {
  // Quartiles 20 and 40.
  EXPECT_EQ(Of({10, 20, 30, 40, 5000}).spread.count(), 10);
  // Quartiles 17.5, rounded down, and 32.5.
  EXPECT_EQ(Of({10, 20, 30, 40}).spread.count(), 7);
}

TEST(MedianTest, TakesTimesInAnyOrder) {
  EXPECT_EQ(Of({9'000, 1'000}).median.count(), 5'000);
  EXPECT_EQ(Of({9'000, 1'000}).spread.count(), 2'000);
  EXPECT_EQ(Of({5, 1, 2, 4, 100}).median.count(), 4);
  EXPECT_EQ(Of({50, 10, 20, 40, 1000}).spread.count(), 15);
}

TEST(MedianTest, DoesNotOverflow) {
  const std::int64_t max = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(Of({0, max}).median.count(), max / 2);
  EXPECT_EQ(Of({0, 0, max, max}).spread.count(), max / 2);
}

}  // namespace
}  // namespace ucudnn
