#include "tests/gpu/figures/points.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "base/network.h"
#include "tests/support/recorded_device.h"

namespace ucudnn::figures {
namespace {

using ::testing::Contains;
using ::testing::Not;

// A layer whose images have 3 MiB, so points start at one image.
ConvGeometry LargeImages() {
  ConvGeometry g;
  g.channels = 48;
  g.filters = 48;
  g.input = {1, 128, 128};
  g.filter = {1, 3, 3};
  g.padding = {0, 1, 1};
  return g;
}

constexpr BatchSize kBatch{12};

// `time` in us and `workspace` for each batch from 1 to 12.
template <class Time, class Workspace>
void Record(const char* name, Time time, Workspace workspace,
            std::vector<MeasuredPoint>* points) {
  for (std::int64_t n = 1; n <= kBatch.count(); ++n) {
    points->push_back({BatchSize(n),
                       {name, "FMA", Precision::kFp32},
                       workspace(n),
                       std::chrono::microseconds(time(n)),
                       Nanoseconds(0),
                       1});
  }
}

std::set<std::string> Measured(const std::vector<MeasuredPoint>& points) {
  std::set<std::string> texts;
  for (const MeasuredPoint& p : points) {
    texts.insert(fmt::format("{} {}", p.algorithm.name, p.batch.count()));
  }
  return texts;
}

TEST(PointSourceTest, MeasuresContendersAndBatchesThatJustFit) {
  std::vector<MeasuredPoint> points;
  const auto none = [](std::int64_t) { return Bytes(); };
  Record(
      "DIRECT", [](auto n) { return 100 * n; }, none, &points);
  // Three times as slow on one image, because it transforms filters.
  Record(
      "FFT", [](auto n) { return 300 + 25 * n; },
      [](auto n) { return 8_MiB * n; }, &points);
  Record(
      "HOPELESS", [](auto n) { return 400 * n; }, none, &points);
  const Network network = {"large",
                           {ConvLayer{"first", LargeImages(), false, false}}};
  const auto device =
      OpenRecordedDevice({{{{"GPU", "large", "first", ConvOp::kForward,
                             Precision::kFp32, Layout::kNchw},
                            points}}},
                         network, "GPU");
  ASSERT_TRUE(device) << device.error().message;
  Surveyors surveyors(**device);
  PointSource source(**device, surveyors, {});
  const ConvProblem problem = {ConvOp::kForward, LargeImages(),
                               Precision::kFp32, Layout::kNchw};
  source.Survey({{problem, kBatch}});
  // 7 images of FFT fit.
  const auto found = source.PointsOf(problem, kBatch, {63_MiB});
  ASSERT_TRUE(found) << found.error().message;
  const std::set<std::string> measured = Measured(**found);
  for (const char* name : {"DIRECT 1", "DIRECT 12", "FFT 8", "FFT 12"}) {
    EXPECT_THAT(measured, Contains(name));
  }
  // An even part of the batch that fits.
  EXPECT_THAT(measured, Contains("FFT 6"));
  EXPECT_THAT(measured, Not(Contains("HOPELESS 12")));
  for (const MeasuredPoint& p : **found) {
    EXPECT_THAT(points,
                Contains(::testing::AllOf(
                    ::testing::Field(&MeasuredPoint::batch, p.batch),
                    ::testing::Field(&MeasuredPoint::algorithm, p.algorithm),
                    ::testing::Field(&MeasuredPoint::time, p.time))));
  }
  EXPECT_EQ(source.effort().failed, 0);
}

}  // namespace
}  // namespace ucudnn::figures
