#include "base/service/log.h"

#include <gtest/gtest.h>

#include <string>

namespace ucudnn {
namespace {

TEST(LogTest, QuotesValuesAsTheyAre) {
  EXPECT_EQ(Quoted("no device is online; µs"), "\"no device is online; µs\"");
  EXPECT_EQ(Quoted(""), "\"\"");
}

TEST(LogTest, EscapesWhatWouldEndAValueOrALine) {
  EXPECT_EQ(Quoted("near \"FROM\"\n\tat C:\\x"),
            R"("near \"FROM\"\n\x09at C:\\x")");
  EXPECT_EQ(Quoted(std::string("\0\r\x7F", 3)), R"("\x00\x0d\x7f")");
}

}  // namespace
}  // namespace ucudnn
