#include "base/plan/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ucudnn {
namespace {

using ::testing::HasSubstr;

TEST(BatchPolicyTest, IsReadBackFromItsName) {
  for (const BatchPolicy policy : kBatchPolicies) {
    const auto parsed = ParseBatchPolicy(Name(policy));
    ASSERT_TRUE(parsed) << parsed.error().message;
    EXPECT_EQ(*parsed, policy);
  }
}

TEST(BatchPolicyTest, IsOneOfThoseThatTheErrorNames) {
  EXPECT_EQ(BatchPolicyNames(), "all, powerOfTwo, undivided or adaptive");
  for (const char* text : {"", "All", "powersOfTwo", "adaptive "}) {
    const auto parsed = ParseBatchPolicy(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().code, Code::kInvalidArgument);
    EXPECT_THAT(parsed.error().message, HasSubstr(BatchPolicyNames()));
  }
}

TEST(AccuracyNoteTest, CountsKernelsWithAlgorithmsOfUnknownError) {
  MeasuredPoint known;
  known.error_ppt = 1;
  Profile kernels;
  kernels.kernels.resize(2);
  kernels.kernels[0].points = {known, MeasuredPoint()};
  kernels.kernels[1].points = {known};
  EXPECT_EQ(AccuracyNote(kernels),
            "accuracy not measured: 1 of 2 kernels have algorithms of unknown "
            "error");
  kernels.kernels[0].points.pop_back();
  EXPECT_EQ(AccuracyNote(kernels), "");
  EXPECT_EQ(AccuracyNote(Profile()), "");
}

}  // namespace
}  // namespace ucudnn
