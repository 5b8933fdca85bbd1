#include "base/units.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace ucudnn {
namespace {

using ::testing::HasSubstr;
using std::chrono_literals::operator""ns;

TEST(BytesTest, AreReadAsPeopleWriteThem) {
  for (const auto& [text, bytes] : {std::pair{"0", std::int64_t{0}},
                                    {"1048576", 1048576},
                                    {"8B", 8},
                                    {"8MiB", 8 << 20},
                                    {"1.5GiB", 3LL << 29},
                                    {"64 KiB", 64 << 10},
                                    {"8MB", 8'000'000},
                                    {"2kB", 2000},
                                    {"2KB", 2000},
                                    {"4mb", 4'000'000},
                                    {"64Mib", 64 << 20},
                                    {"4Mi", 4 << 20},
                                    {"0.5KiB", 512},
                                    {"0.3KiB", 307},
                                    {"3.6GiB", 3865470566},
                                    {"1.001GB", 1'001'000'000},
                                    {"0.9999999999999999999TB", 999999999999},
                                    {"2.0", 2},
                                    {"1TiB", 1LL << 40},
                                    {"3TB", 3'000'000'000'000},
                                    {"4611686018427387904", 1LL << 62},
                                    {"9007199254740993", 9007199254740993}}) {
    const auto read = ParseBytes(text);
    ASSERT_TRUE(read) << text;
    EXPECT_EQ(read->count(), bytes) << text;
  }
}

TEST(BytesTest, RefuseWhatIsNotASize) {
  for (const char* text :
       {"",      " ",      "x",   "-1",      "+1",  "MiB",   "8mibi",
        "8M",    "8 MiB ", "1e6", "0x10",    "1.5", "1.5B",  ".5MiB",
        "5.MiB", "nan",    "inf", "1..5KiB", ".",   "1,5GiB"}) {
    const auto read = ParseBytes(text);
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().code, Code::kInvalidArgument) << text;
    EXPECT_THAT(read.error().message, HasSubstr("8MiB"));
  }
  for (const char* text : {"4611686018427387905", "99999999999999999999",
                           "4194305TiB", "5000000.5TiB"}) {
    EXPECT_EQ(ParseBytes(text).error().code, Code::kOutOfRange) << text;
  }
}

TEST(BytesTest, ReadBackAsTheyAreWritten) {
  EXPECT_EQ(FormatBytes(64_MiB), "64MiB");
  EXPECT_EQ(FormatBytes(1000_B), "1000");
  EXPECT_EQ(FormatBytes(0_B), "0");
  std::mt19937_64 random(5);
  for (int i = 0; i < 5000; ++i) {
    const Bytes bytes(static_cast<std::int64_t>(random() >> (2 + i % 60))
                      << i % 3 * 10);
    if (bytes.count() < 0 || bytes > Bytes(std::int64_t{1} << 62)) continue;
    EXPECT_EQ(ParseBytes(FormatBytes(bytes)).value(), bytes);
  }
}

TEST(BytesTest, HaveThreeDigitsForPeople) {
  EXPECT_EQ(HumanBytes(0_B), "0 B");
  EXPECT_EQ(HumanBytes(1023_B), "1023 B");
  EXPECT_EQ(HumanBytes(1536_B), "1.50 KiB");
  EXPECT_EQ(HumanBytes(64_MiB), "64.0 MiB");
  EXPECT_EQ(HumanBytes(200_GiB), "200 GiB");
}

TEST(IntegerTest, IsReadWithinItsRange) {
  EXPECT_EQ(ParseInteger("0", 0, 9).value(), 0);
  EXPECT_EQ(ParseInteger("9", 0, 9).value(), 9);
  EXPECT_EQ(ParseInteger("-3", -5, 9).value(), -3);
  for (const char* text : {"", "10", "-1", "+1", " 1", "1 ", "1.0", "1e0", "x",
                           "99999999999999999999"}) {
    const auto read = ParseInteger(text, 0, 9);
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().message,
              fmt::format("'{}' is not a whole number from 0 to 9", text));
  }
}

TEST(TimeTest, IsReadToTheNanosecond) {
  EXPECT_EQ(ParseMicroseconds("39.104").value(), 39'104ns);
  EXPECT_EQ(ParseMicroseconds("1e3").value(), 1'000'000ns);
  EXPECT_EQ(ParseMicroseconds("0").value(), 0ns);
  EXPECT_EQ(ParseMicroseconds("0.0004").value(), 0ns);
  EXPECT_EQ(ParseMicroseconds("0.0006").value(), 1ns);
  EXPECT_EQ(ParseMilliseconds("203.7894561").value(), 203'789'456ns);
  for (const char* text : {"", "nan", "inf", "-inf", "-1", "1us", " 1", "+1",
                           "0x1", "1,5", "1e999"}) {
    EXPECT_EQ(ParseMicroseconds(text).error().code, Code::kInvalidArgument)
        << text;
    EXPECT_EQ(ParseMilliseconds(text).error().code, Code::kInvalidArgument)
        << text;
  }
  EXPECT_EQ(ParseMicroseconds("1e300").error().code, Code::kOutOfRange);
  EXPECT_EQ(ParseMilliseconds("1e300").error().code, Code::kOutOfRange);
  EXPECT_EQ(FromMicroseconds(-0.1).error().code, Code::kInvalidArgument);
}

TEST(TimeTest, ReadsBackAsItIsWritten) {
  EXPECT_EQ(FormatMicroseconds(39'104ns), "39.104");
  EXPECT_EQ(FormatMicroseconds(20'000ns), "20");
  EXPECT_EQ(FormatMicroseconds(1ns), "0.001");
  EXPECT_EQ(FormatMicroseconds(1'500ns), "1.5");
  std::mt19937_64 random(6);
  for (int i = 0; i < 20000; ++i) {
    const Nanoseconds time(
        static_cast<std::int64_t>(random() >> (13 + i % 51)));
    EXPECT_EQ(ParseMicroseconds(FormatMicroseconds(time)).value(), time);
    EXPECT_EQ(FromMicroseconds(Microseconds(time)).value(), time);
  }
}

TEST(TimeTest, HasThreeDigitsForPeople) {
  EXPECT_EQ(HumanTime(999ns), "999 ns");
  EXPECT_EQ(HumanTime(39'104ns), "39.1 us");
  EXPECT_EQ(HumanTime(20'512'000ns), "20.5 ms");
  EXPECT_EQ(HumanTime(1'250'000'000ns), "1.25 s");
}

}  // namespace
}  // namespace ucudnn
