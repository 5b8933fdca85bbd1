#include "coordinator/gate.h"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <thread>
#include <vector>

namespace ucudnn {
namespace {

TEST(GateTest, BoundsHowManyAreInside) {
  Gate gate(2, 8, 10);
  std::atomic<int> inside = 0;
  std::atomic<int> most = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 100; ++i) {
          const auto pass = gate.Enter("host");
          ASSERT_TRUE(pass);
          most = std::max<int>(most, ++inside);
          std::this_thread::yield();
          --inside;
        }
      });
    }
  }
  EXPECT_LE(most, 2);
}

TEST(GateTest, RefusesMoreThanMayWait) {
  Gate gate(1, 0, 2);
  std::optional<Result<Gate::Pass>> first(gate.Enter("host"));
  ASSERT_TRUE(*first);
  const auto second = gate.Enter("host");
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kResourceExhausted);
  first.reset();
  EXPECT_TRUE(gate.Enter("host"));
}

TEST(GateTest, LeavesRoomForOtherCallers) {
  Gate gate(4, 4, 2);
  const auto first = gate.Enter("a");
  std::optional<Result<Gate::Pass>> second(gate.Enter("a"));
  ASSERT_TRUE(*second);
  EXPECT_EQ(gate.Enter("a").error().code, Code::kResourceExhausted);
  EXPECT_TRUE(gate.Enter("b"));
  second.reset();
  EXPECT_TRUE(gate.Enter("a"));
}

TEST(GateTest, EndsAWaitThatNobodyWantsAnyMore) {
  Gate gate(1, 1, 2);
  const auto first = gate.Enter("host");
  {
    const Call call([]() -> Status { return Fail(Code::kCancelled, "gone"); });
    const auto second = gate.Enter("host");
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, Code::kCancelled);
  }
  // It no longer counts as waiting: the next one waits, and is not refused.
  const Call call([]() -> Status { return Fail(Code::kCancelled, "gone"); });
  EXPECT_EQ(gate.Enter("host").error().code, Code::kCancelled);
}

}  // namespace
}  // namespace ucudnn
