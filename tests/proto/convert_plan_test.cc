#include "proto/convert_plan.h"

#include <gtest/gtest.h>

namespace ucudnn {
namespace {

TEST(ConvertPlanTest, KeepsAWorkspacePlan) {
  ConvGeometry geometry;
  geometry.channels = 8;
  geometry.filters = 4;
  geometry.input = {1, 6, 7};
  geometry.filter = {1, 2, 1};
  WorkspacePlan plan;
  plan.batch = BatchSize(256);
  plan.workspace_limit = 64_MiB;
  plan.total_time = Nanoseconds(300);
  plan.lower_bound = Nanoseconds(299);
  plan.undivided_time = Nanoseconds(400);
  plan.total_workspace = 5_B;
  KernelPlan kernel;
  kernel.layer = "conv2";
  kernel.op = ConvOp::kBackwardFilter;
  kernel.precision = Precision::kTrueHalf;
  kernel.layout = Layout::kNhwc;
  kernel.problem =
      ConvProblem{kernel.op, geometry, kernel.precision, kernel.layout};
  kernel.time = Nanoseconds(300);
  kernel.workspace = 5_B;
  kernel.offset = 512_B;
  kernel.micro_batches = {{BatchSize(128),
                           2,
                           {"FFT", "FMA", Precision::kPseudoHalf},
                           Nanoseconds(150),
                           5_B}};
  plan.kernels = {kernel};
  EXPECT_EQ(FromProto(ToProto(plan)).value(), plan);
}

TEST(ConvertPlanTest, TellsOnceWhatRanksShare) {
  JobPlan plan;
  plan.request.batch = BatchSize(6);
  plan.request.device_kinds = {"A", "B", "A"};
  plan.ranks.resize(3);
  for (RankPlan& rank : plan.ranks) rank.batch = BatchSize(2);
  plan.ranks[0].workspace.Own().batch = BatchSize(2);
  plan.ranks[1].workspace = plan.ranks[0].workspace;
  plan.ranks[1].workspace.Own().total_time = Nanoseconds(7);
  plan.ranks[2].workspace = plan.ranks[0].workspace;
  plan.cut_off = true;
  v1::Plan message = ToProto(plan);
  EXPECT_TRUE(message.ranks(1).has_workspace());
  EXPECT_FALSE(message.ranks(2).has_workspace());
  EXPECT_EQ(message.ranks(2).workspace_of_rank(), 0);
  EXPECT_EQ(&WorkspaceOf(message, 2), &message.ranks(0).workspace());
  EXPECT_EQ(WorkspaceOf(message, 1).total_time_ns(), 7);
  const auto back = FromProto(message);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(*back, plan);
  EXPECT_EQ(&*back->ranks[2].workspace, &*back->ranks[0].workspace);
  for (const int of : {2, 3, -1}) {
    message.mutable_ranks(2)->set_workspace_of_rank(of);
    EXPECT_EQ(FromProto(message).error().message,
              fmt::format("ranks[2].workspace_of_rank is {}; an earlier rank "
                          "is accepted",
                          of));
    EXPECT_EQ(&WorkspaceOf(message, 2), &message.ranks(2).workspace());
  }
}

TEST(ConvertPlanTest, FillsInTheDefaultsOfARequest) {
  v1::PlanRequest request;
  request.set_batch(4);
  const auto job = FromProto(request);
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(job->policy, BatchPolicy::kPowerOfTwo);
  EXPECT_EQ(job->precision, Precision::kFp32);
  EXPECT_EQ(job->layout, Layout::kNchw);
}

}  // namespace
}  // namespace ucudnn
