#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>

#include "device/measure/measure.h"
#include "tests/device/measure/measuring.h"
#include "tests/support/fake_device.h"

namespace ucudnn {
namespace {

using test::Disturbed;
using test::First;
using test::kBatch;
using test::Point;
using test::Recorded;
using test::Report;

TEST(MeasureOperandsTest, KeepsItsBuffersFromOneProblemToTheNext) {
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

TEST(MeasureOperandsTest, GivesEachRunDifferentOperandsAcrossAlgorithms) {
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

TEST(MeasureOperandsTest, ReusesOperandsIfRequestedOrNecessary) {
  for (const auto& [cache, cold] :
       {std::pair{2000_B, 0.0}, std::pair{0_B, 2.0}}) {
    FakeDevice device;
    device.set_cache(cache);
    MeasureOptions options;
    options.cold = cold;
    EXPECT_EQ(MethodText(device, options), "both betas");
    ASSERT_TRUE(
        MeasureBench(device).Measure(First(), BatchSize(1), options, {}));
    for (const FakeDevice::RunCall& run : device.runs()) {
      EXPECT_EQ(run.args.a, device.runs()[0].args.a);
      EXPECT_EQ(run.args.out, device.runs()[0].args.out);
    }
  }
}

TEST(MeasureOperandsTest, LimitsColdOperandsToAFractionOfTheDevicesMemory) {
  FakeDevice device;
  device.mutable_info().kind.memory = 32_MiB;
  device.set_cache(1_GiB);
  for (const double cold : {2.0, HUGE_VAL}) {
    MeasureOptions options;
    options.cold = cold;
    EXPECT_EQ(MethodText(device, options), "cold operands, both betas");
    ASSERT_TRUE(MeasureBench(device).Measure(First(), kBatch, options, {}));
    Bytes allocated;
    for (const Bytes size : device.allocations()) allocated += size;
    // A megabyte, what rounds it up to whole runs, the filter, a workspace.
    EXPECT_GT(allocated, 1_MiB);
    EXPECT_LE(allocated, 1_MiB + 64_KiB);
    device.clear_allocations();
  }
}

TEST(MeasureOperandsTest, UsesFewerOperandsIfMemoryIsShort) {
  FakeDevice device;
  device.set_cache(8_MiB);
  device.set_memory(4_MiB);
  ASSERT_TRUE(MeasureBench(device)
                  .Measure(First(), kBatch, MeasureOptions(), {})
                  .has_value());
  std::set<const void*> seen;
  for (const FakeDevice::RunCall& run : device.runs()) seen.insert(run.args.a);
  EXPECT_GT(seen.size(), 100U);
  // In the end, one run's.
  device.runs().clear();
  device.set_memory(64_KiB);
  const auto points =
      MeasureBench(device).Measure(First(), kBatch, MeasureOptions(), {});
  ASSERT_TRUE(points) << points.error().message;
  EXPECT_EQ(points->size(), 2U);
}

TEST(MeasureOperandsTest, FreesOtherRunsOperandsForAWorkspace) {
  FakeDevice device;  // whose "lavish" needs 100 bytes an image
  device.set_cache(1_MiB);
  // 82 runs' operands of two megabytes and the filter fit, but not another 6400
  // bytes of workspace.
  device.set_total_memory(Bytes(82 * 64 * (160 + 240) + 54 * 4 + 1000));
  Report report;
  const auto points = MeasureBench(device).Measure(
      First(), kBatch, MeasureOptions(), {}, report.Record());
  ASSERT_TRUE(points) << points.error().message;
  EXPECT_EQ(report.codes["lavish"], Code::kOk);
  EXPECT_EQ(report.codes["frugal"], Code::kOk);
  EXPECT_EQ(*std::ranges::max_element(device.allocations()),
            Bytes(82 * 64 * 240));
  const auto last = device.runs().back();
  EXPECT_EQ(last.args.a, (device.runs().end() - 2)->args.a);

  // If not even that suffices, the other algorithms are measured.
  device.set_total_memory(64_B * (160 + 240) + 1_KiB);
  ASSERT_TRUE(MeasureBench(device).Measure(First(), kBatch, MeasureOptions(),
                                           {}, report.Record()));
  EXPECT_EQ(report.codes["lavish"], Code::kResourceExhausted);
  EXPECT_EQ(report.codes["frugal"], Code::kOk);
}

}  // namespace
}  // namespace ucudnn
