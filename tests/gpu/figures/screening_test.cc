#include "tests/gpu/figures/screening.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/cudnn/graph/name.h"

namespace ucudnn::figures {
namespace {

using ::testing::ElementsAre;

Timed Ran(const char* name, Bytes workspace, double ns) {
  return {{{name, "", Precision::kFp32}, workspace}, ns};
}

TEST(TrendTest, KnowsNothingFromOneRun) {
  Trend trend;
  EXPECT_FALSE(trend.At(BatchSize(2)));
  trend.Add(BatchSize(1), 300);
  EXPECT_FALSE(trend.At(BatchSize(2)));
}

TEST(TrendTest, AllowsFilterTransformsToPayOffOnManyImages) {
  // FFT_TILING on a 3x3 layer of VGG-16: on one image it takes three times as
  // long as the direct kernel, on 64 a third.
  Trend fft;
  fft.Add(BatchSize(1), 300'000);
  fft.Add(BatchSize(2), 325'000);
  const double direct = 64 * 108'000;
  EXPECT_DOUBLE_EQ(*fft.At(BatchSize(64)), 325'000 + 62 * 25'000);
  EXPECT_LT(*fft.At(BatchSize(64)), direct);
}

TEST(TrendTest, FollowsTheLastTwoRunsAndNeverFalls) {
  Trend trend;
  trend.Add(BatchSize(1), 10);
  trend.Add(BatchSize(2), 100);
  trend.Add(BatchSize(4), 120);
  EXPECT_DOUBLE_EQ(*trend.At(BatchSize(8)), 160);
  trend.Add(BatchSize(8), 110);  // a short run, and noise
  EXPECT_DOUBLE_EQ(*trend.At(BatchSize(16)), 110);
}

TEST(BestRivalTest, HasNoMoreWorkspaceAndIsNoEngineForTheFirstInterface) {
  const std::vector<Timed> runs = {
      Ran("GEMM", 8_MiB, 90), Ran("FFT", 64_MiB, 20), Ran("eng3", 0_B, 50)};
  EXPECT_EQ(BestRival(runs, runs[0].candidate), 90);
  EXPECT_EQ(BestRival(runs, runs[1].candidate), 20);
  EXPECT_EQ(BestRival(runs, runs[2].candidate), 50);
  EXPECT_EQ(BestRival(runs, Ran("eng4", 8_MiB, 0).candidate), 50);
  EXPECT_EQ(BestRival({}, runs[0].candidate), std::nullopt);
}

TEST(WorthMeasuringTest, KeepsTheFastestWithinEachWorkspace) {
  const std::vector<Timed> runs = {
      Ran("eng1", 0_B, 100), Ran("eng2", 0_B, 104),   Ran("eng3", 0_B, 106),
      Ran("eng4", 0_B, 103), Ran("eng5", 64_MiB, 60), Ran("eng6", 64_MiB, 90),
      Ran("GEMM", 0_B, 200)};
  EXPECT_THAT(WorthMeasuring(runs, 1.05, 2), ElementsAre(0, 1, 3, 4, 6));
  EXPECT_THAT(WorthMeasuring(runs, 1.05, 1), ElementsAre(0, 3, 4, 6));
}

TEST(PromisesTest, AreAlgorithmsFasterOnABatchThatJustFits) {
  const std::vector<SizedRun> runs = {
      {BatchSize(8), Ran("eng1", 20_MiB, 84'000)},
      // Slower on 8 images than eng1, and faster on 15, which fit.
      {BatchSize(8), Ran("eng63", 16_MiB, 86'000)},
      {BatchSize(16), Ran("eng63", 32_MiB, 140'000)},
      // Was only listed for 16.
      {BatchSize(16), Ran("eng5", 40_MiB, 150'000)},
      // Too slow; it fits, and no larger batch does.
      {BatchSize(8), Ran("eng6", 16_MiB, 90'000)},
      {BatchSize(16), Ran("eng6", 32_MiB, 180'000)},
      {BatchSize(16), Ran("eng7", 8_MiB, 160'000)},
      {BatchSize(8), Ran("eng8", 30_MiB, 60'000)},
      {BatchSize(16), Ran("eng8", 60_MiB, 100'000)}};
  const auto promises = PromisesOf(runs, 30_MiB, 84'000.0 / 8);
  ASSERT_EQ(promises.size(), 2U);
  EXPECT_EQ(promises[0].algorithm.name, "eng63");
  EXPECT_EQ(promises[0].known, BatchSize(8));
  EXPECT_EQ(promises[0].most, BatchSize(15));
  EXPECT_DOUBLE_EQ(promises[0].per_image, (86'000 + 54'000 * 7 / 8.0) / 15);
  EXPECT_EQ(promises[1].algorithm.name, "eng5");
  EXPECT_EQ(promises[1].known, BatchSize());
  EXPECT_EQ(promises[1].most, BatchSize(12));
}

TEST(EvenPartsTest, AreAsFewAsPossibleAndDifferByOneImage) {
  const auto parts = [](std::int64_t batch, std::int64_t most) {
    return EvenParts(BatchSize(batch), BatchSize(most));
  };
  EXPECT_THAT(parts(256, 127), ElementsAre(BatchSize(86), BatchSize(85)));
  EXPECT_THAT(parts(256, 128), ElementsAre(BatchSize(128)));
  EXPECT_THAT(parts(64, 64), ElementsAre(BatchSize(64)));
  EXPECT_THAT(parts(7, 2), ElementsAre(BatchSize(2), BatchSize(1)));
  EXPECT_THAT(parts(3, 100), ElementsAre(BatchSize(3)));
}

}  // namespace
}  // namespace ucudnn::figures
