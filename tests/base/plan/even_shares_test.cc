#include "base/plan/even_shares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ucudnn {
namespace {

using ::testing::ElementsAre;

constexpr BatchSize N(std::int64_t n) { return BatchSize(n); }

TEST(EvenSharesTest, GivesTheFirstRanksWhatIsLeft) {
  EXPECT_THAT(EvenShares(N(8), 1), ElementsAre(N(8)));
  EXPECT_THAT(EvenShares(N(9), 3), ElementsAre(N(3), N(3), N(3)));
  EXPECT_THAT(EvenShares(N(128), 3), ElementsAre(N(43), N(43), N(42)));
}

TEST(EvenSharesTest, LeavesRanksWithoutImagesWhereThereAreFew) {
  EXPECT_THAT(EvenShares(N(2), 3), ElementsAre(N(1), N(1), N(0)));
  EXPECT_THAT(EvenShares(N(0), 2), ElementsAre(N(0), N(0)));
}

}  // namespace
}  // namespace ucudnn
