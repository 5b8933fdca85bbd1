#include "solver/joint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/network.h"
#include "solver/check/validate.h"
#include "tests/support/paths.h"

namespace ucudnn {
namespace {

using ::testing::HasSubstr;

Result<Profile> AlexNet(const std::string& file) {
  auto profile = ReadProfileFile(test::DataPath("h200/") + file + ".csv");
  if (!profile) return profile;
  return SelectKernels(*profile, {.precision = "FP32"});
}

JointKind KindOf(const std::string& file) {
  JointKind kind;
  kind.kernels = AlexNet(file).value();
  kind.workspace_limit = 64_MiB;
  kind.policy = BatchPolicy::kPowerOfTwo;
  kind.fixed = Nanoseconds(500'000);
  kind.per_image = Nanoseconds(20'000);
  return kind;
}

// A whole H200 and slices of 64 and 32 of its 132 multiprocessors.
JointProblem UnlikeSlices(std::int64_t batch) {
  JointProblem problem;
  problem.batch = BatchSize(batch);
  problem.kinds = {KindOf("alexnet_b256_pow2"),
                   KindOf("alexnet_b256_pow2_sm64"),
                   KindOf("alexnet_b256_pow2_sm32")};
  problem.gpus = {{.kind = 0}, {.kind = 1}, {.kind = 2}, {.kind = 2}};
  return problem;
}

TEST(JointTest, SharesABatchAmongUnlikeSlicesOfAnH200) {
  const JointProblem problem = UnlikeSlices(256);
  const auto joint = SolveJoint(problem);
  ASSERT_TRUE(joint) << joint.error().message;
  const auto& shares = joint->assignment.shares;
  EXPECT_GT(shares[0].batch, shares[1].batch);
  EXPECT_GT(shares[1].batch, shares[2].batch);
  std::int64_t sum = 0;
  for (std::size_t g = 0; g < shares.size(); ++g) {
    sum += shares[g].batch.count();
    const JointKind& kind = problem.kinds[problem.gpus[g].kind];
    const WorkspacePlan& plan = joint->plans[g].value();
    EXPECT_EQ(plan.batch, shares[g].batch);
    EXPECT_EQ(
        plan.total_time + kind.fixed + kind.per_image * shares[g].batch.count(),
        shares[g].time);
    const Status valid = ValidatePlan(plan, kind.kernels,
                                      {WorkspaceMode::kReuse, kind.policy, {}});
    EXPECT_TRUE(valid) << valid.error().message;
  }
  EXPECT_EQ(sum, 256);
  // The whole GPU alone takes longer, and so does an even split.
  const auto alone = IterationTimes(problem.kinds[0], BatchSize(256), {});
  ASSERT_TRUE(alone);
  EXPECT_LT(joint->assignment.makespan, alone->back().time);
}

TEST(JointTest, OmitsBatchesWithoutAPlan) {
  JointKind kind;
  KernelProfile kernel;
  kernel.id.layer = "conv";
  kernel.points = {{BatchSize(2),
                    {"A", "", Precision::kFp32},
                    Bytes(8),
                    Nanoseconds(5),
                    Nanoseconds(0),
                    1}};
  kind.kernels.kernels = {kernel};
  kind.workspace_limit = Bytes(8);
  const auto times = IterationTimes(kind, BatchSize(4), {});
  ASSERT_TRUE(times);
  ASSERT_EQ(times->size(), 2U);
  EXPECT_EQ((*times)[0].batch, BatchSize(2));
  EXPECT_EQ((*times)[1].batch, BatchSize(4));
  EXPECT_EQ((*times)[1].time, Nanoseconds(10));
  // A second, equal kernel takes as long again.
  kind.kernels.kernels.push_back(kernel);
  EXPECT_EQ(IterationTimes(kind, BatchSize(4), {})->at(1).time,
            Nanoseconds(20));
  kind.kernels.kernels.pop_back();
  // What is told of each batch comes on top.
  for (const int time : {0, 1, 2, 3, 40}) kind.others.emplace_back(time);
  EXPECT_EQ(IterationTimes(kind, BatchSize(4), {})->at(0).time, Nanoseconds(7));
  EXPECT_EQ(IterationTimes(kind, BatchSize(4), {})->at(1).time,
            Nanoseconds(50));
  kind.others.clear();
  kind.workspace_limit = Bytes(7);
  EXPECT_TRUE(IterationTimes(kind, BatchSize(4), {})->empty());
  JointProblem problem;
  problem.batch = BatchSize(4);
  problem.kinds = {kind};
  problem.gpus = {{.kind = 0}};
  const auto none = SolveJoint(problem);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(none.error().message, HasSubstr("8"));  // what would do
  EXPECT_THAT(none.error().message, HasSubstr("conv"));
}

TEST(JointTest, RefusesInvalidProblems) {
  JointKind kind;
  EXPECT_EQ(IterationTimes(kind, BatchSize(4), {}).error().code,
            Code::kInvalidArgument);
  kind.kernels.kernels.emplace_back();
  kind.fixed = Nanoseconds(-1);
  EXPECT_EQ(IterationTimes(kind, BatchSize(4), {}).error().code,
            Code::kInvalidArgument);
  kind.fixed = Nanoseconds(0);
  kind.others = {Nanoseconds(0), Nanoseconds(-1)};
  EXPECT_EQ(IterationTimes(kind, BatchSize(1), {}).error().code,
            Code::kInvalidArgument);
  kind.others.clear();
  kind.per_image = Nanoseconds::max();
  EXPECT_EQ(IterationTimes(kind, BatchSize(4), {}).error().code,
            Code::kOutOfRange);
  EXPECT_EQ(IterationTimes(kind, BatchSize(0), {}).error().code,
            Code::kInvalidArgument);
  JointProblem problem;
  problem.batch = BatchSize(1);
  problem.gpus = {{.kind = 3}};
  EXPECT_THAT(SolveJoint(problem).error().message, HasSubstr("table 3"));
}

}  // namespace
}  // namespace ucudnn
