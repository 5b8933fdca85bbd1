#include "device/measure/campaign.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/device/measure/recorded_campaigns.h"
#include "tests/support/fake_device.h"
#include "tests/support/trials.h"

namespace ucudnn {
namespace {

using test::RecordedCampaigns;
using ::testing::ElementsAre;

double Ratio(Nanoseconds a, Nanoseconds b) {
  return static_cast<double>(a.count()) / static_cast<double>(b.count());
}

// The adaptive policy's promise, on real measurements: plans within 1 % of
// those from every batch, at less cost than the powers of two.
TEST(CampaignTest, AdaptivePlansComeCloseToThoseFromEveryBatch) {
  RecordedCampaigns h200;
  RecordedCampaigns::Measured powers;
  h200.Each(BatchPolicy::kPowerOfTwo, &powers);
  for (const std::int64_t mib : {32, 64, 96, 192}) {
    const Bytes limit = 1_MiB * mib;
    RecordedCampaigns::Measured adaptive;
    h200.Adaptive({limit}, &adaptive);
    EXPECT_LE(Ratio(h200.PlanTime(adaptive, limit), h200.BestTime(limit)),
              1.0101)
        << mib;
    EXPECT_LT(Ratio(adaptive.spent, powers.spent), 0.5) << mib;
  }
}

// The same with noise in each measurement, a few disturbed runs, and code
// loading in an algorithm's first run. No choice among noisy times is perfect:
// the test allows half a percent more, and a percent with 3 % of noise.
TEST(CampaignTest, AdaptivePlansComeCloseToThoseFromEveryBatchDespiteNoise) {
  double sum = 0;
  int count = 0;
  for (unsigned seed = 1; seed <= (kSlowed ? 1 : 3); ++seed) {
    for (const double part : {0.01, 0.03}) {
      const test::Noise noise{part, 0.02, 1.5, std::chrono::milliseconds(20),
                              seed};
      RecordedCampaigns for_powers(noise);
      RecordedCampaigns::Measured powers;
      for_powers.Each(BatchPolicy::kPowerOfTwo, &powers);
      RecordedCampaigns h200(noise);
      RecordedCampaigns::Measured adaptive;
      for (const std::int64_t mib : {64, 32, 256}) {
        const Bytes limit = 1_MiB * mib;
        h200.Adaptive({limit}, &adaptive);
        const double ratio =
            Ratio(h200.PlanTime(adaptive, limit), h200.BestTime(limit));
        EXPECT_LE(ratio, part > 0.01 ? 1.02 : 1.015)
            << mib << " MiB, noise " << part << ", seed " << seed;
        EXPECT_LE(ratio * 0.99, Ratio(for_powers.PlanTime(powers, limit),
                                      h200.BestTime(limit)))
            << mib << " MiB, noise " << part << ", seed " << seed;
        sum += ratio;
        ++count;
      }
      EXPECT_LT(Ratio(adaptive.spent, powers.spent), 1.0) << part;
    }
  }
  EXPECT_LT(sum / count, 1.01);
}

TEST(CampaignTest, LimitsCostLessOnceOthersAreKnown) {
  RecordedCampaigns h200;
  RecordedCampaigns::Measured first;
  h200.Adaptive({64_MiB}, &first);
  RecordedCampaigns::Measured both = first;
  h200.Adaptive({80_MiB}, &both);
  RecordedCampaigns::Measured second;
  h200.Adaptive({80_MiB}, &second);
  EXPECT_LT(both.spent, first.spent + second.spent / 2);
  // Repeating the campaign costs next to nothing: only algorithms so slow that
  // one run was enough may run again.
  const Nanoseconds spent = both.spent;
  h200.Adaptive({80_MiB, 64_MiB}, &both);
  EXPECT_LT(Ratio(both.spent, spent), 1.01);
}

// Which algorithms an adaptive task of 8 images under `limit` runs.
std::set<std::string> RunUnder(Bytes limit) {
  FakeDevice device({{.algorithm = {"fast", "", Precision::kFp32},
                      .workspace_per_image = 100_B},
                     {.algorithm = {"reference", "", Precision::kFp32},
                      .workspace_per_image = 0_B,
                      .last_resort = true}});
  MeasureBench bench(device);
  ConvGeometry geometry;
  geometry.channels = geometry.filters = 2;
  geometry.input = {1, 4, 4};
  const ConvProblem problem{ConvOp::kForward, geometry, Precision::kFp32,
                            Layout::kNchw};
  const auto points = RunCampaign(
      device, bench, {problem, BatchSize(8), {true, limit}, limit, {}},
      MeasureOptions(), {}, {}, {});
  EXPECT_TRUE(points) << points.error().message;
  std::set<std::string> run;
  for (const FakeDevice::RunCall& call : device.runs()) {
    run.insert(call.algorithm);
  }
  return run;
}

TEST(CampaignTest, RunsALastResortOnlyIfNothingElseFitsAtAnyBatch) {
  EXPECT_THAT(RunUnder(100_B), ElementsAre("fast"));
  EXPECT_THAT(RunUnder(99_B), ElementsAre("reference"));
}

}  // namespace
}  // namespace ucudnn
