#include "solver/check/validate_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/solver/instances.h"

namespace ucudnn {
namespace {

using test::Point;
using ::testing::HasSubstr;

TEST(ValidateChoiceTest, ComparesAFrontWithTheMeasurements) {
  const std::vector<MeasuredPoint> points = {
      Point(4, "FFT", 64, 10), Point(2, "FFT", 32, 6), Point(4, "GEMM", 0, 20)};
  const WrRequest request{BatchSize(4), 64_B};
  const auto front = SolvePareto(points, request);
  ASSERT_TRUE(front);
  EXPECT_EQ(front->points().size(), 3U);
  EXPECT_TRUE(ValidateFront(*front, points, request, 3));
  const auto why = [&](const std::vector<MeasuredPoint>& measured,
                       const WrRequest& asked, std::size_t witnesses) {
    const Status status = ValidateFront(*front, measured, asked, witnesses);
    return status ? std::string() : status.error().message;
  };
  EXPECT_THAT(why(points, {BatchSize(4), 63_B}, 3),
              HasSubstr("point 2 takes 10 ns with 64 bytes; the limit is 63"));
  std::vector<MeasuredPoint> other = points;
  other.push_back(Point(4, "NEW", 40, 11));
  EXPECT_THAT(why(other, request, 3),
              HasSubstr("NEW undivided takes 11 ns with 40 bytes, which no "
                        "point reaches"));
  other = points;
  other[1].time = Nanoseconds(7);
  EXPECT_THAT(why(other, request, 3), HasSubstr("point 1"));
  EXPECT_EQ(why(other, request, 2), "");  // the first and the last only
  EXPECT_THAT(why(points, {BatchSize(4), 64_B, BatchPolicy::kUndivided}, 3),
              HasSubstr("does not admit batch 2"));
}

TEST(ValidateChoiceTest, ChecksADivisionOfFronts) {
  const std::vector<FrontPoint> front = {{Nanoseconds(20), 0_B},
                                         {Nanoseconds(10), 8_B}};
  const std::vector<std::span<const FrontPoint>> fronts = {front, front};
  const Division good = {{0, 1}, Nanoseconds(30), Nanoseconds(30), true, 8_B};
  EXPECT_TRUE(ValidateDivision(good, fronts, 8_B));
  struct Case {
    std::function<void(Division&)> spoil;
    const char* why;
  };
  for (const Case& c : std::vector<Case>{
           {[](Division& d) { d.point.pop_back(); }, "1 points are chosen"},
           {[](Division& d) { d.point[1] = 2; }, "front 1 has no point 2"},
           {[](Division& d) { d.time = Nanoseconds(29); }, "take 30 ns with 8"},
           {[](Division& d) { d.workspace = 7_B; }, "not 30 ns with 7"},
           {[](Division& d) {
              d = {{1, 1}, Nanoseconds(20), Nanoseconds(20), true, 16_B};
            },
            "16 bytes in all exceed the limit of 8"},
           {[](Division& d) { d.optimal = false; }, "'optimal' is false"},
           {[](Division& d) { d.lower_bound = Nanoseconds(31); },
            "bound 31 ns"}}) {
    Division division = good;
    c.spoil(division);
    const Status status = ValidateDivision(division, fronts, 8_B);
    ASSERT_FALSE(status) << c.why;
    EXPECT_EQ(status.error().code, Code::kInternal);
    EXPECT_THAT(status.error().message, HasSubstr(c.why));
  }
}

TEST(ValidateChoiceTest, ChecksAKnapsacksSolution) {
  const std::vector<MckpItem> items = {{10, 0}, {6, 4}};
  const std::vector<MckpClass> classes = {{items, 2}, {items, 1}};
  MckpSolution good;
  good.choice = {0, 1, 1};
  good.cost = 22;
  good.weight = 8;
  good.lower_bound = 22;
  good.optimal = true;
  EXPECT_TRUE(ValidateMckp(good, classes, 8));
  struct Case {
    std::function<void(MckpSolution&)> spoil;
    const char* why;
    std::int64_t capacity = 8;
  };
  for (const Case& c : std::vector<Case>{
           {[](auto& s) { s.choice.pop_back(); }, "class 1 has no choice"},
           {[](auto& s) { s.choice.push_back(0); }, "4 items are chosen"},
           {[](auto& s) { s.choice[2] = 2; }, "class 1 has no item 2"},
           {[](auto& s) { s.cost = 21; }, "cost 22 and weigh 8, not 21"},
           {[](auto& s) { s.weight = 7; }, "not 22 and 7"},
           {[](auto&) {}, "exceeds the capacity of 7", 7},
           {[](auto& s) { s.optimal = false; }, "'optimal' is false"},
           {[](auto& s) { s.lower_bound = 23; }, "bound 23"},
           {[](auto&) {}, "copy 0 of class 0 costs 10; 6 would fit too", 12}}) {
    MckpSolution solution = good;
    c.spoil(solution);
    const Status status = ValidateMckp(solution, classes, c.capacity);
    ASSERT_FALSE(status) << c.why;
    EXPECT_EQ(status.error().code, Code::kInternal);
    EXPECT_THAT(status.error().message, HasSubstr(c.why));
  }
}

}  // namespace
}  // namespace ucudnn
