#include "coordinator/plans/single_flight.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

namespace ucudnn {
namespace {

TEST(SingleFlightTest, RunsEqualCallsOneAfterTheOther) {
  SingleFlight flights;
  std::atomic<int> running = 0;
  std::atomic<int> most = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 200; ++i) {
          const auto turn = flights.Take("plan");
          most = std::max<int>(most, ++running);
          std::this_thread::yield();
          --running;
        }
      });
    }
  }
  EXPECT_EQ(most, 1);
}

TEST(SingleFlightTest, RunsDifferentCallsConcurrently) {
  SingleFlight flights;
  const auto first = flights.Take("plan of vgg");
  const auto second = flights.Take("plan of resnet");
  EXPECT_TRUE(first);
  EXPECT_TRUE(second);
}

TEST(SingleFlightTest, LetsTheNextRunWhenOneEnds) {
  SingleFlight flights;
  std::optional<SingleFlight::Turn> first(flights.Take("plan").value());
  std::atomic<bool> done = false;
  std::jthread second([&] {
    const auto turn = flights.Take("plan");
    done = true;
  });
  EXPECT_FALSE(done);
  first.reset();
  second.join();
  EXPECT_TRUE(done);
}

TEST(SingleFlightTest, EndsAWaitThatNobodyWantsAnyMore) {
  SingleFlight flights;
  const auto first = flights.Take("plan");
  const Call call([]() -> Status { return Fail(Code::kCancelled, "gone"); });
  const auto second = flights.Take("plan");
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kCancelled);
}

}  // namespace
}  // namespace ucudnn
