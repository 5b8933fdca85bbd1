#include "base/files/json_object.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace ucudnn {
namespace {

using ::testing::HasSubstr;

std::string Nested(std::size_t depth) {
  return std::string(depth, '[') + std::string(depth, ']');
}

TEST(ParseJsonTest, RefusesTextsThatNestDeeperThanAnyMessage) {
  EXPECT_TRUE(ParseJson(Nested(64)));
  for (const std::size_t depth : {66, 1'000'000}) {
    const auto json = ParseJson(Nested(depth));
    ASSERT_FALSE(json);
    EXPECT_EQ(json.error().code, Code::kInvalidArgument);
    EXPECT_THAT(json.error().message, HasSubstr("nests more than 64"));
  }
}

TEST(ParseJsonTest, TakesTimeInProportionToTheText) {
  std::string text = "[{}";
  for (int i = 0; i < 1'000'000; ++i) text += ",{}";
  const auto json = ParseJson(text + "]");  // in minutes if quadratic
  ASSERT_TRUE(json);
  EXPECT_EQ(json->size(), 1'000'001U);
}

TEST(ParseJsonTest, TellsWhereATextIsNoJson) {
  const auto json = ParseJson("{\n  \"a\" 1}");
  ASSERT_FALSE(json);
  EXPECT_THAT(json.error().message, HasSubstr("not JSON: "));
  EXPECT_THAT(json.error().message, HasSubstr("line 2, column 7"));
}

}  // namespace
}  // namespace ucudnn
