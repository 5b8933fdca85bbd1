#include "coordinator/agents/liveness.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ucudnn {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::int64_t kTimeout = 1000;

class LivenessTest : public ::testing::Test {
 protected:
  // Looks every 100 ms until `end_ms`; returns who was silent at last.
  std::vector<Pulse> Look(const std::vector<Pulse>& pulses,
                          std::int64_t end_ms) {
    std::vector<Pulse> silent;
    while (now_ms_ < end_ms) {
      now_ms_ += 100;
      silent = liveness_.Silent(pulses, now_ms_, kTimeout);
    }
    return silent;
  }

  Liveness liveness_;
  std::int64_t now_ms_ = 50'000;
};

TEST_F(LivenessTest, FindsThoseWhosePulseStays) {
  EXPECT_THAT(Look({{"a", 1}, {"b", 1}}, 50'500), IsEmpty());
  EXPECT_THAT(Look({{"a", 1}, {"b", 2}}, 51'100), IsEmpty());
  EXPECT_THAT(Look({{"a", 1}, {"b", 2}}, 51'200), ElementsAre(Pulse{"a", 1}));
}

TEST_F(LivenessTest, GivesEverybodyATimeoutAfterAStart) {
  // However long they were silent before.
  EXPECT_THAT(Look({{"a", 1}}, 51'000), IsEmpty());
}

TEST_F(LivenessTest, DoesNotCountTimeInWhichItDidNotLook) {
  EXPECT_THAT(Look({{"a", 1}}, 50'500), IsEmpty());
  now_ms_ = 3'600'000;  // the process was stopped, or the database
  EXPECT_THAT(liveness_.Silent({{"a", 1}}, now_ms_, kTimeout), IsEmpty());
  EXPECT_THAT(Look({{"a", 1}}, now_ms_ + kTimeout), ElementsAre(Pulse{"a", 1}));
}

TEST_F(LivenessTest, GivesAllTimeToReturnAfterTheFirstLook) {
  liveness_ = Liveness(3 * kTimeout);
  EXPECT_THAT(Look({{"a", 1}, {"b", 1}}, 51'000), IsEmpty());
  // Also who came back, and could not keep it up among the others.
  EXPECT_THAT(Look({{"a", 1}, {"b", 2}}, 52'900), IsEmpty());
  EXPECT_THAT(Look({{"a", 1}, {"b", 2}, {"c", 1}}, 53'100), IsEmpty());
  EXPECT_THAT(Look({{"a", 1}, {"b", 2}, {"c", 1}}, 53'200),
              ElementsAre(Pulse{"a", 1}, Pulse{"b", 2}));
}

TEST_F(LivenessTest, GivesManyThatFallSilentTogetherTimeToReturn) {
  liveness_ = Liveness(3 * kTimeout, /*many=*/3);
  const auto hear_of_a = [&](const std::vector<Pulse>& others,
                             std::int64_t end_ms) {
    std::vector<Pulse> silent;
    while (now_ms_ < end_ms) {
      std::vector<Pulse> pulses = others;
      pulses.push_back({"a", now_ms_});
      silent = Look(pulses, now_ms_ + 100);
    }
    return silent;
  };
  // Of four that are heard of, three no longer are from 60.0 s on.
  while (now_ms_ < 60'000) {
    EXPECT_THAT(
        Look({{"a", now_ms_}, {"b", now_ms_}, {"c", now_ms_}, {"d", now_ms_}},
             now_ms_ + 100),
        IsEmpty());
  }
  EXPECT_THAT(hear_of_a({{"b", 1}, {"c", 1}, {"d", 1}}, 62'000), IsEmpty());
  // One comes back, the others do not.
  EXPECT_THAT(hear_of_a({{"b", 2}, {"c", 1}, {"d", 1}}, 62'100), IsEmpty());
  EXPECT_THAT(hear_of_a({{"b", 3}, {"c", 1}, {"d", 1}}, 63'700), IsEmpty());
  EXPECT_THAT(hear_of_a({{"b", 4}, {"c", 1}, {"d", 1}}, 63'900),
              ElementsAre(Pulse{"c", 1}, Pulse{"d", 1}));
  // One alone has the timeout, as ever.
  EXPECT_THAT(hear_of_a({{"b", 4}}, 64'700), IsEmpty());
  EXPECT_THAT(hear_of_a({{"b", 4}}, 65'000), ElementsAre(Pulse{"b", 4}));
}

TEST_F(LivenessTest, DoesNotCountTimeInWhichPulsesWereRefused) {
  EXPECT_THAT(Look({{"a", 1}}, 50'500), IsEmpty());
  while (now_ms_ < 60'000) {
    now_ms_ += 100;
    EXPECT_THAT(liveness_.Silent({{"a", 1}}, now_ms_, kTimeout, true),
                IsEmpty());
  }
  EXPECT_THAT(Look({{"a", 1}}, 60'600), IsEmpty());
  EXPECT_THAT(Look({{"a", 1}}, 60'700), ElementsAre(Pulse{"a", 1}));
}

}  // namespace
}  // namespace ucudnn
