#include "solver/micro_batch/adaptive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "solver/micro_batch/wr.h"

namespace ucudnn {
namespace {

using std::chrono::microseconds;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

const Algorithm kFast = {"FAST", "", Precision::kFp32};
const Algorithm kSmall = {"SMALL", "", Precision::kFp32};

SizedAlgorithm Size(const Algorithm& algorithm, std::int64_t batch) {
  return {BatchSize(batch), algorithm,
          algorithm == kFast ? Bytes(batch * 10) : Bytes()};
}

MeasuredPoint Measured(const SizedAlgorithm& size, std::int64_t us) {
  MeasuredPoint point;
  point.batch = size.batch;
  point.algorithm = size.algorithm;
  point.workspace = size.workspace;
  point.time = microseconds(us);
  point.repeats = 3;
  return point;
}

std::vector<SizedAlgorithm> AllOf(const Algorithm& algorithm,
                                  std::int64_t most) {
  std::vector<SizedAlgorithm> sizes;
  for (std::int64_t b = 1; b <= most; ++b) sizes.push_back(Size(algorithm, b));
  return sizes;
}

std::vector<SizedAlgorithm> Both() {
  std::vector<SizedAlgorithm> sizes = AllOf(kFast, 16);
  const std::vector<SizedAlgorithm> others = AllOf(kSmall, 16);
  sizes.insert(sizes.end(), others.begin(), others.end());
  return sizes;
}

AdaptiveRequest Request(std::int64_t limit) {
  AdaptiveRequest request;
  request.batch = BatchSize(16);
  request.limits = {Bytes(limit)};
  return request;
}

TEST(AdaptiveTest, BeginsWithTheLargestBatchesThatFit) {
  EXPECT_THAT(NextToMeasure(Both(), {}, Request(100)).value(),
              ElementsAre(Size(kFast, 10), Size(kSmall, 16)));
}

TEST(AdaptiveTest, MeasuresASmallerBatchUnlessFarBehind) {
  std::vector<MeasuredPoint> measured = {Measured(Size(kFast, 10), 100),
                                         Measured(Size(kSmall, 16), 320)};
  EXPECT_THAT(NextToMeasure(Both(), measured, Request(100)).value(),
              ElementsAre(Size(kFast, 8), Size(kSmall, 8)));
  measured[1].time = microseconds(640);
  EXPECT_THAT(NextToMeasure(Both(), measured, Request(100)).value(),
              ElementsAre(Size(kFast, 8)));
}

TEST(AdaptiveTest, EndsIfNoUnmeasuredPointCouldBeFaster) {
  // Undivided is faster than the estimate of any division.
  std::vector<MeasuredPoint> measured = {
      Measured(Size(kFast, 16), 100), Measured(Size(kFast, 8), 95),
      Measured(Size(kFast, 1), 90), Measured(Size(kSmall, 16), 900)};
  EXPECT_THAT(NextToMeasure(Both(), measured, Request(160)).value(), IsEmpty());
  EXPECT_THAT(PointsInUse(measured, Request(160)).value(),
              ElementsAre(Size(kFast, 16)));
}

TEST(AdaptiveTest, AsksForThePointThatTheEstimatedPlanDependsOn) {
  // 9 + 7 is estimated to be faster than 8 + 8 and 10 + 6.
  std::vector<MeasuredPoint> measured = {Measured(Size(kFast, 10), 100),
                                         Measured(Size(kFast, 8), 98),
                                         Measured(Size(kSmall, 16), 900)};
  const auto next = NextToMeasure(Both(), measured, Request(100)).value();
  EXPECT_THAT(next, ElementsAre(Size(kFast, 9)));
}

TEST(AdaptiveTest, EstimatesWhatAddingTakes) {
  // 12 + 4 is estimated to be faster than 16, unless the second one takes
  // longer because it adds.
  std::vector<MeasuredPoint> measured = {
      Measured(Size(kFast, 16), 100), Measured(Size(kFast, 8), 52),
      Measured(Size(kSmall, 16), 900), Measured(Size(kSmall, 8), 500)};
  AdaptiveRequest request = Request(160);
  request.optimism = 0.05;
  EXPECT_THAT(NextToMeasure(Both(), measured, request).value(), Not(IsEmpty()));
  for (MeasuredPoint& point : measured) point.adding = 2 * point.time;
  EXPECT_THAT(NextToMeasure(Both(), measured, request).value(), IsEmpty());
}

TEST(AdaptiveTest, SizesIncludeSmallOnesOctavesAndEvenParts) {
  const auto sizes = SizesToAsk(BatchSize(100));
  for (const std::int64_t b :
       {1, 7, 15, 16, 18, 32, 36, 64, 72, 96, 100, 50, 34, 25, 20}) {
    EXPECT_THAT(sizes, Contains(BatchSize(b)));
  }
  EXPECT_TRUE(std::ranges::is_sorted(sizes));
  EXPECT_LT(sizes.size(), 50U);
  EXPECT_THAT(SizesToAsk(BatchSize(1)), ElementsAre(BatchSize(1)));
}

TEST(AdaptiveTest, RefusesArgumentsOutOfRange) {
  AdaptiveRequest request = Request(-1);
  EXPECT_EQ(NextToMeasure({}, {}, request).error().code,
            Code::kInvalidArgument);
  request = Request(1);
  request.optimism = 1;
  EXPECT_EQ(NextToMeasure({}, {}, request).error().code,
            Code::kInvalidArgument);
}

TEST(AdaptiveTest, MeasuresProvisionalPointsAgainIfAPlanCouldGain) {
  // Two of eight images are as fast as one of sixteen.
  std::vector<MeasuredPoint> measured = {
      Measured(Size(kFast, 16), 100), Measured(Size(kFast, 8), 50),
      Measured(Size(kFast, 1), 90), Measured(Size(kSmall, 16), 900)};
  EXPECT_THAT(NextToMeasure(Both(), measured, Request(160)).value(),
              Not(Contains(Size(kFast, 8))));
  measured[1].repeats = 1;
  AdaptiveRequest request = Request(160);
  request.optimism = 0;
  EXPECT_THAT(NextToMeasure(Both(), measured, request).value(),
              ElementsAre(Size(kFast, 8)));
  // Now it would be too slow even if it were faster by `doubt`.
  measured[1].time = microseconds(54);
  EXPECT_THAT(NextToMeasure(Both(), measured, request).value(), IsEmpty());
}

}  // namespace
}  // namespace ucudnn
