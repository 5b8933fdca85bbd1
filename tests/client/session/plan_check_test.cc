#include "client/session/plan_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "tests/client/tiny_network.h"
#include "tests/support/fake_device.h"

namespace ucudnn {
namespace {

using ::testing::HasSubstr;

const JobRequest kRequest = TinyRequest(BatchSize(8), {"A", "B"});

std::vector<Kernel> Kernels() {
  return KernelsOf(TinyNetwork(), Precision::kFp32, Layout::kNchw);
}

TEST(CheckPlanTest, AcceptsThePlanThatWasAskedFor) {
  for (const auto& shares : {std::vector<std::int64_t>{5, 3}, {8, 0}}) {
    const Status fits =
        CheckPlan(TinyPlan(kRequest, shares), kRequest, Kernels(), true);
    EXPECT_TRUE(fits) << fits.error().message;
  }
}

TEST(CheckPlanTest, SaysWhatDoesNotFit) {
  const auto kernel = [](JobPlan& plan) -> KernelPlan& {
    return plan.ranks[0].workspace.Own().kernels[0];
  };
  const std::vector<std::pair<std::function<void(JobPlan&)>, std::string>>
      changes = {
          {[](JobPlan& p) { p.request.network = "vgg"; },
           "it is for network vgg, the job has tiny"},
          {[](JobPlan& p) { p.request.batch = BatchSize(9); },
           "it is for a batch of 9, the job has 8"},
          {[](JobPlan& p) { p.request.precision = Precision::kTf32; },
           "precision TF32, the job has FP32"},
          {[](JobPlan& p) { p.request.layout = Layout::kNhwc; }, "layout NHWC"},
          {[](JobPlan& p) { p.ranks.pop_back(); }, "a number of ranks: 1"},
          {[](JobPlan& p) { p.ranks[1].device_kind = "C"; },
           "rank 1 on device kind C, the job has B"},
          {[](JobPlan& p) { p.ranks[0].weight = 0.5; },
           "for rank 0: it has weight 0.5 for 5 of 8 images"},
          {[](JobPlan& p) {
             p.ranks[0].batch = BatchSize(4);
             p.ranks[0].weight = 0.5;
           },
           "it has 4 images, and kernels for 5"},
          {[](JobPlan& p) {
             p.ranks[1] = p.ranks[0];
             p.ranks[1].device_kind = "B";
           },
           "its ranks have 10 images together, the job has 8"},
          {[](JobPlan& p) { p.ranks[0].workspace.Own().kernels.pop_back(); },
           "it has no kernel conv2 backward_filter"},
          {[](JobPlan& p) {
             auto& kernels = p.ranks[0].workspace.Own().kernels;
             kernels.push_back(kernels[0]);
           },
           "conv1 forward is not one of the job's, or is there twice"},
          {[&](JobPlan& p) { kernel(p).problem->geometry.filters = 4; },
           "its kernel conv1 forward is forward-c3-h8w8-k4"},
          {[&](JobPlan& p) { kernel(p).problem.reset(); }, "is not told"},
          {[&](JobPlan& p) { kernel(p).micro_batches.pop_back(); },
           "ranks[0].workspace.kernels[0].micro_batches have 4 images "
           "together; 5"},
          {[&](JobPlan& p) { kernel(p).micro_batches[0].count = -1; },
           "kernels[0].micro_batches[0].count is -1; 1 to 5 is accepted"},
          {[&](JobPlan& p) { kernel(p).workspace = 65_MiB; },
           "conv1 forward needs a workspace up to 65MiB, the limit is 64MiB"},
      };
  for (const Bytes offset : {Bytes(-8), Bytes(1LL << 62)}) {
    JobPlan plan = TinyPlan(kRequest, {5, 3});
    kernel(plan).offset = offset;
    const Status fits = CheckPlan(plan, kRequest, Kernels(), false);
    ASSERT_FALSE(fits) << offset.count();
    EXPECT_EQ(fits.error().code, Code::kInvalidArgument);
  }
  for (const auto& [change, why] : changes) {
    JobPlan plan = TinyPlan(kRequest, {5, 3});
    change(plan);
    const Status fits = CheckPlan(plan, kRequest, Kernels(), true);
    ASSERT_FALSE(fits) << why;
    EXPECT_THAT(fits.error().message, HasSubstr(why));
  }
}

TEST(CheckPlanTest, ChecksLimitsOnlyWhereTheyWereChosen) {
  JobPlan plan = TinyPlan(kRequest, {5, 3});
  plan.ranks[0].workspace.Own().kernels[0].workspace = 1_GiB;
  EXPECT_FALSE(CheckPlan(plan, kRequest, Kernels(), true));
  EXPECT_TRUE(CheckPlan(plan, kRequest, Kernels(), false));
  JobRequest divided = kRequest;
  divided.total_workspace = 2_GiB;
  EXPECT_TRUE(CheckPlan(plan, divided, Kernels(), true));
  plan.ranks[0].workspace.Own().kernels[0].offset = 1_GiB + 1_B;
  EXPECT_FALSE(CheckPlan(plan, divided, Kernels(), true));
}

TEST(CheckPlanTest, AcceptsAnyKernelsOfANetworkItDoesNotKnow) {
  EXPECT_TRUE(CheckPlan(TinyPlan(kRequest, {5, 3}), kRequest, {}, true));
}

TEST(CheckOnDeviceTest, AcceptsWhatTheDeviceLists) {
  FakeDevice device;
  const JobPlan plan = TinyPlan(kRequest, {5, 3});
  for (const RankPlan& rank : plan.ranks) {
    EXPECT_TRUE(CheckOnDevice(device, rank.workspace));
  }
}

TEST(CheckOnDeviceTest, SaysWhatTheDeviceCannotRun) {
  FakeDevice device;
  WorkspacePlan plan = TinyPlan(kRequest, {5, 3}).ranks[0].workspace;
  plan.kernels[1].workspace = 199_B;
  EXPECT_THAT(CheckOnDevice(device, plan).error().message,
              HasSubstr("conv1 backward_filter: lavish on 2 images needs 200"));
  device.algorithms()[0].max_batch = BatchSize(1);
  EXPECT_THAT(CheckOnDevice(device, plan).error().message,
              HasSubstr("conv1 forward: device fake-0 has no algorithm lavish "
                        " for 2 images"));
}

}  // namespace
}  // namespace ucudnn
