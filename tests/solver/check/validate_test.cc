#include "solver/check/validate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/solver/instances.h"

namespace ucudnn {
namespace {

using test::Point;
using ::testing::HasSubstr;

// Two kernels of batch 4 whose figures are right in all three modes.
Profile TwoKernels() {
  Profile profile;
  profile.kernels.resize(2);
  profile.kernels[0].id.layer = "conv1";
  profile.kernels[0].points = {Point(2, "A", 10, 5), Point(4, "B", 30, 12)};
  profile.kernels[1].id.layer = "conv2";
  profile.kernels[1].points = {Point(4, "C", 20, 7), Point(4, "D", 0, 9)};
  return profile;
}

WorkspacePlan TwoPlans() {
  const Algorithm a{"A", "FMA", Precision::kFp32};
  const Algorithm c{"C", "FMA", Precision::kFp32};
  WorkspacePlan plan;
  plan.batch = BatchSize(4);
  plan.workspace_limit = 30_B;
  KernelPlan one;
  one.layer = "conv1";
  one.time = Nanoseconds(10);
  one.undivided_time = Nanoseconds(12);
  one.workspace = 10_B;
  one.offset = 20_B;
  one.micro_batches = {{BatchSize(2), 2, a, Nanoseconds(5), 10_B}};
  KernelPlan two;
  two.layer = "conv2";
  two.time = Nanoseconds(7);
  two.undivided_time = Nanoseconds(7);
  two.workspace = 20_B;
  two.offset = 0_B;
  two.micro_batches = {{BatchSize(4), 1, c, Nanoseconds(7), 20_B}};
  plan.kernels = {one, two};
  plan.total_time = Nanoseconds(17);
  plan.lower_bound = Nanoseconds(17);
  plan.optimal = true;
  plan.undivided_time = Nanoseconds(19);
  plan.total_workspace = 30_B;
  plan.concurrency = "[0 | 1]";
  return plan;
}

constexpr ConcurrentPair kBoth[] = {{0, 1}};

TEST(ValidateTest, AcceptsAPlanThatAddsUp) {
  for (const ValidationRules& rules :
       {ValidationRules{WorkspaceMode::kReuse, BatchPolicy::kAll, {}},
        ValidationRules{WorkspaceMode::kReuse, BatchPolicy::kPowerOfTwo, {}},
        ValidationRules{WorkspaceMode::kDivision, BatchPolicy::kAll, {}},
        ValidationRules{WorkspaceMode::kShared, BatchPolicy::kAll, kBoth}}) {
    const Status status = ValidatePlan(TwoPlans(), TwoKernels(), rules);
    EXPECT_TRUE(status) << status.error().message;
  }
}

TEST(ValidateTest, NamesTheBrokenRule) {
  struct Case {
    std::function<void(WorkspacePlan&)> spoil;
    const char* why;
    WorkspaceMode mode = WorkspaceMode::kReuse;
  };
  const std::vector<Case> cases = {
      {[](auto& p) { p.kernels.pop_back(); }, "1 kernels are planned"},
      {[](auto& p) { p.kernels[0].layer = "conv9"; }, "conv1 forward in this"},
      {[](auto& p) { p.kernels[0].op = ConvOp::kBackwardData; },
       "conv1 forward in this"},
      {[](auto& p) { p.kernels[0].micro_batches[0].count = 0; }, "0 times"},
      {[](auto& p) { p.kernels[0].micro_batches[0].count = 1; }, "sum to 2"},
      {[](auto& p) { p.kernels[0].micro_batches[0].time *= 2; },
       "was not measured"},
      {[](auto& p) { p.kernels[0].micro_batches[0].workspace = 9_B; },
       "was not measured"},
      {[](auto& p) { p.kernels[0].micro_batches[0].algorithm.name = "B"; },
       "was not measured"},
      {[](auto& p) {
         p.kernels[0].micro_batches.push_back(p.kernels[1].micro_batches[0]);
       },
       "larger than the one before"},
      {[](auto& p) { p.kernels[0].time = Nanoseconds(9); }, "take 10 ns"},
      {[](auto& p) { p.kernels[0].workspace = 11_B; }, "need 10 bytes"},
      {[](auto& p) { p.workspace_limit = 9_B; }, "exceed the limit of 9"},
      {[](auto& p) { p.kernels[0].undivided_time.reset(); }, "undivided time"},
      {[](auto& p) { p.kernels[1].undivided_time = Nanoseconds(9); },
       "the undivided time is 7 ns, not 9"},
      {[](auto& p) { p.kernels[1].undivided_time = Nanoseconds(8); },
       "no undivided execution takes 8", WorkspaceMode::kDivision},
      {[](auto& p) { p.total_time = Nanoseconds(16); }, "take 17 ns in all"},
      {[](auto& p) { p.undivided_time.reset(); }, "known, but not given"},
      {[](auto& p) { p.undivided_time = Nanoseconds(18); }, "sum to 19"},
      {[](auto& p) { p.lower_bound = Nanoseconds(18); }, "exceeds the time"},
      {[](auto& p) { p.optimal = false; }, "'optimal' is false"},
      {[](auto& p) { p.total_workspace = 20_B; }, "total workspace is 30"},
      {[](auto& p) { p.kernels[0].offset.reset(); }, "1 of 2 kernels"},
      {[](auto& p) { p.kernels[0].offset = Bytes(-1); }, "negative",
       WorkspaceMode::kShared},
      {[](auto& p) {
         p.kernels[0].offset = 19_B;
         p.total_workspace = 29_B;
       },
       "conv1 forward FP32 and conv2 forward FP32 overlap",
       WorkspaceMode::kShared},
      {[](auto& p) { p.kernels[0].offset = 19_B; }, "overlap",
       WorkspaceMode::kDivision},
      {[](auto& p) {
         p.kernels[0].offset = 21_B;
         p.total_workspace = 31_B;
       },
       "31 bytes in all exceed", WorkspaceMode::kShared},
      {[](auto& p) { p.concurrency.clear(); },
       "tells of 0 pairs of kernels that may run at once, not of those 1",
       WorkspaceMode::kShared},
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    WorkspacePlan plan = TwoPlans();
    cases[i].spoil(plan);
    const Status status = ValidatePlan(
        plan, TwoKernels(), {cases[i].mode, BatchPolicy::kAll, kBoth});
    ASSERT_FALSE(status) << "case " << i;
    EXPECT_EQ(status.error().code, Code::kInternal);
    EXPECT_THAT(status.error().message, HasSubstr(cases[i].why)) << i;
  }
}

TEST(ValidateTest, KnowsMicroBatchesThatWriteAndThatAdd) {
  std::vector<MeasuredPoint> points = {Point(4, "A", 8, 10),
                                       Point(2, "B", 8, 5)};
  points[0].adding = Nanoseconds(12);
  points[1].adding = Nanoseconds(9);
  const auto part = [&](std::size_t i, std::int64_t count, std::int64_t time) {
    return MicroBatch{points[i].batch, count, points[i].algorithm,
                      Nanoseconds(time), points[i].workspace};
  };
  const auto check = [&](const std::vector<MicroBatch>& parts,
                         std::int64_t batch, std::int64_t time) {
    const Status status =
        ValidateMicroBatches(parts, Nanoseconds(time), 8_B, points,
                             BatchSize(batch), BatchPolicy::kAll);
    return status ? std::string("valid") : status.error().message;
  };
  EXPECT_EQ(check({part(1, 1, 5), part(0, 2, 12)}, 10, 29), "valid");
  EXPECT_EQ(check({part(1, 1, 5), part(1, 2, 9)}, 6, 23), "valid");
  EXPECT_THAT(check({part(1, 1, 9)}, 2, 9), HasSubstr("not measured"));
  EXPECT_THAT(check({part(1, 2, 5)}, 4, 10), HasSubstr("not measured"));
  EXPECT_THAT(check({part(1, 1, 5), part(0, 1, 10)}, 6, 15),
              HasSubstr("not measured"));
  EXPECT_THAT(check({part(0, 1, 10), part(1, 1, 9), part(0, 1, 12)}, 10, 31),
              HasSubstr("larger than the one before"));
}

TEST(ValidateTest, RefusesSizesThatThePolicyDoesNotAdmit) {
  EXPECT_THAT(ValidatePlan(TwoPlans(), TwoKernels(),
                           {WorkspaceMode::kReuse, BatchPolicy::kUndivided, {}})
                  .error()
                  .message,
              HasSubstr("policy undivided does not admit batch 2"));
}

TEST(ValidateTest, RefusesPlansSlowerThanUndivided) {
  Profile profile = TwoKernels();
  profile.kernels[0].points[1].time = Nanoseconds(9);
  WorkspacePlan plan = TwoPlans();
  plan.kernels[0].undivided_time = Nanoseconds(9);
  plan.undivided_time = Nanoseconds(16);
  EXPECT_THAT(ValidatePlan(plan, profile, {}).error().message,
              HasSubstr("17 ns are more than 16 ns undivided"));
}

TEST(ValidateTest, AllowsOverlapOfKernelsThatNeverRunAtOnce) {
  WorkspacePlan plan = TwoPlans();
  plan.kernels[0].offset = 0_B;
  plan.total_workspace = 20_B;
  plan.concurrency.clear();
  EXPECT_TRUE(ValidatePlan(plan, TwoKernels(),
                           {WorkspaceMode::kShared, BatchPolicy::kAll, {}}));
}

}  // namespace
}  // namespace ucudnn
