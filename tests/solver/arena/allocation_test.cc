#include "solver/arena/allocation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stop_token>
#include <string>
#include <vector>

#include "solver/check/validate_allocation.h"
#include "tests/support/paths.h"

namespace ucudnn {
namespace {

using ::testing::HasSubstr;

// The header's drawing.
const std::vector<Buffer> kDrawn = {
    {0, 3, 4_B}, {3, 9, 4_B}, {0, 9, 4_B}, {9, 21, 4_B}, {0, 21, 4_B}};

Allocation Allocated(const std::vector<Buffer>& buffers,
                     const AllocationOptions& options = {}) {
  const auto allocation = Allocate(buffers, options, {});
  EXPECT_TRUE(allocation) << allocation.error().message;
  if (!allocation) return {};
  const Status valid = ValidateAllocation(*allocation, buffers, options);
  EXPECT_TRUE(valid) << valid.error().message;
  return *allocation;
}

TEST(AllocationTest, ReachesTheLoadOfTheDrawnExample) {
  const Allocation allocation = Allocated(kDrawn);
  EXPECT_EQ(allocation.load, 12_B);
  EXPECT_EQ(allocation.pool, 12_B);
  EXPECT_TRUE(allocation.proven);
}

// From vDNN, section 6.1: sizes sum to 12 at each time, yet no pool of 12 is
// large enough. A pool of 13; a digit is a buffer's index, a dot is free:
//
//   time 1   000222111.333
//   time 2   465222111.333
//   time 3   .652227788333
//   time 4   .699999988333
const std::vector<Buffer> kAboveLoad = {
    {1, 2, 3_B}, {1, 3, 3_B}, {1, 4, 3_B}, {1, 5, 3_B}, {2, 3, 1_B},
    {2, 4, 1_B}, {2, 5, 1_B}, {3, 4, 2_B}, {3, 5, 2_B}, {4, 5, 6_B}};

TEST(AllocationTest, ProvesAPoolAboveTheLoad) {
  const Allocation allocation = Allocated(kAboveLoad);
  EXPECT_EQ(allocation.load, 12_B);
  EXPECT_EQ(allocation.pool, 13_B);
  EXPECT_EQ(allocation.lower_bound, 13_B);
  EXPECT_TRUE(allocation.proven);
}

TEST(AllocationTest, NamesTheSmallestPoolIfTheCapacityIsTheLoad) {
  const auto allocation =
      Allocate(kAboveLoad, {.capacity = 12_B, .alignment = 1_B}, {});
  ASSERT_FALSE(allocation);
  EXPECT_EQ(allocation.error().code, Code::kFailedPrecondition);
  EXPECT_EQ(allocation.error().message,
            "the buffers do not fit the capacity of 12 bytes; the smallest "
            "that would do is 13");
}

TEST(AllocationTest, NamesTheKnownBoundsIfTheLimitEndsTheSearch) {
  const auto allocation =
      Allocate(kAboveLoad, {}, {.max_nodes = 0, .stop = {}});
  ASSERT_TRUE(allocation);
  EXPECT_GE(allocation->pool, 13_B);
  EXPECT_EQ(allocation->lower_bound, 12_B);
  EXPECT_FALSE(allocation->proven);
  const auto within = Allocate(kAboveLoad, {.capacity = 12_B, .alignment = 1_B},
                               {.max_nodes = 0, .stop = {}});
  ASSERT_FALSE(within);
  EXPECT_THAT(within.error().message,
              AllOf(HasSubstr("within the limits"), HasSubstr("would do"),
                    HasSubstr("at least 12")));
}

TEST(AllocationTest, ReturnsTheBestPoolWhenStopped) {
  std::stop_source stop;
  stop.request_stop();
  const auto allocation =
      Allocate(kAboveLoad, {},
               {.max_nodes = Bytes::Max().count(), .stop = stop.get_token()});
  ASSERT_TRUE(allocation);
  EXPECT_FALSE(allocation->proven);
}

TEST(AllocationTest, PlacesTooManyBuffersToSearchGreedily) {
  std::vector<Buffer> buffers;
  for (std::int64_t i = 0; i < 5000; ++i) {
    buffers.push_back({i, i + 2000, Bytes(1 + i % 7)});
  }
  const Allocation allocation = Allocated(buffers);
  EXPECT_LE(allocation.pool, allocation.load * 2);
}

// The public instances are not in the repository.
TEST(AllocationTest, FitsThePublicInstancesIntoTheirCapacity) {
  const auto folder = test::PublicDataPath("minimalloc/challenging/");
  if (!folder) GTEST_SKIP() << "UCUDNN_PUBLIC_DATA is not set";
  for (const char name : std::string("ABCDEFGHIJK")) {
    SCOPED_TRACE(name);
    const auto read =
        ReadBuffersFile(*folder + std::string(1, name) + ".1048576.csv");
    ASSERT_TRUE(read) << read.error().message;
    const Allocation allocation =
        Allocated(read->buffers, {.capacity = 1048576_B, .alignment = 1_B});
    EXPECT_LE(allocation.pool, 1048576_B);
  }
}

TEST(AllocationTest, ReachesTheLoadOfAPublicInstanceBelowItsCapacity) {
  const auto file =
      test::PublicDataPath("minimalloc/challenging/C.1048576.csv");
  if (!file) GTEST_SKIP() << "UCUDNN_PUBLIC_DATA is not set";
  const auto read = ReadBuffersFile(*file);
  ASSERT_TRUE(read) << read.error().message;
  const Allocation allocation = Allocated(read->buffers);
  EXPECT_EQ(allocation.pool, 1039360_B);
  EXPECT_TRUE(allocation.proven);
}

TEST(AllocationTest, NeedsNoPoolWithoutBuffers) {
  const Allocation allocation = Allocated({});
  EXPECT_EQ(allocation.pool, 0_B);
  EXPECT_TRUE(allocation.proven);
}

TEST(AllocationTest, LetsTouchingLifetimesShareAnOffset) {
  EXPECT_EQ(Allocated({{0, 5, 7_B}, {5, 9, 7_B}}).pool, 7_B);
  EXPECT_EQ(Allocated({{0, 6, 7_B}, {5, 9, 7_B}}).pool, 14_B);
}

TEST(AllocationTest, HasRoomForBuffersThatAreNeverLive) {
  const Allocation allocation = Allocated({{0, 2, 3_B}, {1, 1, 8_B}});
  EXPECT_EQ(allocation.load, 3_B);
  EXPECT_EQ(allocation.pool, 8_B);
  EXPECT_TRUE(allocation.proven);
}

TEST(AllocationTest, AlignsOffsets) {
  const Allocation allocation =
      Allocated({{0, 2, 3_B}, {0, 2, 300_B}, {0, 2, 256_B}},
                {.capacity = {}, .alignment = 256_B});
  EXPECT_EQ(allocation.pool, 1024_B);
}

TEST(AllocationTest, NamesTheBoundIfTheCapacityIsTooSmall) {
  const auto allocation =
      Allocate(kDrawn, {.capacity = 11_B, .alignment = 1_B}, {});
  ASSERT_FALSE(allocation);
  EXPECT_EQ(allocation.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(allocation.error().message,
              AllOf(HasSubstr("11 bytes"), HasSubstr("12")));
}

TEST(AllocationTest, RefusesMalformedBuffers) {
  const auto code = [](const std::vector<Buffer>& buffers,
                       const AllocationOptions& options = {}) {
    const auto allocation = Allocate(buffers, options, {});
    return allocation ? Code::kOk : allocation.error().code;
  };
  EXPECT_EQ(code({{3, 2, 1_B}}), Code::kInvalidArgument);
  EXPECT_EQ(code({{0, 2, Bytes(-1)}}), Code::kInvalidArgument);
  EXPECT_EQ(code(kDrawn, {.capacity = {}, .alignment = 0_B}),
            Code::kInvalidArgument);
  EXPECT_EQ(code(kDrawn, {.capacity = 0_B, .alignment = 1_B}),
            Code::kInvalidArgument);
  EXPECT_EQ(code({{0, 2, Bytes::Max()}}), Code::kOutOfRange);
  EXPECT_EQ(code({{0, 2, Bytes(1LL << 60)}, {4, 5, 1_B}}), Code::kOutOfRange);
}

}  // namespace
}  // namespace ucudnn
