#include "client/rehearse/workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "client/executor/undivided.h"
#include "tests/client/tiny_network.h"
#include "tests/support/fake_device.h"
#ifdef UCUDNN_WITH_ONEDNN
#include "device/onednn/onednn_device.h"
#endif

namespace ucudnn::rehearse {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

WorkspacePlan Plan() {
  return TinyPlan(TinyRequest(BatchSize(5), {"A"}), {5}).ranks[0].workspace;
}

TEST(WorkloadTest, TimesAllKernelsOfAnIteration) {
  FakeDevice device;
  auto workload = Workload::Create(device, Plan());
  ASSERT_TRUE(workload) << workload.error().message;
  std::int64_t last = 0;
  const auto timing =
      (*workload)->Measure(4, [&](std::int64_t done, std::int64_t total) {
        EXPECT_EQ(done, ++last);
        EXPECT_EQ(total, 7);
      });
  ASSERT_TRUE(timing) << timing.error().message;
  // Five kernels of three micro-batches, a microsecond each.
  EXPECT_EQ(timing->median, Nanoseconds(15'000));
  EXPECT_EQ(timing->spread, Nanoseconds(0));
  EXPECT_EQ(timing->iterations, 4);
  EXPECT_EQ(last, 7);
}

TEST(WorkloadTest, NoticesElementsThatAreNotWritten) {
  // The fake device writes nothing, so NaN stays.
  FakeDevice device;
  auto workload = Workload::Create(device, Plan());
  ASSERT_TRUE(workload) << workload.error().message;
  const auto errors = (*workload)->Check({});
  ASSERT_TRUE(errors) << errors.error().message;
  EXPECT_FALSE(errors->largest() <= 1e9);
}

TEST(WorkloadTest, HasNothingToDoForAnEmptyShare) {
  FakeDevice device;
  auto workload = Workload::Create(device, WorkspacePlan{});
  ASSERT_TRUE(workload) << workload.error().message;
  EXPECT_EQ((*workload)->executor().size(), 0U);
}

#ifdef UCUDNN_WITH_ONEDNN
TEST(WorkloadTest, AcceptsACorrectPlanOnARealDevice) {
  auto device = OpenOneDnnDevice({.threads = 1});
  ASSERT_TRUE(device) << device.error().message;
  const auto kernels =
      KernelsOf(TinyNetwork(), Precision::kFp32, Layout::kNchw);
  WorkspacePlan plan =
      UndividedPlan(**device, kernels, BatchSize(5), 1_GiB).value();
  for (KernelPlan& kernel : plan.kernels) {
    MicroBatch small = kernel.micro_batches[0];
    small.batch = BatchSize(1);
    kernel.micro_batches[0].batch = BatchSize(4);
    kernel.micro_batches.push_back(small);
  }
  auto workload = Workload::Create(**device, plan);
  ASSERT_TRUE(workload) << workload.error().message;
  const auto errors = (*workload)->Check({});
  ASSERT_TRUE(errors) << errors.error().message;
  EXPECT_LE(errors->largest(), Tolerance(Precision::kFp32));
  for (const double error : errors->by_op) EXPECT_GE(error, 0);
  const auto timing = (*workload)->MeasureUndivided(2, {});
  ASSERT_TRUE(timing) << timing.error().message;
  EXPECT_GT(timing->median, Nanoseconds(0));
}
#endif

}  // namespace
}  // namespace ucudnn::rehearse
