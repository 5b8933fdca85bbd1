#include "solver/arena/allocation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "solver/check/validate_allocation.h"

namespace ucudnn {
namespace {

using testing::HasSubstr;

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

TEST(AllocationTest, NeedsNothingForNothing) {
  const Allocation allocation = Allocated({});
  EXPECT_EQ(allocation.pool, 0_B);
  EXPECT_TRUE(allocation.proven);
}

TEST(AllocationTest, LetsTouchingLifetimesShareAnOffset) {
  EXPECT_EQ(Allocated({{0, 5, 7_B}, {5, 9, 7_B}}).pool, 7_B);
  EXPECT_EQ(Allocated({{0, 6, 7_B}, {5, 9, 7_B}}).pool, 14_B);
}

TEST(AllocationTest, GivesRoomToWhatIsNeverLive) {
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

TEST(AllocationTest, NamesTheBoundWhereTheCapacityIsTooSmall) {
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
