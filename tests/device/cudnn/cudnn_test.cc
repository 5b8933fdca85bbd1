// The parts of device/cudnn that need no GPU;
// tests/contract/cudnn_contract_test.cc tests the rest.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "device/cudnn/cudnn_device.h"
#include "device/cudnn/driver/libraries.h"
#include "device/cudnn/driver/monitor.h"
#include "device/cudnn/graph/name.h"
#include "device/cudnn/handle.h"
#include "device/cudnn/legacy/algorithms.h"
#include "device/cudnn/shapes.h"
#include "device/run_checks.h"

namespace ucudnn::cudnn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(LibrariesTest, LooksWhereTheEnvironmentSays) {
  ASSERT_EQ(setenv("UCUDNN_CUDA_PATH", "/a:/b", 1), 0);
  ASSERT_EQ(setenv("CUDA_HOME", "/c", 1), 0);
  EXPECT_THAT(SearchDirectories(),
              ElementsAre("/a", "/a/lib64", "/a/lib", "/b", "/b/lib64",
                          "/b/lib", "/c/lib64", "/c/lib"));
  ASSERT_EQ(unsetenv("UCUDNN_CUDA_PATH"), 0);
  ASSERT_EQ(unsetenv("CUDA_HOME"), 0);
  EXPECT_THAT(SearchDirectories(), ElementsAre());
}

TEST(LibrariesTest, WritesVersionsAndIdsAsNvidiaDoes) {
  EXPECT_EQ(CudnnMajorMinor(91900), "9.19");
  EXPECT_EQ(CudnnFullVersion(90102), "9.1.2");
  EXPECT_EQ(CudnnMajorMinor(8907), "8.9");
  EXPECT_EQ(CudnnFullVersion(7605), "7.6.5");
  EXPECT_EQ(CudaVersion(13000), "13.0");
  EXPECT_EQ(CudaVersion(12080), "12.8");
  const char bytes[16] = {'\x8a', '\x3c', '\x0e', '\x6b', '\x1f', '\x2d',
                          '\x4c', '\x5e', '\x9b', '\x7a', '\x01', '\x23',
                          '\x45', '\x67', '\x89', '\xab'};
  EXPECT_EQ(UuidText(bytes), "GPU-8a3c0e6b-1f2d-4c5e-9b7a-0123456789ab");
}

TEST(LibrariesTest, SayWhichCudnnAGpuNeeds) {
  // Whether a K80, a P100, a V100, a T4 and an H100 can be used.
  const auto usable = [](std::size_t version) {
    std::string text;
    for (const int capability : {37, 60, 70, 75, 90}) {
      text += CheckCapability(version, capability) ? '+' : '-';
    }
    return text;
  };
  EXPECT_EQ(usable(8005), "+++++");
  EXPECT_EQ(usable(8700), "+++++");
  EXPECT_EQ(usable(8906), "-++++");
  EXPECT_EQ(usable(91002), "-++++");
  EXPECT_EQ(usable(91100), "---++");
  EXPECT_EQ(CheckCapability(91900, 60).error().message,
            "its compute capability is 6.0, and cuDNN 9.19.0 is for 7.5 and "
            "newer; cuDNN 8.0 or newer, but older than 9.11, is needed");
  EXPECT_EQ(CheckCapability(8906, 37).error().message,
            "its compute capability is 3.7, and cuDNN 8.9.6 is for 5.0 and "
            "newer; cuDNN 8.0 or newer, but older than 8.8, is needed");
  EXPECT_THAT(CheckCapability(8700, 30).error().message,
              HasSubstr("no version is for it"));
}

TEST(LibrariesTest, ReadTheStatusesOfBothVersions) {
  CudnnApi api;
  api.GetErrorString = [](cudnnStatus_t) { return "CUDNN_STATUS"; };
  const std::pair<int, Code> kStatuses[] = {
      {1, Code::kUnavailable},       {1001, Code::kUnavailable},
      {2, Code::kResourceExhausted}, {4003, Code::kResourceExhausted},
      {3, Code::kInvalidArgument},   {2000, Code::kInvalidArgument},
      {4, Code::kInternal},          {4000, Code::kInternal},
      {6, Code::kUnimplemented},     {3007, Code::kUnimplemented},
      {8, Code::kInternal},          {5000, Code::kInternal},
      {9, Code::kUnimplemented},     {3000, Code::kUnimplemented},
      {14, Code::kUnavailable},      {15, Code::kInternal}};
  for (const auto& [status, code] : kStatuses) {
    const Error error =
        DescribeError(api, static_cast<cudnnStatus_t>(status), "cudnnCreate");
    EXPECT_EQ(error.code, code) << status;
    EXPECT_EQ(error.message, "cudnnCreate: CUDNN_STATUS");
  }
}

