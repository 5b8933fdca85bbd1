#include "coordinator/single_flight.h"

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
          const SingleFlight::Turn turn(flights, "plan");
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
  const SingleFlight::Turn first(flights, "plan of vgg");
  const SingleFlight::Turn second(flights, "plan of resnet");
}

TEST(SingleFlightTest, LetsTheNextRunWhenOneEnds) {
  SingleFlight flights;
  auto first = std::make_unique<SingleFlight::Turn>(flights, "plan");
  std::atomic<bool> done = false;
  std::jthread second([&] {
    const SingleFlight::Turn turn(flights, "plan");
    done = true;
  });
  EXPECT_FALSE(done);
  first.reset();
  second.join();
  EXPECT_TRUE(done);
}

}  // namespace
}  // namespace ucudnn
