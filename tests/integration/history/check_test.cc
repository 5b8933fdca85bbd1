// The checker of histories finds what it is there for.

#include "tests/integration/history/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ucudnn::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Event Sent(std::int64_t at, const Facts& facts) {
  return {Event::What::kSent, at, at, "", facts};
}
Event Acknowledged(std::int64_t from, std::int64_t to, const Facts& facts) {
  return {Event::What::kAcknowledged, from, to, "", facts};
}
Event Read(std::int64_t from, std::int64_t to, const std::string& prefix,
           const Facts& facts) {
  return {Event::What::kRead, from, to, prefix, facts};
}

TEST(HistoryCheckTest, AcceptsWhatIsReadAsItWasAcknowledged) {
  const Verdict verdict = Check(
      {Sent(0, {{"point/a", "7"}}), Acknowledged(0, 1, {{"point/a", "7"}}),
       Read(2, 3, "point/", {{"point/a", "7"}}),
       Sent(3, {{"count/steps", "12"}}),
       Acknowledged(3, 4, {{"count/steps", "12"}}),
       Read(5, 6, "count/", {{"count/steps", "12"}})});
  EXPECT_THAT(verdict.violations, IsEmpty());
  EXPECT_EQ(verdict.acknowledged, 2U);
  EXPECT_EQ(verdict.read, 2U);
}

TEST(HistoryCheckTest, AllowsCallsAtTheSameTimeToDiffer) {
  // The read may have come first.
  EXPECT_EQ(
      Check({Acknowledged(0, 5, {{"point/a", "7"}}), Read(4, 6, "point/", {}),
             Acknowledged(0, 5, {{"count/steps", "9"}}),
             Read(4, 6, "count/", {{"count/steps", "3"}})})
          .violated,
      0U);
  // What was sent may be stored though nobody was told.
  EXPECT_EQ(Check({Sent(0, {{"point/a", "7"}}),
                   Read(2, 3, "point/", {{"point/a", "7"}})})
                .violated,
            0U);
}

TEST(HistoryCheckTest, FindsWhatIsLost) {
  EXPECT_THAT(
      Check({Acknowledged(0, 1, {{"point/a", "7"}}), Read(2, 3, "point/", {})})
          .violations,
      ElementsAre(HasSubstr("point/a is lost; it was 7")));
  // Also of what was only read.
  EXPECT_EQ(Check({Read(0, 1, "plan/", {{"plan/1", "x"}}),
                   Read(2, 3, "plan/", {{"plan/2", "y"}})})
                .violated,
            1U);
}

TEST(HistoryCheckTest, FindsWhatChanges) {
  EXPECT_THAT(Check({Acknowledged(0, 5, {{"plan/1", "x"}}),
                     Read(4, 6, "plan/1", {{"plan/1", "y"}})})
                  .violations,
              ElementsAre(HasSubstr("plan/1 was x and is y")));
}

TEST(HistoryCheckTest, FindsWhatIsThereTwice) {
  EXPECT_THAT(Check({Read(0, 1, "task/", {{"task/a", "1"}, {"task/a", "1"}})})
                  .violations,
              ElementsAre(HasSubstr("task/a is there twice")));
}

TEST(HistoryCheckTest, FindsCountsThatGoBack) {
  EXPECT_THAT(Check({Acknowledged(0, 1, {{"count/steps", "12"}}),
                     Read(2, 3, "count/", {{"count/steps", "9"}})})
                  .violations,
              ElementsAre(HasSubstr("count/steps went back from 12 to 9")));
}

TEST(HistoryCheckTest, FindsWhatNobodySent) {
  // A report that is counted twice.
  EXPECT_THAT(Check({Sent(0, {{"count/steps", "12"}}),
                     Read(2, 3, "count/", {{"count/steps", "24"}})})
                  .violations,
              ElementsAre(HasSubstr("24, which nobody sent")));
  // A value that is there before it was sent.
  EXPECT_EQ(Check({Sent(9, {{"point/a", "7"}}),
                   Read(2, 3, "point/", {{"point/a", "7"}})})
                .violated,
            1U);
}

TEST(HistoryTest, ReadsBackWhatItWrites) {
  const Event event = Read(1, 2, "point/", {{"point/a \"b\"", "7"}});
  EXPECT_EQ(FromLine(ToLine(event)).value(), event);
  EXPECT_EQ(FromLine("{}").error().code, Code::kDataLoss);
}

}  // namespace
}  // namespace ucudnn::test
