#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "device/measure/measure.h"
#include "tests/device/measure/measuring.h"
#include "tests/support/fake_device.h"

namespace ucudnn {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using test::Disturbed;
using test::First;
using test::kBatch;
using test::Names;
using test::Point;
using test::Recorded;

TEST(MeasureRepeatsTest, RepeatsUntilTheMedianIsSettled) {
  // After the warm-up, times vary until the tenth run.
  Disturbed device(Recorded({Point(64, "GEMM", 0_B, 100)}),
                   [](int run) -> Result<double> {
                     return run < 10 ? 1.0 + 0.2 * (run % 3) : 1.0;
                   });
  MeasureOptions options;
  options.min_repeats = 3;
  options.max_repeats = 100;
  options.target_spread = 0.01;
  const auto points =
      MeasureBench(device).Measure(First(), kBatch, options, std::stop_token());
  ASSERT_TRUE(points);
  const MeasuredPoint& point = points->at(0);
  EXPECT_EQ(point.time, microseconds(100));
  EXPECT_LE(point.spread, microseconds(1));
  EXPECT_GT(point.repeats, 10);
  EXPECT_LT(point.repeats, 40);
}

TEST(MeasureRepeatsTest, StopsRepeatingAtTheLimits) {
  const auto measured = [](const MeasureOptions& options) {
    Disturbed device(Recorded({Point(64, "GEMM", 0_B, 100)}),
                     [](int run) -> Result<double> { return 1.0 + run % 7; });
    return MeasureBench(device)
        .Measure(First(), kBatch, options, std::stop_token())
        .value()
        .at(0);
  };
  MeasureOptions options;
  options.max_repeats = 12;
  EXPECT_EQ(measured(options).repeats, 12);
  options.max_repeats = 1'000'000;
  options.time_limit = milliseconds(10);
  options.group_time = Nanoseconds(0);
  const MeasuredPoint limited = measured(options);
  EXPECT_GT(limited.repeats, 10);
  EXPECT_LT(limited.repeats, 100);
  EXPECT_EQ(limited.min, microseconds(100));
  EXPECT_GT(limited.p90, limited.time);
  EXPECT_GT(limited.spread, Nanoseconds(0));
}

// The repeats of GEMM at 100 us, one run each; those in `off` are disturbed.
struct Repeats {
  MeasuredPoint point;
  int runs = 0;
};
Repeats MeasureDisturbed(const std::map<int, double>& off,
                         const MeasureOptions& options) {
  Disturbed device(Recorded({Point(64, "GEMM", 0_B, 100)}),
                   [&](int run) -> Result<double> {
                     const auto found = off.find(run);
                     return found == off.end() ? 1.0 : found->second;
                   });
  MeasureOptions each = options;
  each.group_time = Nanoseconds(0);
  const auto points =
      MeasureBench(device).Measure(First(), kBatch, each, std::stop_token());
  EXPECT_TRUE(points);
  return {points->at(0), device.runs};
}

TEST(MeasureRepeatsTest, MeasuresAnOutlierAgain) {
  MeasureOptions options;
  options.min_repeats = 6;
  const int warm_up = MeasureDisturbed({}, options).runs - 6;
  for (const double factor : {1.5, 0.5}) {
    const Repeats repeats = MeasureDisturbed({{warm_up + 2, factor}}, options);
    EXPECT_EQ(repeats.runs, warm_up + 7);
    EXPECT_EQ(repeats.point.repeats, 6);
    EXPECT_EQ(repeats.point.outliers, 1);
    EXPECT_EQ(repeats.point.time, microseconds(100));
    EXPECT_EQ(repeats.point.min, microseconds(100));
    EXPECT_EQ(repeats.point.p90, microseconds(100));
  }
  // A time within the spread of the repeats is not an outlier.
  EXPECT_EQ(MeasureDisturbed({{warm_up + 2, 1.08}}, options).runs, warm_up + 6);
}

TEST(MeasureRepeatsTest, KeepsOutliersThatRecur) {
  MeasureOptions options;
  options.min_repeats = 9;
  options.max_outliers = 2;
  const int warm_up = MeasureDisturbed({}, options).runs - 9;
  std::map<int, double> off;
  for (int run = warm_up + 1; run < 100; run += 8) off[run] = 2.0;
  const Repeats repeats = MeasureDisturbed(off, options);
  EXPECT_LE(repeats.runs, warm_up + 11);
  EXPECT_EQ(repeats.point.repeats, 9);
  EXPECT_EQ(repeats.point.outliers, 2);
  EXPECT_EQ(repeats.point.time, microseconds(100));
}

TEST(MeasureRepeatsTest,
     MeasuresASingleRepeatAgainThatTookLongerThanTheWarmUp) {
  MeasureOptions options;
  options.min_repeats = options.max_repeats = 1;
  const int warm_up = MeasureDisturbed({}, options).runs - 1;
  const Repeats repeats = MeasureDisturbed({{warm_up, 1.3}}, options);
  EXPECT_EQ(repeats.point.time, microseconds(100));
  EXPECT_EQ(repeats.runs, warm_up + 2);
}

TEST(MeasureRepeatsTest, DoesNotMistakeCodeLoadingForASlowAlgorithm) {
  // The first run of all 64 images of SECOND takes 50 times as long.
  std::vector<MeasuredPoint> points = {Point(64, "FIRST", 1_MiB, 100),
                                       Point(64, "SECOND", 0_B, 90)};
  Disturbed quiet(Recorded({points[0]}),
                  [](int) -> Result<double> { return 1.0; });
  ASSERT_TRUE(MeasureBench(quiet).Measure(First(), kBatch, MeasureOptions(),
                                          std::stop_token()));
  Disturbed device(Recorded(points), [&](int run) -> Result<double> {
    return run == quiet.runs ? 50.0 : 1.0;
  });
  const auto measured = MeasureBench(device).Measure(
      First(), kBatch, MeasureOptions(), std::stop_token());
  ASSERT_TRUE(measured);
  ASSERT_EQ(Names(*measured), (std::vector<std::string>{"FIRST", "SECOND"}));
  EXPECT_EQ(measured->at(1).time, microseconds(90));
  EXPECT_GE(measured->at(1).repeats, 3);
}

TEST(MeasureRepeatsTest,
     TimesShortRunsInGroupsSoThatThePauseBeforeThemCountsLittle) {
  Disturbed device(Recorded({Point(64, "GEMM", 0_B, 100)}),
                   [](int) -> Result<double> { return 1.0; });
  device.pause = microseconds(50);
  const auto measured = [&](Nanoseconds group_time) {
    MeasureOptions options;
    options.group_time = group_time;
    return MeasureBench(device)
        .Measure(First(), kBatch, options, std::stop_token())
        .value()
        .at(0)
        .time;
  };
  EXPECT_EQ(measured(Nanoseconds(0)), microseconds(150));
  // A group of ten: 1.5 ms of group time at 150 us a run.
  EXPECT_EQ(measured(microseconds(1500)), microseconds(105));
  // Runs that are long enough are timed one by one.
  EXPECT_EQ(measured(microseconds(60)), microseconds(150));
}

TEST(MeasureRepeatsTest, MeasuresTheDeviceEvenIfEnqueueingTakesLonger) {
  Disturbed device(Recorded({Point(64, "WINOGRAD_NONFUSED", 1_MiB, 40)}),
                   [](int) -> Result<double> { return 1.0; });
  device.pause = microseconds(90);
  device.slow_host = true;
  MeasureOptions options;
  options.group_time = Nanoseconds(0);
  const auto points =
      MeasureBench(device).Measure(First(), kBatch, options, std::stop_token());
  ASSERT_TRUE(points) << points.error().message;
  EXPECT_EQ(points->at(0).time, microseconds(40));
  EXPECT_EQ(points->at(0).enqueue, microseconds(90));
}

// One algorithm of 100 us, which the host enqueues in 40.
FakeDevice WithGraphs() {
  FakeDevice device({{.algorithm = {"GEMM", "", Precision::kFp32},
                      .workspace_per_image = 0_B,
                      .time = microseconds(100),
                      .enqueue = microseconds(40)}});
  device.set_graphs(1_KiB);
  device.set_cache(2000_B);
  return device;
}

TEST(MeasureRepeatsTest, ReplaysShortRunsWhereTheDeviceCan) {
  FakeDevice device = WithGraphs();
  MeasureOptions options;
  options.min_repeats = options.max_repeats = 4;
  options.group_time = microseconds(1000);
  const auto points =
      MeasureBench(device).Measure(First(), BatchSize(1), options, {});
  ASSERT_TRUE(points) << points.error().message;
  EXPECT_EQ(points->at(0).time, microseconds(100));
  EXPECT_EQ(points->at(0).repeats, 4);
  // Of one group that was enqueued.
  EXPECT_EQ(points->at(0).enqueue, microseconds(40));
  EXPECT_EQ(device.captures(), 4);
  EXPECT_EQ(device.updates(), 3);
  EXPECT_EQ(device.replays(), 4);
  // Operands differ as they do when enqueued: 4000 bytes are ten runs.
  const auto& runs = device.runs();
  for (std::size_t i = 1; i < runs.size(); ++i) {
    EXPECT_NE(runs[i].args.a, runs[i - 1].args.a) << i;
  }
  EXPECT_EQ(MethodText(device, options),
            "cold operands, replayed, two streams, both betas");
}

TEST(MeasureRepeatsTest, EnqueuesLongRunsAndWhatCannotBeCaptured) {
  for (const bool is_long : {true, false}) {
    FakeDevice device = WithGraphs();
    MeasureOptions options;
    options.min_repeats = options.max_repeats = 4;
    options.group_time = microseconds(is_long ? 90 : 1000);
    if (!is_long) device.set_capture_error(Error{Code::kInternal, "no"});
    const auto points =
        MeasureBench(device).Measure(First(), BatchSize(1), options, {});
    ASSERT_TRUE(points) << points.error().message;
    EXPECT_EQ(points->at(0).time, microseconds(100));
    EXPECT_EQ(points->at(0).enqueue, microseconds(40));
    EXPECT_EQ(device.replays(), 0);
  }
}

// Where the host would be what a short run waits for.
TEST(MeasureRepeatsTest, ReplaysWhatKeepsADeviceBusy) {
  FakeDevice device;
  const auto time_under_load = [&] {
    device.runs().clear();
    const Candidate candidate{{"frugal", "", Precision::kFp32}, 0_B};
    return MeasureBench(device).TimeUnderLoad(
        First(), kBatch, candidate, milliseconds(100), std::stop_token());
  };
  device.set_graphs(1_KiB);
  EXPECT_EQ(time_under_load().value(), microseconds(1));
  EXPECT_EQ(device.captures(), 1);
  // All but the first two runs.
  EXPECT_EQ((std::ssize(device.runs()) - 2) % device.replays(), 0);
  EXPECT_GE(device.replays(), 100'000 / 256);
  // Algorithms that cannot be captured are enqueued.
  device.set_capture_error(Error{Code::kUnimplemented, "not this one"});
  const int replays = device.replays();
  EXPECT_EQ(time_under_load().value(), microseconds(1));
  EXPECT_EQ(device.replays(), replays);
}

}  // namespace
}  // namespace ucudnn
