#include "base/accuracy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/profile.h"

namespace ucudnn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

MeasuredPoint Point(const char* algorithm, std::int64_t batch, double error) {
  MeasuredPoint point;
  point.batch = BatchSize(batch);
  point.algorithm.name = algorithm;
  if (error > 0) point.error_ppt = PartsPerTrillion(error);
  return point;
}

TEST(AccuracyTest, RoundsErrorsAndTellsZeroFromUnknown) {
  EXPECT_EQ(PartsPerTrillion(0), 1);
  EXPECT_EQ(PartsPerTrillion(1.25e-5), 12'500'000);
  EXPECT_EQ(PartsPerTrillion(1e9), kUselessPpt);
  EXPECT_EQ(PartsPerTrillion(NAN), kUselessPpt);
  EXPECT_EQ(PartsPerTrillion(INFINITY), kUselessPpt);
  for (const std::int64_t ppt :
       {std::int64_t{1}, std::int64_t{12'345'678}, kUselessPpt}) {
    EXPECT_EQ(PartsPerTrillion(FromPpt(ppt)), ppt);
  }
}

TEST(AccuracyTest, AdmitsRoundingAndNoMore) {
  const auto admits = [](Precision precision, double error, double best) {
    return IsAccurate(precision, kDefaultMaxError, PartsPerTrillion(error),
                      PartsPerTrillion(best));
  };
  EXPECT_TRUE(admits(Precision::kFp32, 9e-6, 1e-7));
  EXPECT_FALSE(admits(Precision::kFp32, 1.2e-2, 1e-6));
  // If all algorithms err, because sums are long, the best error may be
  // exceeded a little.
  EXPECT_TRUE(admits(Precision::kFp32, 4e-5, 2e-5));
  EXPECT_FALSE(admits(Precision::kFp32, INFINITY, INFINITY));
  EXPECT_TRUE(admits(Precision::kPseudoHalf, 1e-3, 1e-4));
}

TEST(AccuracyTest, ABoundThatIsNamedAdmitsNothingBeyondIt) {
  const auto admits = [](double max_error, double error) {
    return IsAccurate(Precision::kFp32, max_error, PartsPerTrillion(error),
                      PartsPerTrillion(error));
  };
  EXPECT_TRUE(admits(1e-3, 1e-3));
  EXPECT_FALSE(admits(1e-3, 1.1e-3));
  EXPECT_FALSE(admits(1e-7, 1e-6));
  EXPECT_FALSE(admits(0.99, NAN));
  EXPECT_TRUE(IsAccurate(Precision::kFp32, 1e-9, 0, 1));  // not measured
}

TEST(AccuracyTest, KnowsAnAlgorithmByTheWorstOfItsPoints) {
  const std::vector<MeasuredPoint> all = {
      Point("GEMM", 1, 1e-6), Point("NEW", 1, 0), Point("WINOGRAD", 1, 0),
      Point("WINOGRAD", 2, 1e-2)};
  auto points = all;
  const auto left_out =
      LeaveOutInexact(Precision::kFp32, kDefaultMaxError, &points);
  EXPECT_EQ(points, std::vector<MeasuredPoint>(all.begin(), all.begin() + 2));
  EXPECT_EQ(left_out, std::vector<MeasuredPoint>(all.begin() + 2, all.end()));
  points = all;
  EXPECT_THAT(LeaveOutInexact(Precision::kFp32, 0.02, &points), IsEmpty());
  EXPECT_EQ(points, all);
}

TEST(AccuracyTest, AnyPartOfThePointsTellsTheWorst) {
  std::vector<MeasuredPoint> points = {
      Point("GEMM", 1, 1e-6), Point("WINOGRAD", 1, 0), Point("NEW", 1, 0),
      Point("WINOGRAD", 2, 1e-2)};
  SpreadErrors(&points);
  EXPECT_EQ(points[1].error_ppt, PartsPerTrillion(1e-2));
  EXPECT_EQ(points[2].error_ppt, 0);
  points.pop_back();
  EXPECT_EQ(LeaveOutInexact(Precision::kFp32, kDefaultMaxError, &points).size(),
            1U);
}

TEST(AccuracyTest, NamesABoundThatDoesWhereNothingRemains) {
  const std::vector<std::pair<double, std::string>> bounds = {
      {2e-6, "max_error 2e-06 admits"},
      {2.01e-6, "max_error 2.1e-06 admits"},
      {0.00996, "max_error 0.01 admits"},
      {0.996, "no max_error admits any"},
      {INFINITY, "no max_error admits any"}};
  for (const auto& [error, text] : bounds) {
    const std::vector<MeasuredPoint> all = {Point("A", 1, 3 * error),
                                            Point("B", 1, error)};
    auto points = all;
    const Status kept =
        KeepAccurate(Precision::kFp32, 1e-6, &points, "conv1 forward");
    ASSERT_FALSE(kept);
    EXPECT_EQ(kept.error().code, Code::kFailedPrecondition);
    EXPECT_THAT(kept.error().message,
                AllOf(HasSubstr("conv1 forward"), HasSubstr(text)));
    if (!text.starts_with("max_error ")) continue;
    const double named =
        ParseMaxError(text.substr(10, text.find(" ad") - 10)).value();
    points = all;
    EXPECT_TRUE(KeepAccurate(Precision::kFp32, named, &points, ""));
  }
  std::vector<MeasuredPoint> points;
  EXPECT_TRUE(KeepAccurate(Precision::kFp32, 1e-6, &points, ""));
}

TEST(AccuracyTest, RefusesBoundsThatAreNone) {
  EXPECT_EQ(ParseMaxError("1e-5"), 1e-5);
  for (const char* text : {"", "0", "1", "-1e-3", "nan", "inf", "1e-3x"}) {
    const auto parsed = ParseMaxError(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_THAT(parsed.error().message, HasSubstr("between 0 and 1"));
  }
}

}  // namespace
}  // namespace ucudnn
