#include "base/files/buffers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace ucudnn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string BuffersError(std::string_view text) {
  const auto read = ParseBuffersCsv(text, "b.csv");
  if (read) return "no error";
  EXPECT_EQ(read.error().code, Code::kInvalidArgument);
  return read.error().message;
}

TEST(BuffersTest, ReadsColumnsByNameInAnyOrder) {
  const auto read = ParseBuffersCsv(
      "size,extra,upper,lower,id\n4,x,3,0,a\n8,y,9,3,b c\n", "b.csv");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_THAT(read->ids, ElementsAre("a", "b c"));
  EXPECT_THAT(read->buffers, ElementsAre(Buffer{0, 3, 4_B}, Buffer{3, 9, 8_B}));
}

TEST(BuffersTest, AcceptsBuffersThatAreNeverLiveOrEmpty) {
  const auto read =
      ParseBuffersCsv("id,lower,upper,size\na,3,3,4\nb,0,1,0\n", "b.csv");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->buffers.size(), 2U);
}

TEST(BuffersTest, NamesTheLineTheColumnTheValueAndWhatIsAccepted) {
  EXPECT_THAT(BuffersError("id,lower,upper\na,0,1\n"), HasSubstr("size"));
  EXPECT_THAT(BuffersError("id,lower,upper,size\n"), HasSubstr("no row"));
  const std::string backwards = BuffersError("id,lower,upper,size\na,5,4,1\n");
  EXPECT_THAT(backwards, HasSubstr("b.csv:2"));
  EXPECT_THAT(backwards, HasSubstr("upper"));
  EXPECT_THAT(backwards, HasSubstr("'4'"));
  EXPECT_THAT(backwards, HasSubstr("from 5"));
  EXPECT_THAT(BuffersError("id,lower,upper,size\na,0,4,-1\n"),
              AllOf(HasSubstr("b.csv:2"), HasSubstr("size"), HasSubstr("-1")));
  EXPECT_THAT(BuffersError("id,lower,upper,size\na,0,1.5,1\n"),
              AllOf(HasSubstr("upper"), HasSubstr("1.5")));
  EXPECT_THAT(BuffersError("id,lower,upper,size\n,0,1,1\n"), HasSubstr("id"));
  EXPECT_THAT(
      BuffersError("id,lower,upper,size\na,0,1,1\nb,0,1,1\na,2,3,1\n"),
      AllOf(HasSubstr("b.csv:4"), HasSubstr("'a'"), HasSubstr("line 2")));
}

}  // namespace
}  // namespace ucudnn
