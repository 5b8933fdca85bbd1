#include "client/session/step_log.h"

#include <gtest/gtest.h>

#include <thread>

namespace ucudnn {
namespace {

TEST(StepLogTest, GivesStepsInOrderAndNumbersThemByRevision) {
  StepLog log;
  EXPECT_EQ(log.Take(), std::nullopt);
  log.Add(1, Nanoseconds(10));
  log.Add(1, Nanoseconds(11));
  log.Add(2, Nanoseconds(12));
  EXPECT_EQ(log.Take(), (TakenStep{1, 0, Nanoseconds(10)}));
  EXPECT_EQ(log.Take(), (TakenStep{1, 1, Nanoseconds(11)}));
  EXPECT_EQ(log.Take(), (TakenStep{2, 0, Nanoseconds(12)}));
  EXPECT_EQ(log.Take(), std::nullopt);
}

TEST(StepLogTest, CountsStepsItHasNoRoomFor) {
  StepLog log;
  for (std::size_t i = 0; i < StepLog::kCapacity + 5; ++i) {
    log.Add(1, Nanoseconds(1));
  }
  for (std::size_t i = 0; i < StepLog::kCapacity; ++i) {
    ASSERT_EQ(log.Take()->index, static_cast<std::int64_t>(i));
  }
  EXPECT_EQ(log.Take(), std::nullopt);
  log.Add(1, Nanoseconds(2));
  EXPECT_EQ(log.Take()->index,
            static_cast<std::int64_t>(StepLog::kCapacity + 5));
}

TEST(StepLogTest, PassesEveryStepFromOneThreadToAnother) {
  constexpr std::int64_t kSteps = 200'000;
  StepLog log;
  std::thread trains([&] {
    for (std::int64_t i = 0; i < kSteps; ++i) log.Add(1, Nanoseconds(i));
  });
  std::int64_t last = -1;
  const auto look = [&] {
    for (auto step = log.Take(); step; step = log.Take()) {
      // No step is torn, repeated or out of order.
      ASSERT_EQ(step->time.count(), step->index);
      ASSERT_GT(step->index, last);
      last = step->index;
    }
  };
  for (int i = 0; i < 1000; ++i) look();
  trains.join();
  look();
  EXPECT_GE(last, 0);
}

}  // namespace
}  // namespace ucudnn
