#include "solver/memory/modnn/schemes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ucudnn {
namespace {

using std::chrono_literals::operator""us;
using ::testing::ElementsAre;
using SegmentKind = PoolSegment::Kind;

// Segments of these sizes, each its own block, one after the other.
class Pool {
 public:
  Pool& Free(std::int64_t size, Nanoseconds ready = 0us) {
    return Add({{}, SegmentKind::kFree, ready}, size);
  }
  Pool& Taken(std::int64_t size) {
    return Add({{}, SegmentKind::kTaken}, size);
  }
  Pool& Evictable(std::int64_t size, Nanoseconds copy,
                  Nanoseconds ready = 0us) {
    return Add({{}, SegmentKind::kEvictable, ready, copy}, size);
  }
  const std::vector<PoolSegment>& segments() const { return segments_; }

 private:
  Pool& Add(PoolSegment segment, std::int64_t size) {
    segment.range = {end_, Bytes(size)};
    segment.block = segments_.size() + 1;
    end_ += Bytes(size);
    segments_.push_back(segment);
    return *this;
  }

  std::vector<PoolSegment> segments_;
  Bytes end_;
};

// Blocks 1 to 6 of figure 6, where 4 must stay.
Pool Figure6(Nanoseconds copy1, Nanoseconds copy5) {
  Pool pool;
  pool.Evictable(2, copy1).Evictable(2, 10us).Evictable(1, 10us);
  pool.Taken(1).Evictable(3, copy5).Evictable(1, 10us);
  return pool;
}

TEST(OffloadSchemeTest, TakesTheSchemeOfLeastDelayOfFigure6) {
  const auto low =
      FindOffloadScheme(Figure6(10us, 20us).segments(), Bytes(4), 0us, 0us);
  ASSERT_TRUE(low);
  EXPECT_EQ(low->offset, Bytes(0));
  EXPECT_THAT(low->blocks, ElementsAre(1, 2));
  EXPECT_EQ(low->delay, 20us);
  const auto high =
      FindOffloadScheme(Figure6(30us, 20us).segments(), Bytes(4), 0us, 0us);
  ASSERT_TRUE(high);
  EXPECT_EQ(high->offset, Bytes(6));
  EXPECT_THAT(high->blocks, ElementsAre(5, 6));
  EXPECT_EQ(high->delay, 30us);
}

TEST(OffloadSchemeTest, PrefersWhatTheHostHasAlready) {
  const Pool pool = Figure6(10us, 0us);
  const auto scheme = FindOffloadScheme(pool.segments(), Bytes(3), 0us, 0us);
  ASSERT_TRUE(scheme);
  EXPECT_THAT(scheme->blocks, ElementsAre(5));
  EXPECT_EQ(scheme->delay, 0us);
}

TEST(OffloadSchemeTest, CopiesFollowTheLinkAndTheirData) {
  Pool pool;
  pool.Evictable(1, 10us, 50us).Evictable(1, 10us, 20us);
  const auto delay = [&](Nanoseconds link_free, Nanoseconds now) {
    return FindOffloadScheme(pool.segments(), Bytes(2), link_free, now)->delay;
  };
  // From 50 to 60 and 60 to 70.
  EXPECT_EQ(delay(0us, 50us), 20us);
  EXPECT_EQ(delay(65us, 50us), 35us);
  // Figure 3 (b): done before anybody asks.
  EXPECT_EQ(delay(0us, 100us), 0us);
}

TEST(OffloadSchemeTest, JoinsFreeNeighboursAndWaitsForTheirRelease) {
  Pool pool;
  pool.Free(1, 30us).Evictable(1, 10us).Free(2);
  const auto scheme = FindOffloadScheme(pool.segments(), Bytes(4), 0us, 20us);
  ASSERT_TRUE(scheme);
  EXPECT_THAT(scheme->blocks, ElementsAre(2));
  EXPECT_EQ(scheme->delay, 10us);
  // Ties: the lowest.
  EXPECT_EQ(FindOffloadScheme(pool.segments(), Bytes(1), 0us, 40us)->offset,
            Bytes(0));
}

TEST(OffloadSchemeTest, ThereMayBeNone) {
  const Pool pool = Figure6(10us, 10us);
  EXPECT_FALSE(FindOffloadScheme(pool.segments(), Bytes(6), 0us, 0us));
  EXPECT_FALSE(FindOffloadScheme({}, Bytes(1), 0us, 0us));
}

}  // namespace
}  // namespace ucudnn
