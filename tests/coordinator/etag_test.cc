#include "coordinator/rest/etag.h"

#include <gtest/gtest.h>

namespace ucudnn {
namespace {

TEST(NamesTagTest, FindsTheTagInAList) {
  EXPECT_TRUE(NamesTag("\"a\"", "\"a\""));
  EXPECT_TRUE(NamesTag("W/\"a\"", "\"a\""));
  EXPECT_TRUE(NamesTag("\"b\", W/\"a\" ,\"c\"", "\"a\""));
  EXPECT_TRUE(NamesTag(" * ", "\"a\""));
  EXPECT_FALSE(NamesTag("", "\"a\""));
  EXPECT_FALSE(NamesTag("a, \"ab\",", "\"a\""));
}

}  // namespace
}  // namespace ucudnn
