#include "device/measure/measure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "device/forwarding_device.h"
#include "device/recorded/recorded_device.h"
#include "tests/device/recorded_profile.h"
#include "tests/support/fake_device.h"

namespace ucudnn {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using test::KernelOf;
using test::Point;
using test::SmallGeometry;
using test::SmallNetwork;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr BatchSize kBatch(64);

std::unique_ptr<Device> Recorded(std::vector<MeasuredPoint> points,
                                 ConvOp op = ConvOp::kForward) {
  const Profile profile = {{KernelOf("first", op, std::move(points))}};
  auto device = OpenRecordedDevice(profile, SmallNetwork(), "");
  EXPECT_TRUE(device) << device.error().message;
  return *std::move(device);
}

ConvProblem First(ConvOp op = ConvOp::kForward) {
  return {op, SmallGeometry(), Precision::kFp32, Layout::kNchw};
}

// The error code that was reported for each algorithm.
struct Report {
  std::map<std::string, Code> codes;
  MeasureProgress Record() {
    return [this](const Candidate& candidate,
                  const Result<MeasuredPoint>& point) {
      codes[candidate.algorithm.name] = point ? Code::kOk : point.error().code;
    };
  }
};

std::vector<std::string> Names(const std::vector<MeasuredPoint>& points) {
  std::vector<std::string> names;
  for (const MeasuredPoint& p : points) names.push_back(p.algorithm.name);
  return names;
}

// Forwards everything to a recorded device, except that a test may give each
// run an error or a factor to its time.
class Disturbed : public ForwardingDevice {
 public:
  using Disturbance = std::function<Result<double>(int run)>;
  Disturbed(std::unique_ptr<Device> device, Disturbance disturbance)
      : ForwardingDevice(*device),
        recorded_(std::move(device)),
        disturbance_(std::move(disturbance)) {}

  Result<DeviceBuffer> Allocate(Bytes size) override {
    allocated.push_back(size);
    return ForwardingDevice::Allocate(size);
  }
  Result<Nanoseconds> Time(const std::function<Status()>& work) override {
    UCUDNN_ASSIGN_OR_RETURN(const double factor, disturbance_(runs++));
    UCUDNN_ASSIGN_OR_RETURN(const Nanoseconds time, device_.Time(work));
    return pause + Nanoseconds(static_cast<std::int64_t>(
                       static_cast<double>(time.count()) * factor));
  }
  Result<EnqueuedTime> TimeEnqueued(
      const std::function<Status()>& work) override {
    UCUDNN_ASSIGN_OR_RETURN(const Nanoseconds time,
                            slow_host ? device_.Time(work) : Time(work));
    return EnqueuedTime{time, slow_host ? pause : Nanoseconds(0)};
  }
  Status Synchronize() override {
    return broken ? Status(Fail(Code::kDataLoss, "the device fell away"))
                  : Status();
  }

  int runs = 0;
  Nanoseconds pause{0};    // before the first run of each timing
  bool slow_host = false;  // the pause is the host's
  bool broken = false;
  std::vector<Bytes> allocated;

