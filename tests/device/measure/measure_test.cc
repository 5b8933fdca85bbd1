#include "device/measure/measure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "tests/device/measure/measuring.h"
#include "tests/support/fake_device.h"

namespace ucudnn {
namespace {

using std::chrono::microseconds;
using test::Disturbed;
using test::First;
using test::kBatch;
using test::Names;
using test::Point;
using test::Recorded;
using test::Report;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(MeasureTest, AddsToTheOutputIfAsked) {
  for (const auto& [op, adds, beta] :
       {std::tuple(ConvOp::kBackwardData, false, 0.0F),
        std::tuple(ConvOp::kBackwardData, true, 1.0F),
        std::tuple(ConvOp::kBackwardFilter, true, 1.0F)}) {
    FakeDevice device;
    MeasureOptions options;
    if (adds) options.beta = 1.0F;
    ASSERT_TRUE(MeasureBench(device).Measure(First(op), kBatch, options, {}));
    ASSERT_FALSE(device.timed_runs().empty());
    for (const auto& run : device.timed_runs()) EXPECT_EQ(run.args.beta, beta);
  }
}

TEST(MeasureTest, MeasuresFilterGradientsThatWriteAndThatAdd) {
  MeasuredPoint recorded = Point(64, "ALGO_1", 1_MiB, 77);
  recorded.adding = microseconds(106);
  const ConvOp op = ConvOp::kBackwardFilter;
  const auto device = Recorded({recorded}, op);
  MeasureOptions options;
  const auto point = [&] {
    return MeasureBench(*device)
        .Measure(First(op), kBatch, options, {})
        .value()
        .at(0);
  };
  EXPECT_EQ(point().time, microseconds(77));
  EXPECT_EQ(point().adding, microseconds(106));
  EXPECT_EQ(point().min, microseconds(77));
  options.beta = 1.0F;
  EXPECT_EQ(point().time, microseconds(106));
  EXPECT_EQ(point().adding, Nanoseconds(0));
}

TEST(MeasureTest, FindsTheRecordedTimes) {
  const std::vector<MeasuredPoint> recorded = {Point(64, "FFT", 1_MiB, 40),
                                               Point(64, "GEMM", 0_B, 100)};
  const auto device = Recorded(recorded);
  MeasureOptions options;
  options.min_repeats = 4;
  const auto points = MeasureBench(*device).Measure(First(), kBatch, options,
                                                    std::stop_token());
  ASSERT_TRUE(points) << points.error().message;
  ASSERT_EQ(points->size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    MeasuredPoint expected = recorded[i];
    expected.repeats = 4;
    expected.min = expected.p90 = expected.time;
    EXPECT_EQ((*points)[i], expected);
  }
}

TEST(MeasureTest, DropsHopelessAlgorithmsWithoutRunningTheWholeBatch) {
  const auto points = [](std::int64_t slow_us, Bytes slow_workspace) {
    return std::vector<MeasuredPoint>{
        Point(64, "FAST", 1_MiB, 100),
        Point(1, "SLOW", slow_workspace, slow_us / 64),
        Point(4, "SLOW", slow_workspace, slow_us / 16),
        Point(64, "SLOW", slow_workspace, slow_us)};
  };
  MeasureOptions options;
  options.hopeless_factor = 10;
  options.time_limit = std::chrono::seconds(1);
  const auto measure = [&](Disturbed& device, Report* report) {
    return Names(MeasureBench(device)
                     .Measure(First(), kBatch, options, std::stop_token(),
                              report->Record())
                     .value());
  };
  const auto undisturbed = [](int) -> Result<double> { return 1.0; };
  {
    Report report;
    Disturbed device(Recorded(points(64'000, 1_MiB)), undisturbed);
    EXPECT_THAT(measure(device, &report), ElementsAre("FAST"));
    EXPECT_EQ(report.codes["SLOW"], Code::kDeadlineExceeded);
  }
  {  // Slow, but not hopeless.
    Report report;
    Disturbed device(Recorded(points(640, 1_MiB)), undisturbed);
    EXPECT_THAT(measure(device, &report), ElementsAre("FAST", "SLOW"));
  }
  {  // With less workspace it may be the only one that fits: measured, but
     // once.
    Report report;
    Disturbed device(Recorded(points(64'000, 0_B)), undisturbed);
    EXPECT_THAT(measure(device, &report), ElementsAre("FAST", "SLOW"));
    EXPECT_LE(device.runs, 1 + 3 + 4 + 1);
  }
  {  // But not if one run would exceed the time limit.
    Report report;
    Disturbed device(Recorded(points(64'000'000, 0_B)), undisturbed);
    EXPECT_THAT(measure(device, &report), ElementsAre("FAST"));
    EXPECT_EQ(report.codes["SLOW"], Code::kDeadlineExceeded);
  }
}

TEST(MeasureTest, DropsBranchesOfWhatIsTwiceAsSlowAsAnother) {
  Report report;
  Disturbed device(
      Recorded({Point(64, "FAST", 1_MiB, 100), Point(64, "2xFAST", 2_MiB, 90),
                Point(64, "SLOW", 1_MiB, 220), Point(64, "2xSLOW", 2_MiB, 80),
                Point(64, "FRUGAL", 0_B, 220), Point(64, "2xFRUGAL", 0_B, 190),
                Point(64, "2xALONE", 2_MiB, 80)}),
      [](int) -> Result<double> { return 1.0; });
  const auto points = MeasureBench(device).Measure(
      First(), kBatch, MeasureOptions(), std::stop_token(), report.Record());
  ASSERT_TRUE(points) << points.error().message;
  EXPECT_THAT(Names(*points), ElementsAre("FAST", "2xFAST", "SLOW", "FRUGAL",
                                          "2xFRUGAL", "2xALONE"));
  EXPECT_EQ(report.codes["2xSLOW"], Code::kDeadlineExceeded);
}

TEST(MeasureTest, MeasuresBranchesOfWhatOtherBatchesMakeLookSlow) {
  const auto device = Recorded({Point(64, "2xSLOW", 2_MiB, 80)});
  MeasureBench bench(*device);
  const auto point = bench.MeasureAlgorithm(
      First(), kBatch, {{"2xSLOW", "FMA", Precision::kFp32}, 2_MiB},
      MeasureOptions(),
      {Point(64, "FAST", 1_MiB, 100), Point(64, "SLOW", 1_MiB, 220)},
      std::stop_token());
  ASSERT_TRUE(point) << point.error().message;
  EXPECT_EQ(point->time, microseconds(80));
}

// One fast algorithm with 100 bytes of workspace per image, and a reference
// whose runs take `reference_time` each.
FakeDevice WithReference(Nanoseconds reference_time) {
  return FakeDevice({{.algorithm = {"fast", "", Precision::kFp32},
                      .workspace_per_image = 100_B},
                     {.algorithm = {"reference", "", Precision::kFp32},
                      .workspace_per_image = 0_B,
                      .time = reference_time,
                      .last_resort = true}});
}

TEST(MeasureTest, NeverRunsALastResortIfAnotherAlgorithmFits) {
  FakeDevice device = WithReference(microseconds(1));
  Report report;
  const auto points = MeasureBench(device).Measure(
      First(), kBatch, MeasureOptions(), {}, report.Record());
  ASSERT_TRUE(points) << points.error().message;
  EXPECT_THAT(Names(*points), ElementsAre("fast"));
  EXPECT_EQ(report.codes["reference"], Code::kDeadlineExceeded);
  for (const FakeDevice::RunCall& run : device.runs()) {
    EXPECT_EQ(run.algorithm, "fast");
  }
}

TEST(MeasureTest, MeasuresALastResortIfNothingElseFits) {
  FakeDevice device = WithReference(microseconds(1));
  MeasureOptions options;
  options.max_workspace = Bytes();
  const auto points =
      MeasureBench(device).Measure(First(), kBatch, options, {});
  ASSERT_TRUE(points) << points.error().message;
  EXPECT_THAT(Names(*points), ElementsAre("reference"));
  EXPECT_EQ(points->at(0).time, microseconds(1));
}

// Half a minute for one image of one filter.
TEST(MeasureTest, DropsALastResortThatTakesTooLongAfterOneFilterOfIt) {
  for (const BatchSize batch : {BatchSize(1), kBatch}) {
    FakeDevice device = WithReference(std::chrono::seconds(30));
    MeasureOptions options;
    options.max_workspace = Bytes();
    Report report;
    const auto points = MeasureBench(device).Measure(First(), batch, options,
                                                     {}, report.Record());
    ASSERT_TRUE(points) << points.error().message;
    EXPECT_THAT(*points, ::testing::IsEmpty());
    EXPECT_EQ(report.codes["reference"], Code::kDeadlineExceeded);
    ASSERT_EQ(device.runs().size(), 1U);
    EXPECT_EQ(device.runs()[0].batch, BatchSize(1));
    EXPECT_EQ(device.runs()[0].problem.geometry.filters, 1);
  }
}

TEST(MeasureTest, LeavesOutWhatNeedsMoreWorkspaceThanAllowed) {
  Disturbed device(
      Recorded({Point(64, "FFT", 2_MiB, 40), Point(64, "GEMM", 1_MiB, 100)}),
      [](int) -> Result<double> { return 1.0; });
  MeasureOptions options;
  options.max_workspace = 1_MiB;
  Report report;
  const auto points = MeasureBench(device).Measure(
      First(), kBatch, options, std::stop_token(), report.Record());
  ASSERT_TRUE(points);
  EXPECT_THAT(Names(*points), ElementsAre("GEMM"));
  EXPECT_EQ(report.codes["FFT"], Code::kResourceExhausted);
  for (const Bytes size : device.allocated) EXPECT_LE(size, 1_MiB);
}

TEST(MeasureTest, ContinuesAfterAnAlgorithmFailed) {
  Disturbed device(
      Recorded({Point(64, "BAD", 0_B, 40), Point(64, "GOOD", 0_B, 100)}),
      [](int run) -> Result<double> {
        if (run == 0) return Fail(Code::kUnknown, "bad kernel");
        return 1.0;
      });
  Report report;
  const auto points = MeasureBench(device).Measure(
      First(), kBatch, MeasureOptions(), std::stop_token(), report.Record());
  ASSERT_TRUE(points);
  EXPECT_THAT(Names(*points), ElementsAre("GOOD"));
  EXPECT_EQ(report.codes["BAD"], Code::kUnknown);
}

TEST(MeasureTest, EndsWhenTheDeviceIsBrokenOrNothingWorks) {
  const auto fails = [](int) -> Result<double> {
    return Fail(Code::kUnknown, "bad kernel");
  };
  Disturbed device(
      Recorded({Point(64, "ONE", 0_B, 40), Point(64, "TWO", 0_B, 100)}), fails);
  const auto failed = MeasureBench(device).Measure(
      First(), kBatch, MeasureOptions(), std::stop_token());
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Code::kUnknown);
  EXPECT_THAT(failed.error().message, HasSubstr(ToString(First())));
  EXPECT_EQ(device.runs, 2);

  device.broken = true;
  const auto broken = MeasureBench(device).Measure(
      First(), kBatch, MeasureOptions(), std::stop_token());
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().code, Code::kDataLoss);
  EXPECT_EQ(device.runs, 3);
}

TEST(MeasureTest, StopsWhenAsked) {
  std::stop_source source;
  Disturbed device(
      Recorded({Point(64, "ONE", 0_B, 40), Point(64, "TWO", 0_B, 100)}),
      [&](int run) -> Result<double> {
        if (run == 3) source.request_stop();
        return 1.0 + run % 5;
      });
  Report report;
  const auto points = MeasureBench(device).Measure(
      First(), kBatch, MeasureOptions(), source.get_token(), report.Record());
  ASSERT_FALSE(points);
  EXPECT_EQ(points.error().code, Code::kCancelled);
  EXPECT_EQ(device.runs, 4);
  EXPECT_TRUE(report.codes.empty());
}

TEST(MeasureTest, RefusesOptionsOutOfRange) {
  const auto device = Recorded({Point(64, "GEMM", 0_B, 100)});
  for (const auto& change : std::vector<std::function<void(MeasureOptions&)>>{
           [](MeasureOptions& o) { o.min_repeats = 0; },
           [](MeasureOptions& o) { o.max_repeats = 2; },
           [](MeasureOptions& o) { o.target_spread = -1; },
           [](MeasureOptions& o) { o.hopeless_factor = 0.5; },
           [](MeasureOptions& o) { o.time_limit = Nanoseconds(0); },
           [](MeasureOptions& o) { o.max_workspace = Bytes(-1); },
           [](MeasureOptions& o) { o.cold = -1; },
           [](MeasureOptions& o) { o.cold = std::nan(""); }}) {
    MeasureOptions options;
    change(options);
    const auto points = MeasureBench(*device).Measure(First(), kBatch, options,
                                                      std::stop_token());
    ASSERT_FALSE(points);
    EXPECT_EQ(points.error().code, Code::kInvalidArgument);
  }
}

TEST(MeasureTest, PassesOnThatABatchIsUnknown) {
  const auto device = Recorded({Point(64, "GEMM", 0_B, 100)});
  const auto points = MeasureBench(*device).Measure(
      First(), BatchSize(5), MeasureOptions(), std::stop_token());
  ASSERT_FALSE(points);
  EXPECT_EQ(points.error().code, Code::kNotFound);
}

}  // namespace
}  // namespace ucudnn
