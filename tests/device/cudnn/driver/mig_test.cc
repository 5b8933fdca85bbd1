// A MIG instance, on the fakes of NVIDIA's driver and management library
// (tests/support/fake_gpu).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "device/cudnn/cudnn_device.h"
#include "device/cudnn/driver/monitor.h"
#include "device/cudnn/driver/visible_gpus.h"

namespace ucudnn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kInstance[] = "MIG-07070707-0707-0707-0707-070707070707";

// Before anything loads the libraries.
[[maybe_unused]] const int kSet = setenv("FAKE_GPU_MIG", "1", 1);

TEST(MigTest, HasTheIdThatNvidiaWrites) {
  const auto gpus = FindVisibleGpus();
  ASSERT_TRUE(gpus) << gpus.error().message;
  EXPECT_THAT(gpus->uuids, ElementsAre(kInstance));
  const auto devices = OpenCudnnDevices(CudnnOptions());
  ASSERT_TRUE(devices) << devices.error().message;
  EXPECT_EQ(devices->front()->info().id, kInstance);
  EXPECT_EQ(devices->front()->info().kind.model, "Fake GPU MIG 1g.5gb");
}

TEST(MigTest, IsBusyWithProcessesOfTheInstance) {
  const auto devices = OpenCudnnDevices(CudnnOptions());
  ASSERT_TRUE(devices) << devices.error().message;
  EXPECT_THAT(devices->front()->BusyWith(), HasSubstr("1.00 GiB"));
}

TEST(MigTest, HasTheClocksAndSettingsOfItsGpu) {
  const auto state = ReadGpuState(kInstance);
  ASSERT_TRUE(state) << state.error().message;
  EXPECT_EQ(state->sm_clock_mhz, 1200);
  EXPECT_EQ(ThrottleText(state->throttle_reasons), "power cap");
  EXPECT_EQ(ReadGpuSettings(kInstance), "power cap 300 of 400 W");
}

TEST(MigTest, MpsPercentagesArePartOfTheKind) {
  for (const auto& [percentage, model] :
       {std::pair{"50", "Fake GPU MIG 1g.5gb MPS 50%"},
        {"12.5", "Fake GPU MIG 1g.5gb MPS 12.5%"},
        {"100", "Fake GPU MIG 1g.5gb"},
        {"", "Fake GPU MIG 1g.5gb"}}) {
    ASSERT_EQ(setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", percentage, 1), 0);
    const auto devices = OpenCudnnDevices(CudnnOptions());
    ASSERT_TRUE(devices) << devices.error().message;
    const DeviceKind& kind = devices->front()->info().kind;
    EXPECT_EQ(kind.model, model);
    EXPECT_EQ(ParseDeviceKind(ToString(kind)).value(), kind);
  }
  unsetenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
}

}  // namespace
}  // namespace ucudnn
