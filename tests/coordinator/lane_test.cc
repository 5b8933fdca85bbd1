#include "coordinator/lane.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <latch>

namespace ucudnn {
namespace {

Lane::Work Doing(std::function<void()> run) {
  return {.wanted = [] { return true; }, .run = std::move(run)};
}

TEST(LaneTest, BoundsHowManyRun) {
  constexpr int kAll = 100;
  std::atomic<int> running = 0;
  std::atomic<int> most = 0;
  std::atomic<int> ran = 0;
  {
    Lane lane(2, kAll, kAll);
    for (int i = 0; i < kAll; ++i) {
      ASSERT_TRUE(lane.Add("host", Doing([&] {
                             most = std::max<int>(most, ++running);
                             std::this_thread::yield();
                             --running;
                             ++ran;
                           })));
    }
  }
  EXPECT_LE(most, 2);
  EXPECT_EQ(ran, kAll);
}

TEST(LaneTest, RefusesMoreThanMayWait) {
  std::latch go(1);
  std::latch ran(2);
  Lane lane(1, 1, 4);
  const auto add = [&] {
    return lane.Add("host", Doing([&] {
                      go.wait();
                      ran.count_down();
                    }));
  };
  ASSERT_TRUE(add());
  ASSERT_TRUE(add());
  const Status third = add();
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code, Code::kResourceExhausted);
  go.count_down();
  ran.wait();
}

TEST(LaneTest, LeavesRoomForOtherCallers) {
  std::latch go(1);
  Lane lane(4, 4, 2);
  const auto code = [&](const std::string& caller) {
    const Status added = lane.Add(caller, Doing([&] { go.wait(); }));
    return added ? Code::kOk : added.error().code;
  };
  EXPECT_EQ(code("a"), Code::kOk);
  EXPECT_EQ(code("a"), Code::kOk);
  EXPECT_EQ(code("a"), Code::kResourceExhausted);
  EXPECT_EQ(code("b"), Code::kOk);
  go.count_down();
}

TEST(LaneTest, EndsAWaitThatNobodyWantsAnyMore) {
  std::latch go(1);
  std::atomic<bool> wanted = true;
  std::atomic<bool> ended = false;
  Lane lane(1, 1, 4);
  ASSERT_TRUE(lane.Add("host", Doing([&] { go.wait(); })));
  ASSERT_TRUE(lane.Add("host", {.wanted = [&]() -> bool { return wanted; },
                                .run = [&] { ended = true; }}));
  lane.RunUnwanted();
  EXPECT_FALSE(ended);
  wanted = false;
  lane.RunUnwanted();
  EXPECT_TRUE(ended);
  // It no longer counts as waiting.
  EXPECT_TRUE(lane.Add("host", Doing([] {})));
  go.count_down();
}

}  // namespace
}  // namespace ucudnn
