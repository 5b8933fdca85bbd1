#include "base/service/rate_limit.h"

#include <gtest/gtest.h>

namespace ucudnn {
namespace {

TEST(RateLimitTest, AllowsSoManyLinesOfAKeyInAnInterval) {
  RateLimit limit(2, 1000);
  EXPECT_EQ(limit.Allow("a", 500), 0);
  EXPECT_EQ(limit.Allow("a", 600), 0);
  EXPECT_EQ(limit.Allow("a", 700), std::nullopt);
  EXPECT_EQ(limit.Allow("a", 1499), std::nullopt);
  EXPECT_EQ(limit.Allow("b", 1499), 0);
  // The next line tells how many were left out.
  EXPECT_EQ(limit.Allow("a", 1500), 2);
  EXPECT_EQ(limit.Allow("a", 1501), 0);
}

}  // namespace
}  // namespace ucudnn
