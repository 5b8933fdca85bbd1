#include "base/text.h"

#include <gtest/gtest.h>

#include <string>

namespace ucudnn {
namespace {

TEST(TextTest, TellsUtf8FromOtherBytes) {
  for (const char* good :
       {"", "conv1", "a\tb", "é", "层", "\xF0\x9F\x98\x80", "\xC2\xA0"}) {
    EXPECT_TRUE(IsPlainText(good)) << good;
  }
  for (const char* bad :
       {"\n", "\r", "\x1B", "\x7F", "\x80", "\xC3", "\xC0\x80", "\xE0\x80\x80",
        "\xED\xA0\x80", "\xF0\x80\x80\x80", "\xF4\x90\x80\x80", "\xF5\x80",
        "\xC2\x85", "a\xE5\xB1"}) {
    EXPECT_FALSE(IsPlainText(bad)) << Excerpt(bad);
  }
  EXPECT_FALSE(IsPlainText(std::string_view("\0", 1)));
}

TEST(TextTest, QuotesAnythingAsPlainText) {
  EXPECT_EQ(Excerpt("conv1"), "conv1");
  EXPECT_EQ(Excerpt("a\nb\xFF"), "a\\x0Ab\\xFF");
  EXPECT_EQ(Excerpt("abcdef", 6), "abcdef");
  EXPECT_EQ(Excerpt("abcdefg", 6), "abcdef...");
  EXPECT_EQ(Excerpt("abcdeéf", 6), "abcde...");  // not half a character
  for (int byte = 0; byte < 256; ++byte) {
    EXPECT_TRUE(IsPlainText(Excerpt("é" + std::string(1, char(byte)) + "é")));
  }
}

TEST(TextTest, MeasuresUtf8Sequences) {
  EXPECT_EQ(Utf8Length("a"), 1U);
  EXPECT_EQ(Utf8Length("\n"), 1U);
  EXPECT_EQ(Utf8Length("\xC2\x85"), 2U);  // a control character
  EXPECT_EQ(Utf8Length("层次"), 3U);
  EXPECT_EQ(Utf8Length("\xF0\x9F\x98\x80"), 4U);
  for (const char* bad : {"\x80", "\xC0\x80", "\xE5\xB1", "\xF4\x90\x80\x80"}) {
    EXPECT_EQ(Utf8Length(bad), 0U) << Excerpt(bad);
  }
}

}  // namespace
}  // namespace ucudnn
