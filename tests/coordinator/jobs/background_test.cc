#include "coordinator/jobs/background.h"

#include <gtest/gtest.h>

#include <future>
#include <memory>

namespace ucudnn {
namespace {

TEST(BackgroundTest, RunsOnePieceOfWorkAtATime) {
  Background background;
  std::promise<void> go;
  std::atomic<int> runs = 0;
  ASSERT_TRUE(background.Begin([&] {
    go.get_future().wait();
    ++runs;
  }));
  EXPECT_FALSE(background.Begin([&] { ++runs; }));
  go.set_value();
  background.Await();
  EXPECT_EQ(runs, 1);
  EXPECT_TRUE(background.Begin([&] { ++runs; }));
  background.Await();
  EXPECT_EQ(runs, 2);
}

TEST(BackgroundTest, EndsItsWorkWhenItEnds) {
  auto background = std::make_unique<Background>();
  Status wanted;
  std::promise<void> begun;
  ASSERT_TRUE(background->Begin([&] {
    begun.set_value();
    while (wanted) {
      wanted = Call::Check();
      std::this_thread::yield();
    }
  }));
  begun.get_future().wait();
  background.reset();
  EXPECT_EQ(wanted.error().code, Code::kCancelled);
}

}  // namespace
}  // namespace ucudnn
