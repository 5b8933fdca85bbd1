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

}  // namespace
}  // namespace ucudnn
