// The executor on the GPU that computes on the host (tests/support/fake_gpu):
// the calls that it makes, though not what happens at once.

#include <gtest/gtest.h>

#include <utility>

#include "device/cudnn/cudnn_device.h"
#include "tests/client/training/trainee.h"
#include "tests/client/training/trains_equally.h"
#include "tests/support/small_networks.h"

namespace ucudnn {
namespace {

std::unique_ptr<Device> OpenFakeGpu() {
  CudnnOptions options;
  options.graph = false;
  return std::move(OpenCudnnDevices(options)->front());
}

TEST(MemoryExecutorGpuTest, TrainsAChainAsWithoutABudget) {
  test::Trainee trainee(OpenFakeGpu(), test::SmallChain(4));
  test::ExpectSameUnderAllPolicies(trainee);
}

TEST(MemoryExecutorGpuTest, TrainsResidualBlocksAsWithoutABudget) {
  test::Trainee trainee(OpenFakeGpu(), test::SmallResidual(2));
  test::ExpectSameUnderAllPolicies(trainee);
}

}  // namespace
}  // namespace ucudnn