TEST(CudnnDevicesTest, AreUnavailableWithAReasonWithoutAGpu) {
  const auto devices = OpenCudnnDevices({});
  if (devices) GTEST_SKIP() << "this machine has a GPU";
  EXPECT_EQ(devices.error().code, Code::kUnavailable);
  EXPECT_THAT(devices.error().message,
              ::testing::AnyOf(HasSubstr("no NVIDIA driver: libcuda.so.1"),
                               HasSubstr("no cuDNN"), HasSubstr("no GPU")));
}

TEST(CudnnDevicesTest, ReadSlices) {
  EXPECT_EQ(ParseSlice("sm=32").value(), 32);
  for (const char* text : {"", "32", "sm=", "sm=0", "sm=-8", "sm=8x", "SM=8"}) {
    const auto slice = ParseSlice(text);
    ASSERT_FALSE(slice) << text;
    EXPECT_EQ(slice.error().code, Code::kInvalidArgument) << text;
  }
}

TEST(MonitorTest, NamesOnlyTheReasonsThatSlowAGpuDown) {
  EXPECT_EQ(ThrottleText(0), "");
  EXPECT_EQ(ThrottleText(0x1 | 0x2 | 0x100), "");
  EXPECT_EQ(ThrottleText(0x4 | 0x20), "power cap, thermal");
}

// A management library that reports these numbers; 0 means not reported.
struct FakeGpu {
  unsigned int power = 700'000;
  unsigned int default_power = 700'000;
  unsigned int sm = 1980;
  unsigned int default_sm = 1980;
  unsigned int memory = 2619;
  unsigned int default_memory = 2619;
};
std::string SettingsOf(FakeGpu gpu) {
  static FakeGpu fake;
  fake = gpu;
  constexpr auto kNotSupported = static_cast<cudnn::NvmlReturn>(3);
  const auto tell = [](unsigned int value, unsigned int* out) {
    *out = value;
    return value == 0 ? kNotSupported : cudnn::kNvmlSuccess;
  };
  static const auto kTell = tell;
  cudnn::NvmlApi nvml;
  nvml.DeviceGetEnforcedPowerLimit = [](cudnn::NvmlDevice, unsigned int* out) {
    return kTell(fake.power, out);
  };
  nvml.DeviceGetDefaultPowerLimit = [](cudnn::NvmlDevice, unsigned int* out) {
    return kTell(fake.default_power, out);
  };
  nvml.DeviceGetApplicationsClock =
      [](cudnn::NvmlDevice, cudnn::NvmlClock clock, unsigned int* out) {
        return kTell(clock == cudnn::kNvmlClockSm ? fake.sm : fake.memory, out);
      };
  nvml.DeviceGetDefaultApplicationsClock =
      [](cudnn::NvmlDevice, cudnn::NvmlClock clock, unsigned int* out) {
        return kTell(clock == cudnn::kNvmlClockSm ? fake.default_sm
                                                  : fake.default_memory,
                     out);
      };
  return SettingsText(nvml, nullptr);
}

