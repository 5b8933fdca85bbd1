#include "solver/memory/memory_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ucudnn {
namespace {

using std::chrono_literals::operator""us;
using Fit = MemoryPool::Fit;

MemoryRange Range(std::int64_t offset, std::int64_t bytes) {
  return {Bytes(offset), Bytes(bytes)};
}

// Of 100 bytes those in [10, 40), [50, 60) and [70, 90) are free.
MemoryPool WithHoles(Fit fit) {
  MemoryPool pool(Bytes(100), fit, Bytes(1));
  for (const MemoryRange taken :
       {Range(0, 10), Range(40, 10), Range(60, 10), Range(90, 10)}) {
    pool.TakeAt(taken);
  }
  return pool;
}

TEST(MemoryPoolTest, FindsTheRangeOfItsFit) {
  const auto offset = [](Fit fit, std::int64_t size) {
    return WithHoles(fit).Take(Bytes(size), 0us)->offset;
  };
  EXPECT_EQ(offset(Fit::kFirst, 20), Bytes(10));
  EXPECT_EQ(offset(Fit::kBest, 15), Bytes(70));
  EXPECT_EQ(offset(Fit::kExactThenFirst, 20), Bytes(70));
  EXPECT_EQ(offset(Fit::kExactThenFirst, 15), Bytes(10));
}

TEST(MemoryPoolTest, GivesWhatIsReleasedFromThenOn) {
  MemoryPool pool(Bytes(100), Fit::kFirst, Bytes(1));
  pool.TakeAt(Range(0, 100));
  pool.Release(Range(20, 30), 40us, 7);
  EXPECT_FALSE(pool.Take(Bytes(30), 39us));
  EXPECT_EQ(pool.NextRelease(), 7u);
  EXPECT_EQ(pool.Take(Bytes(30), 40us), Range(20, 30));
}

TEST(MemoryPoolTest, TakesAReleasedRangeBeforeItsTimeAndKeepsTheRest) {
  MemoryPool pool(Bytes(100), Fit::kFirst, Bytes(1));
  pool.TakeAt(Range(0, 60));
  pool.Release(Range(20, 30), 40us, 7);
  pool.Release(Range(50, 10), 50us, 8);
  pool.TakeReleased(Range(30, 25));
  // [20, 30) and [55, 60) are to be released, [60, 100) is free.
  EXPECT_EQ(pool.LargestFree(39us), Bytes(40));
  EXPECT_EQ(pool.Take(Bytes(10), 40us), Range(20, 10));
  EXPECT_EQ(pool.LargestFree(50us), Bytes(45));
}

}  // namespace
}  // namespace ucudnn
