#include "base/files/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ucudnn {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// All rows of a table with the columns a and b, or the first error.
Result<std::vector<std::string>> Rows(std::string_view text) {
  UCUDNN_ASSIGN_OR_RETURN(CsvReader csv, CsvReader::Open(text, "t.csv"));
  UCUDNN_ASSIGN_OR_RETURN(const CsvColumn a, csv.Require("a"));
  UCUDNN_ASSIGN_OR_RETURN(const CsvColumn b, csv.Require("b"));
  std::vector<std::string> rows;
  while (true) {
    UCUDNN_ASSIGN_OR_RETURN(const bool more, csv.Next());
    if (!more) return rows;
    rows.push_back(
        fmt::format("{}:{}|{}", csv.line(), csv.Field(a), csv.Field(b)));
  }
}

std::string RowsError(std::string_view text) {
  const auto rows = Rows(text);
  if (rows) return "no error";
  EXPECT_EQ(rows.error().code, Code::kInvalidArgument);
  return rows.error().message;
}

TEST(CsvTest, FindsColumnsByNameAndIgnoresTheRest) {
  EXPECT_THAT(Rows("x,b,a\n1,2,3\n4,5,6\n").value(),
              ElementsAre("2:3|2", "3:6|5"));
}

TEST(CsvTest, AcceptsEveryLineEnd) {
  EXPECT_THAT(Rows("\xEF\xBB\xBF"
                   "a,b\r\n1,2\r\n\r\n\n3,4")
                  .value(),
              ElementsAre("2:1|2", "5:3|4"));
}

TEST(CsvTest, UnquotesFields) {
  EXPECT_THAT(
      Rows("\"a\",b\n\"x,y\",\"say \"\"hi\"\"\"\n\"\",\"\"\"\"\n").value(),
      ElementsAre("2:x,y|say \"hi\"", "3:|\""));
}

TEST(CsvTest, ReadsEmptyFields) {
  EXPECT_THAT(Rows("a,b\n,\n").value(), ElementsAre("2:|"));
}

TEST(CsvTest, SaysHowToSaveWhatSpreadsheetsWrite) {
  EXPECT_THAT(RowsError(std::string_view("\xFF\xFE"
                                         "a\0,\0b\0\n\0",
                                         10)),
              AllOf(HasSubstr("UTF-16"), HasSubstr("CSV UTF-8")));
  EXPECT_THAT(RowsError("a;b\n1;2\n"),
              HasSubstr("t.csv:1: its columns are separated by ';'"));
  EXPECT_THAT(RowsError("a\tb\n"), HasSubstr("tabs"));
}

TEST(CsvTest, RefusesWhatIsNotATable) {
  EXPECT_THAT(RowsError(""), AllOf(StartsWith("t.csv: "), HasSubstr("empty")));
  EXPECT_THAT(RowsError("\n\r\n"), HasSubstr("it is empty"));
  EXPECT_THAT(RowsError("a,c\n"),
              HasSubstr("there is no column 'b'; the header names a, c"));
  EXPECT_THAT(RowsError("a,b,a\n"), HasSubstr("names column 'a' twice"));
  EXPECT_THAT(RowsError("a,b\n1,2\n\n3\n"),
              AllOf(StartsWith("t.csv:4: "), HasSubstr("has 1 fields; 2 are")));
  EXPECT_THAT(RowsError("a,b\n1,2,3\n"), HasSubstr("has 3 fields"));
}

TEST(CsvTest, RefusesMisplacedQuotes) {
  EXPECT_THAT(RowsError("a,b\n\"1,2\n"), HasSubstr("not closed on its line"));
  EXPECT_THAT(RowsError("a,b\n\"1\"x,2\n"),
              HasSubstr("after its closing quote"));
  EXPECT_THAT(RowsError("a,b\n1\"x,2\n"), HasSubstr("has a quote inside"));
}

TEST(CsvTest, RefusesWhatIsNotPlainText) {
  EXPECT_THAT(RowsError("a,b\n1,\xFFz\n"),
              AllOf(StartsWith("t.csv:2: "), HasSubstr("'1,\\xFFz'")));
  EXPECT_THAT(RowsError(std::string_view("a,b\n1,\0\n", 8)),
              HasSubstr("\\x00"));
  EXPECT_THAT(RowsError("a,b\n1,\x1B[31m\n"), HasSubstr("\\x1B[31m"));
  EXPECT_THAT(RowsError("a,b\r1,2\r"), HasSubstr("\\x0D"));
  EXPECT_THAT(Rows("a,b\né,\t\n").value(), ElementsAre("2:é|\t"));
}

TEST(CsvTest, BoundsTheLengthOfALine) {
  const std::string longest(CsvReader::kMaxLineBytes - 2, 'x');
  EXPECT_TRUE(Rows("a,b\n1," + longest + "\r\n"));
  EXPECT_TRUE(Rows("a,b\n1," + longest));
  EXPECT_THAT(RowsError("a,b\n1,x" + longest + "\r\n"),
              HasSubstr("longer than 65536"));
  EXPECT_THAT(RowsError("a,b\n1," + std::string(1 << 20, 'x')),
              HasSubstr("longer than 65536"));
}

TEST(CsvTest, KeepsManyUnquotedFieldsOfALineApart) {
  std::string header = "a,b";
  std::string row = "\"\"\"\",\"\"\"\"";
  for (int i = 0; i < 10000; ++i) {
    header += ",x";
    row += ",\"\"\"\"";
  }
  EXPECT_THAT(Rows(header + "\n" + row + "\n").value(), ElementsAre("2:\"|\""));
}

TEST(CsvTest, PlacesErrorsOfFields) {
  CsvReader csv = CsvReader::Open("a,b\n1,2\n", "t.csv").value();
  ASSERT_TRUE(csv.Next().value());
  const auto fail = [](std::string_view field) -> Result<int> {
    return Fail(Code::kInvalidArgument, "'{}' is bad", field);
  };
  EXPECT_EQ(csv.Read(1, fail).error().message,
            "t.csv:2: column 'b': '2' is bad");
}

TEST(CsvTest, WritesFieldsThatReadBack) {
  for (const std::string field :
       {"", "plain", "a,b", "\"", "a \"b\", c", " "}) {
    std::string text = "a,b\n";
    AppendCsvField(&text, field);
    text += ",x\n";
    EXPECT_THAT(Rows(text).value(), ElementsAre("2:" + field + "|x"));
  }
}

}  // namespace
}  // namespace ucudnn
