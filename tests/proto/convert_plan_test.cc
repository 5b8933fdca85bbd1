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
