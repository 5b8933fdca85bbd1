#include "solver/check/validate_allocation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ucudnn {
namespace {

using ::testing::HasSubstr;

const std::vector<Buffer> kBuffers = {
    {0, 3, 4_B}, {3, 9, 4_B}, {0, 9, 4_B}, {9, 21, 4_B}, {0, 21, 4_B}};

Allocation Right() {
  return {.offsets = {8_B, 8_B, 4_B, 4_B, 0_B},
          .pool = 12_B,
          .load = 12_B,
          .lower_bound = 12_B,
          .proven = true};
}

std::string Verdict(const Allocation& allocation,
                    const AllocationOptions& options = {}) {
  const Status valid = ValidateAllocation(allocation, kBuffers, options);
  if (valid) return "ok";
  EXPECT_EQ(valid.error().code, Code::kInternal);
  return valid.error().message;
}

TEST(ValidateAllocationTest, AcceptsAValidAllocation) {
  EXPECT_EQ(Verdict(Right()), "ok");
  EXPECT_EQ(Verdict(Right(), {.capacity = 12_B, .alignment = 4_B}), "ok");
}

TEST(ValidateAllocationTest, RejectsOverlappingBuffers) {
  Allocation wrong = Right();
  wrong.offsets[2] = 6_B;
  EXPECT_THAT(Verdict(wrong), HasSubstr("overlap"));
}

TEST(ValidateAllocationTest, RejectsInvalidOffsets) {
  Allocation wrong = Right();
  wrong.offsets[0] = Bytes(-4);
  EXPECT_THAT(Verdict(wrong), HasSubstr("buffer 0 has offset -4"));
  wrong = Right();
  wrong.offsets.pop_back();
  EXPECT_THAT(Verdict(wrong), HasSubstr("4 offsets"));
  EXPECT_THAT(Verdict(Right(), {.capacity = {}, .alignment = 8_B}),
              HasSubstr("alignment is 8"));
  EXPECT_THAT(Verdict(Right(), {.capacity = 11_B, .alignment = 1_B}),
              HasSubstr("exceeds the capacity"));
}

TEST(ValidateAllocationTest, RejectsWrongTotals) {
  Allocation wrong = Right();
  wrong.pool = 13_B;
  EXPECT_THAT(Verdict(wrong), HasSubstr("pool is 12, not 13"));
  wrong = Right();
  wrong.load = 8_B;
  EXPECT_THAT(Verdict(wrong), HasSubstr("load is 12, not 8"));
  wrong = Right();
  wrong.lower_bound = 11_B;
  EXPECT_THAT(Verdict(wrong), HasSubstr("'proven'"));
  wrong = Right();
  wrong.proven = false;
  EXPECT_THAT(Verdict(wrong), HasSubstr("'proven' is false"));
  // A pool larger than needed is valid, but not proven minimal.
  wrong = Right();
  wrong.offsets[3] = 20_B;
  wrong.pool = 24_B;
  wrong.lower_bound = 12_B;
  wrong.proven = false;
  EXPECT_EQ(Verdict(wrong), "ok");
}

}  // namespace
}  // namespace ucudnn
