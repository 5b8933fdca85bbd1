#include "coordinator/jobs/lost_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ucudnn {
namespace {

using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::IsEmpty;
using ::testing::Pair;

auto Lost(std::int64_t rank) {
  return Field(&RankNews::lost, ElementsAre(rank));
}

class LostRanksTest : public ::testing::Test {
 protected:
  using News = std::map<std::string, RankNews>;

  // Looks every 100 ms until `end_ms` while the ranks of `heard` report, and
  // returns the last news.
  News Look(std::int64_t end_ms, const std::set<std::int64_t>& heard) {
    constexpr std::int64_t kTimeoutMs = 1000;
    News news;
    while (now_ms_ < end_ms) {
      now_ms_ += 100;
      for (RankPulse& pulse : pulses_) {
        if (heard.contains(pulse.rank)) ++pulse.beats;
      }
      news = lost_.Find(pulses_, now_ms_, kTimeoutMs);
    }
    return news;
  }

  LostRanks lost_;
  std::vector<RankPulse> pulses_ = {{"job", 0, 1}, {"job", 1, 1}};
  std::int64_t now_ms_ = 0;
};

TEST_F(LostRanksTest, FindsARankThatIsSilentWhileOthersReport) {
  EXPECT_THAT(Look(1000, {0, 1}), IsEmpty());
  EXPECT_THAT(Look(2000, {0}), IsEmpty());
  EXPECT_THAT(Look(2200, {0}), ElementsAre(Pair("job", Lost(1))));
  EXPECT_THAT(Look(2300, {0, 1})["job"].lost, IsEmpty());
}

TEST_F(LostRanksTest, TellsOfARankThatIsBackUntilThatIsSettled) {
  Look(1000, {0, 1});
  Look(2300, {0});
  EXPECT_THAT(Look(2400, {0, 1})["job"].back, ElementsAre(1));
  EXPECT_THAT(Look(2500, {0, 1})["job"].back, ElementsAre(1));
  lost_.Settle("job", 1);
  EXPECT_THAT(Look(2600, {0, 1}), IsEmpty());
}

TEST_F(LostRanksTest, SparesAJobThatFallsSilent) {
  Look(1000, {0, 1});
  Look(1400, {0});
  // Rank 1 is silent for longer than the timeout, but so is rank 0 for long.
  EXPECT_THAT(Look(2100, {}), IsEmpty());
  EXPECT_THAT(Look(9000, {}), IsEmpty());
}

TEST_F(LostRanksTest, SparesARankThatNeverReported) {
  pulses_[1].beats = 0;
  EXPECT_THAT(Look(9000, {0}), IsEmpty());
}

}  // namespace
}  // namespace ucudnn