 private:
  std::unique_ptr<Device> recorded_;
  Disturbance disturbance_;
};

TEST(MeasureTest, AddsToTheOutputIfAsked) {
  for (const auto& [op, adds, beta] :
       {std::tuple(ConvOp::kBackwardData, false, 0.0F),
        std::tuple(ConvOp::kBackwardData, true, 1.0F),
        std::tuple(ConvOp::kBackwardFilter, false, 1.0F)}) {
    FakeDevice device;
    MeasureOptions options;
    options.adds = adds;
    ASSERT_TRUE(MeasureProblem(device, First(op), kBatch, options, {}));
    ASSERT_FALSE(device.timed_runs().empty());
    for (const auto& run : device.timed_runs()) EXPECT_EQ(run.args.beta, beta);
  }
}

TEST(MeasureTest, FindsTheRecordedTimes) {
  const std::vector<MeasuredPoint> recorded = {Point(64, "FFT", 1_MiB, 40),
                                               Point(64, "GEMM", 0_B, 100)};
  const auto device = Recorded(recorded);
  MeasureOptions options;
  options.min_repeats = 4;
  const auto points =
      MeasureProblem(*device, First(), kBatch, options, std::stop_token());
  ASSERT_TRUE(points) << points.error().message;
  ASSERT_EQ(points->size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    MeasuredPoint expected = recorded[i];
    expected.repeats = 4;
    expected.min = expected.p90 = expected.time;
    EXPECT_EQ((*points)[i], expected);
  }
}

TEST(MeasureTest, RepeatsUntilTheMedianIsSettled) {
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
      MeasureProblem(device, First(), kBatch, options, std::stop_token());
  ASSERT_TRUE(points);
  const MeasuredPoint& point = points->at(0);
  EXPECT_EQ(point.time, microseconds(100));
  EXPECT_LE(point.spread, microseconds(1));
  EXPECT_GT(point.repeats, 10);
  EXPECT_LT(point.repeats, 40);
}

TEST(MeasureTest, StopsRepeatingAtTheLimits) {
  const auto measured = [](const MeasureOptions& options) {
    Disturbed device(Recorded({Point(64, "GEMM", 0_B, 100)}),
                     [](int run) -> Result<double> { return 1.0 + run % 7; });
    return MeasureProblem(device, First(), kBatch, options, std::stop_token())
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
      MeasureProblem(device, First(), kBatch, each, std::stop_token());
  EXPECT_TRUE(points);
  return {points->at(0), device.runs};
}

TEST(MeasureTest, MeasuresAnOutlierAgain) {
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

TEST(MeasureTest, KeepsOutliersThatRecur) {
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

TEST(MeasureTest, MeasuresASingleRepeatAgainThatTookLongerThanTheWarmUp) {
  MeasureOptions options;
  options.min_repeats = options.max_repeats = 1;
  const int warm_up = MeasureDisturbed({}, options).runs - 1;
  const Repeats repeats = MeasureDisturbed({{warm_up, 1.3}}, options);
  EXPECT_EQ(repeats.point.time, microseconds(100));
  EXPECT_EQ(repeats.runs, warm_up + 2);
}

TEST(MeasureTest, DoesNotMistakeCodeLoadingForASlowAlgorithm) {
  // The first run of all 64 images of SECOND takes 50 times as long.
  std::vector<MeasuredPoint> points = {Point(64, "FIRST", 1_MiB, 100),
                                       Point(64, "SECOND", 0_B, 90)};
  Disturbed quiet(Recorded({points[0]}),
                  [](int) -> Result<double> { return 1.0; });
  ASSERT_TRUE(MeasureProblem(quiet, First(), kBatch, MeasureOptions(),
                             std::stop_token()));
  Disturbed device(Recorded(points), [&](int run) -> Result<double> {
    return run == quiet.runs ? 50.0 : 1.0;
  });
  const auto measured = MeasureProblem(device, First(), kBatch,
                                       MeasureOptions(), std::stop_token());
  ASSERT_TRUE(measured);
  ASSERT_EQ(Names(*measured), (std::vector<std::string>{"FIRST", "SECOND"}));
  EXPECT_EQ(measured->at(1).time, microseconds(90));
  EXPECT_GE(measured->at(1).repeats, 3);
}

TEST(MeasureTest, TimesShortRunsInGroupsSoThatThePauseBeforeThemCountsLittle) {
  Disturbed device(Recorded({Point(64, "GEMM", 0_B, 100)}),
                   [](int) -> Result<double> { return 1.0; });
  device.pause = microseconds(50);
  const auto measured = [&](Nanoseconds group_time) {
    MeasureOptions options;
    options.group_time = group_time;
    return MeasureProblem(device, First(), kBatch, options, std::stop_token())
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

TEST(MeasureTest, MeasuresTheDeviceEvenIfEnqueueingTakesLonger) {
  Disturbed device(Recorded({Point(64, "WINOGRAD_NONFUSED", 1_MiB, 40)}),
                   [](int) -> Result<double> { return 1.0; });
  device.pause = microseconds(90);
  device.slow_host = true;
  MeasureOptions options;
  options.group_time = Nanoseconds(0);
  const auto points =
      MeasureProblem(device, First(), kBatch, options, std::stop_token());
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

TEST(MeasureTest, ReplaysShortRunsWhereTheDeviceCan) {
  FakeDevice device = WithGraphs();
  MeasureOptions options;
  options.min_repeats = options.max_repeats = 4;
  options.group_time = microseconds(1000);
  const auto points =
      MeasureProblem(device, First(), BatchSize(1), options, {});
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
  EXPECT_EQ(MethodText(device, options), "cold operands, replayed");
}

TEST(MeasureTest, EnqueuesLongRunsAndWhatCannotBeCaptured) {
  for (const bool is_long : {true, false}) {
    FakeDevice device = WithGraphs();
    MeasureOptions options;
    options.min_repeats = options.max_repeats = 4;
    options.group_time = microseconds(is_long ? 90 : 1000);
    if (!is_long) device.set_capture_error(Error{Code::kInternal, "no"});
    const auto points =
        MeasureProblem(device, First(), BatchSize(1), options, {});
    ASSERT_TRUE(points) << points.error().message;
    EXPECT_EQ(points->at(0).time, microseconds(100));
    EXPECT_EQ(points->at(0).enqueue, microseconds(40));
    EXPECT_EQ(device.replays(), 0);
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
    return Names(MeasureProblem(device, First(), kBatch, options,
                                std::stop_token(), report->Record())
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
  const auto points = MeasureProblem(device, First(), kBatch, MeasureOptions(),
                                     {}, report.Record());
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
  const auto points = MeasureProblem(device, First(), kBatch, options, {});
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
    const auto points =
        MeasureProblem(device, First(), batch, options, {}, report.Record());
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
  const auto points = MeasureProblem(device, First(), kBatch, options,
                                     std::stop_token(), report.Record());
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
  const auto points = MeasureProblem(device, First(), kBatch, MeasureOptions(),
                                     std::stop_token(), report.Record());
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
  const auto failed = MeasureProblem(device, First(), kBatch, MeasureOptions(),
                                     std::stop_token());
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Code::kUnknown);
  EXPECT_THAT(failed.error().message, HasSubstr(ToString(First())));
  EXPECT_EQ(device.runs, 2);

  device.broken = true;
  const auto broken = MeasureProblem(device, First(), kBatch, MeasureOptions(),
                                     std::stop_token());
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
  const auto points = MeasureProblem(device, First(), kBatch, MeasureOptions(),
                                     source.get_token(), report.Record());
  ASSERT_FALSE(points);
  EXPECT_EQ(points.error().code, Code::kCancelled);
  EXPECT_EQ(device.runs, 4);
  EXPECT_TRUE(report.codes.empty());
}

TEST(MeasureTest, KeepsItsBuffersFromOneProblemToTheNext) {
  Disturbed device(
      Recorded({Point(8, "GEMM", 1_KiB, 50), Point(64, "GEMM", 64_KiB, 100)}),
      [](int) -> Result<double> { return 1.0; });
  MeasureBench bench(device);
  for (const std::int64_t batch : {64, 8, 64}) {
    EXPECT_TRUE(bench.Measure(First(), BatchSize(batch), MeasureOptions(),
                              std::stop_token(), {}));
    EXPECT_EQ(device.allocated.size(), 4U);
  }
}

// An image of First() is 160 bytes in and 240 out.
constexpr std::int64_t kImage = 160;

TEST(MeasureTest, GivesEachRunDifferentOperandsAcrossAlgorithms) {
  FakeDevice device;
  device.set_cache(2000_B);
  MeasureBench bench(device);
  MeasureOptions options;
  options.max_repeats = 7;
  // 4000 bytes are ten runs of one image. A fake run takes 1 us, so repeats
  // are groups of 32.
  ASSERT_TRUE(bench.Measure(First(), BatchSize(1), options, {}, {}));
  const auto& runs = device.runs();
  ASSERT_GT(runs.size(), 2 * 3 * 32U);
  EXPECT_NE(runs.front().algorithm, runs.back().algorithm);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    EXPECT_EQ(static_cast<const char*>(runs[i].args.a),
              static_cast<const char*>(runs[0].args.a) +
                  static_cast<std::int64_t>(i % 10) * kImage);
    EXPECT_EQ(runs[i].args.b, runs[0].args.b);
  }
}

TEST(MeasureTest, ReusesOperandsIfRequestedOrNecessary) {
  for (const auto& [cache, cold] :
       {std::pair{2000_B, 0.0}, std::pair{0_B, 2.0}}) {
    FakeDevice device;
    device.set_cache(cache);
    MeasureOptions options;
    options.cold = cold;
    EXPECT_EQ(MethodText(device, options), "");
    ASSERT_TRUE(MeasureProblem(device, First(), BatchSize(1), options, {}));
    for (const FakeDevice::RunCall& run : device.runs()) {
      EXPECT_EQ(run.args.a, device.runs()[0].args.a);
      EXPECT_EQ(run.args.out, device.runs()[0].args.out);
    }
  }
}

TEST(MeasureTest, LimitsColdOperandsToAFractionOfTheDevicesMemory) {
  FakeDevice device;
  device.mutable_info().kind.memory = 32_MiB;
  device.set_cache(1_GiB);
  for (const double cold : {2.0, HUGE_VAL}) {
    MeasureOptions options;
    options.cold = cold;
    EXPECT_EQ(MethodText(device, options), "cold operands");
    ASSERT_TRUE(MeasureProblem(device, First(), kBatch, options, {}));
    Bytes allocated;
    for (const Bytes size : device.allocations()) allocated += size;
    // A megabyte, what rounds it up to whole runs, the filter, a workspace.
    EXPECT_GT(allocated, 1_MiB);
    EXPECT_LE(allocated, 1_MiB + 64_KiB);
    device.clear_allocations();
  }
}

TEST(MeasureTest, UsesFewerOperandsIfMemoryIsShort) {
  FakeDevice device;
  device.set_cache(8_MiB);
  device.set_memory(4_MiB);
  ASSERT_TRUE(MeasureProblem(device, First(), kBatch, MeasureOptions(), {})
                  .has_value());
  std::set<const void*> seen;
  for (const FakeDevice::RunCall& run : device.runs()) seen.insert(run.args.a);
  EXPECT_GT(seen.size(), 100U);
  // In the end, one run's.
  device.runs().clear();
  device.set_memory(64_KiB);
  const auto points =
      MeasureProblem(device, First(), kBatch, MeasureOptions(), {});
  ASSERT_TRUE(points) << points.error().message;
  EXPECT_EQ(points->size(), 2U);
}

TEST(MeasureTest, FreesOtherRunsOperandsForAWorkspace) {
  FakeDevice device;  // whose "lavish" needs 100 bytes an image
  device.set_cache(1_MiB);
  // 82 runs' operands of two megabytes and the filter fit, but not another 6400
  // bytes of workspace.
  device.set_total_memory(Bytes(82 * 64 * (160 + 240) + 54 * 4 + 1000));
  Report report;
  const auto points = MeasureProblem(device, First(), kBatch, MeasureOptions(),
                                     {}, report.Record());
  ASSERT_TRUE(points) << points.error().message;
  EXPECT_EQ(report.codes["lavish"], Code::kOk);
  EXPECT_EQ(report.codes["frugal"], Code::kOk);
  EXPECT_EQ(*std::ranges::max_element(device.allocations()),
            Bytes(82 * 64 * 240));
  const auto last = device.runs().back();
  EXPECT_EQ(last.args.a, (device.runs().end() - 2)->args.a);

  // If not even that suffices, the other algorithms are measured.
  device.set_total_memory(64_B * (160 + 240) + 1_KiB);
  ASSERT_TRUE(MeasureProblem(device, First(), kBatch, MeasureOptions(), {},
                             report.Record()));
  EXPECT_EQ(report.codes["lavish"], Code::kResourceExhausted);
  EXPECT_EQ(report.codes["frugal"], Code::kOk);
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
    const auto points =
        MeasureProblem(*device, First(), kBatch, options, std::stop_token());
    ASSERT_FALSE(points);
    EXPECT_EQ(points.error().code, Code::kInvalidArgument);
  }
}

TEST(MeasureTest, PassesOnThatABatchIsUnknown) {
  const auto device = Recorded({Point(64, "GEMM", 0_B, 100)});
  const auto points = MeasureProblem(*device, First(), BatchSize(5),
                                     MeasureOptions(), std::stop_token());
  ASSERT_FALSE(points);
  EXPECT_EQ(points.error().code, Code::kNotFound);
}

}  // namespace
}  // namespace ucudnn
