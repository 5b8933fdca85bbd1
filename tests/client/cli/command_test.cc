#include "client/cli/command.h"

#include <gtest/gtest.h>

#include <string>

namespace ucudnn::ctl {
namespace {

TEST(CommandTest, ShowsTextsOnOneLineWithoutControlCharacters) {
  EXPECT_EQ(OneLine("conv1 é 层 × …"), "conv1 é 层 × …");
  EXPECT_EQ(OneLine("\x1B[31mred\nline2\r\t"), R"(\x1b[31mred\nline2\x0d\t)");
  EXPECT_EQ(OneLine(std::string("a\0b\x7F", 4)), R"(a\x00b\x7f)");
  // A control sequence's introducer, as UTF-8 and as it is.
  EXPECT_EQ(OneLine("\xC2\x9B"
                    "31m \x9B"),
            R"(\xc2\x9b31m \x9b)");
  EXPECT_EQ(OneLine("\xE5\xB1"), R"(\xe5\xb1)");
}

TEST(CommandTest, KeepsRowsOfTablesWhole) {
  Table table({"NAME", "STATE\n"});
  table.AddRow({"a\nb", "\x1B[2J"});
  EXPECT_EQ(table.Text({.width = 0}),
            "NAME  STATE\\n\n"
            "a\\nb  \\x1b[2J\n");
}

}  // namespace
}  // namespace ucudnn::ctl
