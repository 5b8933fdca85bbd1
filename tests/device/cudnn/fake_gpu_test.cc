// device/cudnn on the GPU that the tests compute on the host
// (tests/support/fake_gpu), loaded as NVIDIA's libraries are.

#include "tests/support/fake_gpu/fake_gpu.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>

#include "device/cudnn/cudnn_device.h"
#include "device/cudnn/driver/libraries.h"
#include "device/measure/campaign.h"
#include "device/measure/device_model.h"
#include "solver/micro_batch/wr.h"

namespace ucudnn {
namespace {

TEST(FakeGpuTest, ReturnsStatusesAsItsCudnnNumbersThem) {
  const auto here = [](cudnnStatus_t status) {
    return static_cast<int>(cudnn::StatusHere(status));
  };
  const bool is_8 = cudnn::LoadedLibraries().value()->cudnn.GetVersion() < 9000;
  EXPECT_EQ(here(CUDNN_STATUS_SUCCESS), 0);
  EXPECT_EQ(here(CUDNN_STATUS_BAD_PARAM), is_8 ? 3 : 2000);
  EXPECT_EQ(here(CUDNN_STATUS_NOT_SUPPORTED), is_8 ? 9 : 3000);
  EXPECT_EQ(here(CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED),
            is_8 ? 2 : 4003);
  EXPECT_EQ(here(CUDNN_STATUS_EXECUTION_FAILED), is_8 ? 8 : 5000);
}

TEST(FakeGpuTest, MeasuresItsDeviceModel) {
  auto devices = OpenCudnnDevices(CudnnOptions());
  ASSERT_TRUE(devices) << devices.error().message;
  const DeviceModelOptions options = {
      .repeats = 3, .copy = 1_MiB, .channels = 16, .max_batch = BatchSize(64)};
  const auto model = MeasureDeviceModel(*devices->front(), options, {});
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->name, ToString(devices->front()->info().kind));
  EXPECT_NEAR(model->memory_rate, kFakeMemoryRate * 1e3, 100);
  // The smallest operator also moves 8 KiB.
  EXPECT_NEAR(static_cast<double>(model->launch.count()), kFakeLaunch + 82, 2);
  // 2 * 49 * 16^2 operations an image; 64 images take 5 us and 30 us each.
  EXPECT_NEAR(model->arithmetic.fp32, 834.1, 0.1);
  EXPECT_EQ(model->arithmetic.half, model->arithmetic.fp32);
  EXPECT_GT(model->h2d_rate, 0);
  EXPECT_GT(model->d2h_rate, 0);
}

TEST(FakeGpuTest, MeasuresWhatTheDeviceSustains) {
  auto devices = OpenCudnnDevices(CudnnOptions());
  ASSERT_TRUE(devices) << devices.error().message;
  DeviceModelOptions options = {
      .repeats = 3, .copy = 1_MiB, .channels = 16, .max_batch = BatchSize(64)};
  const std::int64_t begun = FakeGpuNow();
  const auto rested = MeasureDeviceModel(*devices->front(), options, {});
  ASSERT_TRUE(rested) << rested.error().message;
  EXPECT_EQ(rested->loaded, ArithmeticRates());
  const std::int64_t burst = FakeGpuNow() - begun;
  FakeGpuThrottleFrom(FakeGpuNow() + burst);
  options.load = std::chrono::milliseconds(100);
  const auto model = MeasureDeviceModel(*devices->front(), options, {});
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->arithmetic, rested->arithmetic);
  EXPECT_NEAR(model->loaded.fp32, rested->arithmetic.fp32 / 1.25, 0.1);
  EXPECT_EQ(model->loaded.half, model->loaded.fp32);
  EXPECT_GE(FakeGpuNow() - begun, 2 * burst + 100'000'000);
  FakeGpuThrottleFrom(std::numeric_limits<std::int64_t>::max());
}

TEST(FakeGpuTest, TimesAsInAProcessWithTwoStreams) {
  auto devices = OpenCudnnDevices(CudnnOptions());
  ASSERT_TRUE(devices) << devices.error().message;
  Device& device = *devices->front();
  const auto buffer = device.Allocate(1_MiB);
  ASSERT_TRUE(buffer) << buffer.error().message;
  const auto fill = [&] { return device.Fill(buffer->data(), 0, 1_MiB); };
  ASSERT_TRUE(fill());
  const int begun = FakeGpuFillsElsewhere();
  ASSERT_TRUE(device.TimeEnqueued(fill));
  EXPECT_EQ(FakeGpuFillsElsewhere() - begun, 2);  // there and back
  ASSERT_TRUE(device.TimeEnqueued(fill));
  EXPECT_EQ(FakeGpuFillsElsewhere() - begun, 2);  // once is enough
}

// The algorithm that is faster errs by a hundredth.
TEST(FakeGpuTest, PlansDoWithoutAlgorithmsThatErr) {
  setenv("FAKE_GPU_INEXACT", "1", 1);
  auto devices = OpenCudnnDevices(CudnnOptions());
  ASSERT_TRUE(devices) << devices.error().message;
  Device& device = *devices->front();
  ConvProblem problem;
  problem.geometry.channels = 3;
  problem.geometry.filters = 2;
  problem.geometry.input = {1, 6, 6};
  problem.geometry.filter = {1, 5, 5};
  problem.geometry.padding = {0, 2, 2};
  const BatchSize batch(8);
  for (const bool adaptive : {false, true}) {
    MeasureBench bench(device);
    const auto points =
        RunCampaign(device, bench,
                    {.problem = problem,
                     .batch = batch,
                     .goal = {.adaptive = adaptive, .limit = std::nullopt},
                     .max_workspace = 1_MiB,
                     .known = {}},
                    {.max_repeats = 3}, {}, {}, {});
    ASSERT_TRUE(points) << points.error().message;
    const auto time_with = [&](double max_error) {
      KernelProfile kernel;
      kernel.points = *points;
      LeaveOutInexact(problem.precision, max_error, &kernel.points);
      return SolveWr(kernel, {batch, 1_MiB, BatchPolicy::kUndivided});
    };
    const auto by_default = time_with(kDefaultMaxError);
    ASSERT_TRUE(by_default) << by_default.error().message;
    const auto loose = time_with(0.05);
    ASSERT_TRUE(loose) << loose.error().message;
    EXPECT_GT(by_default->time, 2 * loose->time);
    EXPECT_EQ(*by_default, time_with(1e-3));
    for (const MeasuredPoint& point : *points) {
      const bool errs = FromPpt(point.error_ppt) > 5e-3;
      EXPECT_EQ(errs,
                point.algorithm == loose->micro_batches.front().algorithm);
      EXPECT_LT(FromPpt(point.error_ppt), errs ? 0.1 : 1e-5);
    }
  }
  unsetenv("FAKE_GPU_INEXACT");
}

}  // namespace
}  // namespace ucudnn