TEST(MonitorTest, ReportsTheSettingsOfAnAdministrator) {
  EXPECT_EQ(SettingsOf({}), "");
  EXPECT_EQ(SettingsOf({.power = 500'000}), "power cap 500 of 700 W");
  EXPECT_EQ(SettingsOf({.sm = 1200, .memory = 1593}),
            "clocks 1200 of 1980 MHz, memory 1593 of 2619 MHz");
  EXPECT_EQ(SettingsOf({.power = 350'000, .sm = 1200}),
            "power cap 350 of 700 W, clocks 1200 of 1980 MHz");
  // Unreported settings do not make measurements stale.
  EXPECT_EQ(SettingsOf({.power = 0, .default_sm = 0, .memory = 0}), "");
  EXPECT_EQ(SettingsText(cudnn::NvmlApi(), nullptr), "");
}

TEST(MonitorTest, WritesProcessesForPeople) {
  const GpuProcess ours{getpid(), std::int64_t{5} << 30};
  std::string name;
  std::getline(std::ifstream("/proc/self/comm") >> std::ws, name);
  EXPECT_EQ(ToString(ours, true),
            fmt::format("{} (pid {}, 5.00 GiB)", name, getpid()));
  EXPECT_EQ(ToString(GpuProcess{1LL << 40, -1}, true),
            fmt::format("a process (pid {})", 1LL << 40));
}

TEST(MonitorTest, NamesNoProcessByAnotherNamespacesId) {
  // In a container, NVML's id of another process may be one of ours.
  EXPECT_EQ(ToString(GpuProcess{getpid(), std::int64_t{5} << 30}, false),
            "a process (5.00 GiB)");
  EXPECT_EQ(ToString(GpuProcess{getpid(), -1}, false), "a process");
}

TEST(LegacyAlgorithmsTest, AreFoundByWhatTheyAreListedAs) {
  for (const ConvOp op : kConvOps) {
    for (const Precision asked : kPrecisions) {
      std::set<Algorithm> seen;
      for (const LegacyAlgorithm& algorithm : LegacyAlgorithms(op)) {
        for (const LegacyMath& math : LegacyMaths(asked)) {
          const Algorithm name = {std::string(algorithm.name),
                                  std::string(math.name), math.precision};
          EXPECT_TRUE(seen.insert(name).second) << name.name << name.math;
          EXPECT_TRUE(Admits(asked, math.precision));
          EXPECT_FALSE(IsEngineName(name.name));
          const auto found = FindLegacy(op, asked, name);
          ASSERT_TRUE(found) << found.error().message;
          EXPECT_EQ(found->algorithm.value, algorithm.value);
          EXPECT_EQ(found->math.type, math.type);
        }
      }
    }
  }
}

TEST(LegacyAlgorithmsTest, AreNotFoundOutsideTheirOperationAndPrecision) {
  const auto unknown = FindLegacy(ConvOp::kForward, Precision::kFp32,
                                  {"ALGO_1", "FMA", Precision::kFp32});
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, Code::kNotFound);
  EXPECT_THAT(unknown.error().message, HasSubstr("WINOGRAD_NONFUSED"));
  const auto lower = FindLegacy(ConvOp::kForward, Precision::kFp32,
                                {"GEMM", "DEFAULT", Precision::kTf32});
  ASSERT_FALSE(lower);
  EXPECT_THAT(lower.error().message, HasSubstr("FP32 FMA"));
}

TEST(EngineNameTest, HasOneTextForm) {
  const EngineName name = {18, {{2, 4}, {7, 1}}};
  EXPECT_EQ(ToString(name), "eng18-k2=4-k7=1");
  EXPECT_EQ(ToString(EngineName{0, {}}), "eng0");
  for (const EngineName& n :
       {name, EngineName{0, {}}, EngineName{5, {{0, -1}}}}) {
    const auto parsed = ParseEngineName(ToString(n));
    ASSERT_TRUE(parsed) << parsed.error().message;
    EXPECT_EQ(*parsed, n);
    EXPECT_TRUE(IsEngineName(ToString(n)));
  }
}

TEST(EngineNameTest, RefusesTextsThatAreNotCanonical) {
  for (const char* text :
       {"", "eng", "eng-1", "eng01", "eng1-", "eng1-k", "eng1-k2", "eng1-k2=",
        "eng1-k2=4-k2=5", "eng1-k7=1-k2=4", "eng1-k-2=4", "eng1-k2=+4",
        "eng1-k2=4 ", " eng1", "eng1k2=4", "ENG1", "eng99999999999999999999"}) {
    const auto name = ParseEngineName(text);
    ASSERT_FALSE(name) << text;
    EXPECT_EQ(name.error().code, Code::kInvalidArgument);
  }
}

ConvProblem Conv2() {
  ConvProblem problem;
  ConvGeometry& g = problem.geometry;
  g.channels = 96;
  g.filters = 256;
  g.groups = 2;
  g.input = {1, 27, 31};
  g.filter = {1, 5, 3};
  g.padding = {0, 2, 1};
  g.stride = {1, 1, 2};
  return problem;
}

TEST(ShapesTest, ArePackedInTheLayout) {
  ConvProblem problem = Conv2();
  auto shapes = ShapesOf(problem, BatchSize(8)).value();
  EXPECT_EQ(shapes.input.rank, 4);
  EXPECT_THAT(shapes.input.dims, ElementsAre(8, 96, 27, 31, 0));
  EXPECT_THAT(shapes.input.strides,
              ElementsAre(96 * 27 * 31, 27 * 31, 31, 1, 0));
  EXPECT_THAT(shapes.filter.dims, ElementsAre(256, 48, 5, 3, 0));
  EXPECT_THAT(shapes.output.dims, ElementsAre(8, 256, 27, 16, 0));
  EXPECT_THAT(shapes.padding, ElementsAre(2, 1, 0));
  EXPECT_THAT(shapes.stride, ElementsAre(1, 2, 0));
  problem.layout = Layout::kNhwc;
  shapes = ShapesOf(problem, BatchSize(8)).value();
  EXPECT_THAT(shapes.input.dims, ElementsAre(8, 96, 27, 31, 0));
  EXPECT_THAT(shapes.input.strides,
              ElementsAre(96 * 27 * 31, 1, 31 * 96, 96, 0));
  EXPECT_THAT(shapes.filter.strides, ElementsAre(48 * 15, 1, 3 * 48, 48, 0));
}

TEST(ShapesTest, HaveFiveDimensionsInThree) {
  ConvProblem problem = Conv2();
  problem.geometry.spatial_dims = 3;
  problem.geometry.input[0] = 4;
  problem.geometry.filter[0] = 3;
  problem.geometry.padding[0] = 1;
  const auto shapes = ShapesOf(problem, BatchSize(2)).value();
  EXPECT_EQ(shapes.input.rank, 5);
  EXPECT_THAT(shapes.input.dims, ElementsAre(2, 96, 4, 27, 31));
  EXPECT_THAT(shapes.filter.dims, ElementsAre(256, 48, 3, 5, 3));
  EXPECT_THAT(shapes.padding, ElementsAre(1, 2, 1));
}

TEST(ShapesTest, RefuseWhatCudnnCannotCount) {
  ConvProblem problem = Conv2();
  EXPECT_EQ(ShapesOf(problem, BatchSize(0)).error().code,
            Code::kInvalidArgument);
  problem.geometry.input = {1, 1 << 14, 1 << 14};
  EXPECT_EQ(ShapesOf(problem, BatchSize(1)).error().code, Code::kUnimplemented);
  problem.geometry.groups = 5;
  EXPECT_EQ(ShapesOf(problem, BatchSize(1)).error().code,
            Code::kInvalidArgument);
}

TEST(ShapesTest, PromiseTheAlignmentThatEveryMicroBatchHas) {
  EXPECT_EQ(ImageAlignment(3 * 13 * 13, Precision::kTrueHalf), 2);
  EXPECT_EQ(ImageAlignment(3 * 13 * 13, Precision::kFp32), 4);
  EXPECT_EQ(ImageAlignment(192 * 13 * 13, Precision::kTrueHalf), 16);
  EXPECT_EQ(ImageAlignment(1, Precision::kTf32), 4);
}

TEST(RunChecksTest, RefuseMissingMemory) {
  char memory = 0;
  const ConvArgs args = {&memory, &memory, &memory};
  EXPECT_TRUE(CheckRun(args, nullptr, Bytes(), Bytes()));
  EXPECT_TRUE(CheckRun(args, &memory, Bytes(9), Bytes(8)));
  EXPECT_THAT(CheckRun(args, &memory, Bytes(7), Bytes(8)).error().message,
              HasSubstr("7 bytes was given; 8 are needed"));
  EXPECT_FALSE(CheckRun(args, nullptr, Bytes(8), Bytes(8)));
  EXPECT_FALSE(CheckRun({&memory, nullptr, &memory}, nullptr, {}, {}));
}

}  // namespace
}  // namespace ucudnn::cudnn
