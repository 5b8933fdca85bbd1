#include "device/onednn/onednn_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <fstream>
#include <string>
#include <thread>

#include "device/measure/measure.h"
#include "device/open_devices.h"

namespace ucudnn {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

ConvProblem Small(ConvOp op = ConvOp::kForward) {
  ConvGeometry g;
  g.channels = 16;
  g.filters = 32;
  g.input = {1, 14, 14};
  g.filter = {1, 3, 3};
  g.padding = {0, 1, 1};
  return {op, g, Precision::kFp32, Layout::kNchw};
}

std::unique_ptr<Device> Open(const OneDnnOptions& options) {
  auto device = OpenOneDnnDevice(options);
  EXPECT_TRUE(device) << device.error().message;
  return *std::move(device);
}

// More would have every measurement write to that much more memory.
TEST(OneDnnDeviceTest, HasTheCacheThatTheKernelTells) {
  std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index3/size");
  std::string told;
  if (!(file >> told)) GTEST_SKIP() << "the kernel tells no shared cache";
  EXPECT_EQ(fmt::format("{}K", Open({})->cache().count() / 1024), told);
}

TEST(OneDnnDeviceTest, SaysWhatItIs) {
  const auto device = Open({.threads = 2, .index = 3});
  const DeviceInfo& info = device->info();
  EXPECT_THAT(info.id, MatchesRegex("cpu-.+-3"));
  EXPECT_EQ(info.kind.units, 2);
  EXPECT_EQ(info.kind.library, "onednn-2.6");
  EXPECT_GT(info.kind.memory, Bytes());
  // The instruction set that oneDNN generates code for is part of the model.
  EXPECT_THAT(info.kind.model, MatchesRegex(".+ [a-z0-9_]+"));
  EXPECT_THAT(info.driver, StartsWith("oneDNN 2.6."));
  EXPECT_EQ(ParseDeviceKind(ToString(info.kind)).value(), info.kind);
  EXPECT_EQ(device->BusyWith(), "");
}

TEST(OneDnnDeviceTest, UsesAllCoresByDefault) {
  EXPECT_EQ(Open({})->info().kind.units,
            static_cast<std::int64_t>(AvailableCores().size()));
}

TEST(OneDnnDeviceTest, RefusesOptionsOutOfRange) {
  for (const auto& [options, why] :
       {std::pair(OneDnnOptions{.threads = -1}, "-1 threads"),
        std::pair(OneDnnOptions{.threads = 100'000}, "100000 threads"),
        std::pair(OneDnnOptions{.threads = 1, .index = -1}, "index -1"),
        std::pair(OneDnnOptions{.cores = {1 << 20}}, "core 1048576"),
        std::pair(
            OneDnnOptions{.threads = 2, .cores = {AvailableCores().front()}},
            "more than the 1 cores")}) {
    const auto device = OpenOneDnnDevice(options);
    ASSERT_FALSE(device) << why;
    EXPECT_EQ(device.error().code, Code::kInvalidArgument);
    EXPECT_THAT(device.error().message, HasSubstr(why));
  }
}

TEST(OneDnnDeviceTest, AlwaysHasAnAlgorithmOfLittleWorkspace) {
  const auto device = Open({});
  for (const ConvOp op : kConvOps) {
    for (const Layout layout : kLayouts) {
      ConvProblem problem = Small(op);
      problem.layout = layout;
      problem.geometry.channels = 512;
      problem.geometry.filters = 512;
      const auto listed = device->ListAlgorithms(problem, BatchSize(256));
      ASSERT_TRUE(listed) << listed.error().message;
      EXPECT_TRUE(
          std::any_of(listed->begin(), listed->end(),
                      [](const Candidate& c) { return c.workspace <= 64_KiB; }))
          << ToString(problem);
      for (const Candidate& c : *listed) {
        EXPECT_EQ(c.last_resort, c.algorithm.name.starts_with("ref"))
            << c.algorithm.name;
      }
    }
  }
}

TEST(OneDnnDeviceTest, OffersWinogradWithMoreWorkspaceIfTheCpuSupportsIt) {
  const auto device = Open({});
  // oneDNN has Winograd for AVX-512 alone.
  const bool supported =
      device->info().kind.model.find("avx512") != std::string::npos;
  for (const ConvOp op : kConvOps) {
    const auto listed = device->ListAlgorithms(Small(op), BatchSize(8));
    ASSERT_TRUE(listed) << listed.error().message;
    const auto find = [&](const std::string& name) {
      return std::find_if(
          listed->begin(), listed->end(),
          [&](const Candidate& c) { return c.algorithm.name == name; });
    };
    const auto winograd = find("jit_wino_4x3:avx512_core");
    const auto direct = find("jit:avx512_core");
    ASSERT_EQ(winograd != listed->end(), supported);
    if (!supported) continue;
    ASSERT_NE(direct, listed->end());
    EXPECT_GT(winograd->workspace, direct->workspace);
  }
}

TEST(OneDnnDeviceTest, RefusesInvalidProblemsAndBatches) {
  const auto device = Open({});
  ConvProblem wrong = Small();
  wrong.geometry.groups = 3;
  const Algorithm any{"ref:any", "", Precision::kFp32};
  for (const auto& [problem, batch] :
       {std::pair(wrong, BatchSize(1)), std::pair(Small(), BatchSize(0)),
        std::pair(Small(), BatchSize((1 << 24) + 1))}) {
    const auto listed = device->ListAlgorithms(problem, batch);
    ASSERT_FALSE(listed);
    EXPECT_EQ(listed.error().code, Code::kInvalidArgument);
    const auto prepared = device->Prepare(problem, batch, any);
    ASSERT_FALSE(prepared);
    EXPECT_EQ(prepared.error().code, Code::kInvalidArgument);
  }
}

TEST(OneDnnDeviceTest, RefusesWorkspacesThatAreNotAligned) {
  const auto device = Open({});
  const auto listed = device->ListAlgorithms(Small(), BatchSize(2)).value();
  const auto memory = device->Allocate(1_MiB).value();
  for (const Candidate& c : listed) {
    if (c.workspace == Bytes()) continue;
    const auto conv =
        device->Prepare(Small(), BatchSize(2), c.algorithm).value();
    const auto workspace = device->Allocate(c.workspace + 4_B).value();
    const Status run =
        conv->Run({memory.data(), memory.data(), memory.data()},
                  static_cast<char*>(workspace.data()) + 4, c.workspace);
    ASSERT_FALSE(run);
    EXPECT_EQ(run.error().code, Code::kInvalidArgument);
    EXPECT_THAT(run.error().message, HasSubstr("aligned"));
  }
}

// Two devices in one process, each with its own threads, give the same result
// as one, and neither changes the other's number of threads.
TEST(OneDnnDeviceTest, WorksWithAnotherInOneProcess) {
  const std::vector<int> cores = AvailableCores();
  const ConvProblem problem = Small();
  const BatchSize batch(4);
  const auto compute = [&](int index) {
    OneDnnOptions options{.threads = 1, .index = index};
    options.cores = {cores[std::size_t(index) % cores.size()]};
    const auto device = Open(options);
    const auto conv =
        device
            ->Prepare(problem, batch,
                      Algorithm{"x64:gemm:jit", "", Precision::kFp32})
            .value();
    std::vector<float> a(std::size_t(4 * problem.geometry.input_elements()),
                         0.5F);
    std::vector<float> b(std::size_t(problem.geometry.filter_elements()), 2.0F);
    std::vector<float> out(std::size_t(4 * problem.geometry.output_elements()));
    const auto workspace = device->Allocate(conv->workspace()).value();
    for (int i = 0; i < 20; ++i) {
      EXPECT_TRUE(conv->Run({a.data(), b.data(), out.data()}, workspace.data(),
                            workspace.size()));
    }
    return out;
  };
  const std::vector<float> expected = compute(0);
  EXPECT_EQ(expected[15], 16 * 9.0F);
  std::vector<std::vector<float>> results(2);
  {
    std::jthread first([&] { results[0] = compute(0); });
    std::jthread second([&] { results[1] = compute(1); });
  }
  EXPECT_EQ(results[0], expected);
  EXPECT_EQ(results[1], expected);
}

TEST(OneDnnDeviceTest, IsMeasured) {
  const auto device = Open({.threads = 1});
  MeasureOptions options;
  options.max_repeats = 3;
  options.time_limit = std::chrono::milliseconds(200);
  for (const ConvOp op : kConvOps) {
    const auto points = MeasureBench(*device).Measure(
        Small(op), BatchSize(8), options, std::stop_token());
    ASSERT_TRUE(points) << points.error().message;
    ASSERT_GE(points->size(), 2U);
    for (const MeasuredPoint& p : *points) {
      EXPECT_GT(p.time, Nanoseconds(0)) << p.algorithm.name;
      EXPECT_EQ(p.batch, BatchSize(8));
    }
  }
}

// One image takes the reference seconds, so the estimate comes from one filter.
TEST(OneDnnDeviceTest, IsMeasuredWithoutWaitingForTheReference) {
  const auto device = Open({.threads = 1});
  for (const ConvOp op : kConvOps) {
    ConvProblem problem = Small(op);
    problem.geometry.channels = problem.geometry.filters = 64;
    problem.geometry.input = {1, 112, 112};
    MeasureOptions options;
    options.time_limit = std::chrono::milliseconds(200);
    const auto points = MeasureBench(*device).Measure(
        problem, BatchSize(1), options, std::stop_token());
    ASSERT_TRUE(points) << points.error().message;
    EXPECT_FALSE(points->empty());
    for (const MeasuredPoint& p : *points) {
      EXPECT_NE(p.algorithm.name, "ref:any");
    }
    options.max_workspace = 64_KiB;
    const std::clock_t start = std::clock();  // of the processor
    const auto none = MeasureBench(*device).Measure(problem, BatchSize(1),
                                                    options, std::stop_token());
    const std::clock_t end = std::clock();
    ASSERT_TRUE(none) << none.error().message;
    EXPECT_TRUE(none->empty());
    EXPECT_LT(end - start, 3 * CLOCKS_PER_SEC);
  }
}

TEST(RegistryTest, OpensTheCpuAsSeveralDevices) {
  DeviceOptions options;
  options.gpus = false;
  options.cpu_devices = 2;
  options.cpu_threads = 1;
  const auto devices = OpenDevices(options);
  ASSERT_TRUE(devices) << devices.error().message;
  ASSERT_EQ(devices->size(), 2U);
  EXPECT_NE((*devices)[0]->info().id, (*devices)[1]->info().id);
  EXPECT_EQ((*devices)[0]->info().kind, (*devices)[1]->info().kind);
  EXPECT_EQ((*devices)[0]->info().kind.units, 1);
}

TEST(RegistryTest, OpensTheWholeCpuByDefault) {
  DeviceOptions options;
  options.gpus = false;
  const auto devices = OpenDevices(options);
  ASSERT_TRUE(devices) << devices.error().message;
  ASSERT_EQ(devices->size(), 1U);
  EXPECT_EQ((*devices)[0]->info().kind.units,
            static_cast<std::int64_t>(AvailableCores().size()));
}

TEST(RegistryTest, FindsADeviceWithOrWithoutGpu) {
  const auto devices = OpenDevices(DeviceOptions());
  ASSERT_TRUE(devices) << devices.error().message;
  EXPECT_FALSE(devices->empty());
}

TEST(RegistryTest, DoesNotReplaceGpusThatWereNamed) {
  DeviceOptions options;
  options.gpu_ordinals = {1 << 20};
  EXPECT_FALSE(OpenDevices(options));
}

TEST(RegistryTest, SaysWhyThereIsNoDevice) {
  DeviceOptions options;
  options.gpus = false;
  options.cpu_devices = 0;
  const auto none = OpenDevices(options);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::kUnavailable);
  EXPECT_THAT(none.error().message, HasSubstr("GPUs are not requested"));
}

TEST(RegistryTest, RefusesOptionsOutOfRange) {
  for (const int devices : {-1, 5000}) {
    DeviceOptions options;
    options.cpu_devices = devices;
    const auto opened = OpenDevices(options);
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, Code::kInvalidArgument);
  }
  DeviceOptions options;
  for (const int threads : {-2, 4000}) {
    options.cpu_threads = threads;
    EXPECT_EQ(OpenDevices(options).error().code, Code::kInvalidArgument);
  }
  DeviceOptions twice;
  twice.gpu_slices = {32, 16, 32};
  const auto equal = OpenDevices(twice);
  ASSERT_FALSE(equal);
  EXPECT_EQ(equal.error().code, Code::kInvalidArgument);
  EXPECT_THAT(equal.error().message,
              HasSubstr("two slices of 32 multiprocessors"));
}

}  // namespace
}  // namespace ucudnn
