#include "client/executor/undivided.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/fake_device.h"

namespace ucudnn {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<Kernel> Kernels() {
  Network network;
  network.layers.resize(2);
  network.layers[0].name = "conv1";
  network.layers[0].needs_input_gradient = false;
  network.layers[1].name = "conv2";
  return KernelsOf(network, Precision::kFp32, Layout::kNchw);
}

TEST(UndividedPlanTest, TakesTheFirstAlgorithmThatFits) {
  FakeDevice device;
  const auto roomy = UndividedPlan(device, Kernels(), BatchSize(4), 400_B);
  ASSERT_TRUE(roomy) << roomy.error().message;
  ASSERT_THAT(roomy->kernels, SizeIs(5));
  for (const KernelPlan& kernel : roomy->kernels) {
    ASSERT_THAT(kernel.micro_batches, SizeIs(1));
    EXPECT_EQ(kernel.micro_batches[0].algorithm.name, "lavish");
    EXPECT_EQ(kernel.micro_batches[0].batch, BatchSize(4));
    EXPECT_EQ(kernel.workspace, 400_B);
  }
  EXPECT_EQ(roomy->total_workspace, 2000_B);
  const auto tight = UndividedPlan(device, Kernels(), BatchSize(4), 399_B);
  ASSERT_TRUE(tight);
  EXPECT_EQ(tight->kernels[0].micro_batches[0].algorithm.name, "frugal");
}

TEST(UndividedPlanTest, TakesWhatTheDeviceSuggests) {
  FakeDevice device({{{"listed first", "", Precision::kFp32}, 0_B},
                     {{"suggested", "", Precision::kFp32}, 100_B}});
  device.set_suggestion("suggested");
  const auto roomy = UndividedPlan(device, Kernels(), BatchSize(4), 400_B);
  ASSERT_TRUE(roomy) << roomy.error().message;
  EXPECT_EQ(roomy->kernels[0].micro_batches[0].algorithm.name, "suggested");
  const auto tight = UndividedPlan(device, Kernels(), BatchSize(4), 399_B);
  ASSERT_TRUE(tight);
  EXPECT_EQ(tight->kernels[0].micro_batches[0].algorithm.name, "listed first");
}

TEST(UndividedPlanTest, NamesTheSmallestLimitThatWouldDo) {
  FakeDevice device({{{"lavish", "", Precision::kFp32}, 100_B},
                     {{"modest", "", Precision::kFp32}, 10_B}});
  const auto plan = UndividedPlan(device, Kernels(), BatchSize(4), 39_B);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(plan.error().message, HasSubstr("conv1 forward"));
  EXPECT_THAT(plan.error().message, HasSubstr("needs 40"));
}

TEST(UndividedPlanTest, SaysThatADeviceHasNoAlgorithm) {
  FakeDevice device(std::vector<FakeAlgorithm>{});
  EXPECT_EQ(UndividedPlan(device, Kernels(), BatchSize(4), 1_GiB).error().code,
            Code::kUnimplemented);
}

TEST(UndividedPlanTest, IsEmptyForAnEmptyShare) {
  FakeDevice device;
  const auto plan = UndividedPlan(device, Kernels(), BatchSize(0), 0_B);
  ASSERT_TRUE(plan);
  EXPECT_THAT(plan->kernels, IsEmpty());
}

}  // namespace
}  // namespace ucudnn
