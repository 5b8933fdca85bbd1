#include "client/executor/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "tests/support/fake_device.h"

namespace ucudnn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::int64_t kInput = 2 * 5 * 5 * 4;   // bytes of one image
constexpr std::int64_t kOutput = 3 * 5 * 5 * 4;  // of one output

const Algorithm kLavish = {"lavish", "", Precision::kFp32};
const Algorithm kFrugal = {"frugal", "", Precision::kFp32};

ConvProblem Problem(ConvOp op) {
  ConvProblem problem;
  problem.op = op;
  problem.geometry.channels = 2;
  problem.geometry.filters = 3;
  problem.geometry.input = {1, 5, 5};
  problem.geometry.filter = {1, 3, 3};
  problem.geometry.padding = {0, 1, 1};
  return problem;
}

MicroBatch Micro(std::int64_t batch, std::int64_t count,
                 const Algorithm& algorithm) {
  MicroBatch micro;
  micro.batch = BatchSize(batch);
  micro.count = count;
  micro.algorithm = algorithm;
  micro.workspace = (algorithm == kLavish ? 100_B : 0_B) * batch;
  return micro;
}

KernelPlan Planned(ConvOp op, std::vector<MicroBatch> micro_batches) {
  KernelPlan kernel;
  kernel.layer = "conv";
  kernel.op = op;
  kernel.problem = Problem(op);
  for (const MicroBatch& m : micro_batches) {
    kernel.workspace = std::max(kernel.workspace, m.workspace);
  }
  kernel.micro_batches = std::move(micro_batches);
  return kernel;
}

WorkspacePlan PlanOf(std::int64_t batch, std::vector<KernelPlan> kernels) {
  WorkspacePlan plan;
  plan.batch = BatchSize(batch);
  plan.workspace_limit = 1000_B;
  plan.kernels = std::move(kernels);
  return plan;
}

class ExecutorTest : public ::testing::Test {
 protected:
  ConvArgs Args(float beta = 0.0F) {
    return {.a = a_.data(),
            .b = b_.data(),
            .out = out_.data(),
            .alpha = 0.5F,
            .beta = beta};
  }
  // The offset of each run's operands from the caller's.
  std::vector<std::array<std::int64_t, 3>> Offsets() {
    std::vector<std::array<std::int64_t, 3>> offsets;
    for (const auto& run : device_.runs()) {
      offsets.push_back({static_cast<const char*>(run.args.a) - a_.data(),
                         static_cast<const char*>(run.args.b) - b_.data(),
                         static_cast<char*>(run.args.out) - out_.data()});
    }
    return offsets;
  }
  std::vector<std::string> Runs() {
    std::vector<std::string> runs;
    for (const auto& run : device_.runs()) {
      runs.push_back(fmt::format("{}x{}", run.algorithm, run.batch.count()));
    }
    return runs;
  }
  std::vector<float> Betas() {
    std::vector<float> betas;
    for (const auto& run : device_.runs()) betas.push_back(run.args.beta);
    return betas;
  }

  FakeDevice device_;
  std::vector<char> a_ = std::vector<char>(1 << 16);
  std::vector<char> b_ = std::vector<char>(1 << 16);
  std::vector<char> out_ = std::vector<char>(1 << 16);
};

TEST_F(ExecutorTest, RunsTheBatchInTheOrderOfThePlan) {
  auto executor = Executor::Create(
      device_, PlanOf(8, {Planned(ConvOp::kForward, {Micro(3, 2, kLavish),
                                                     Micro(2, 1, kFrugal)})}));
  ASSERT_TRUE(executor) << executor.error().message;
  ASSERT_TRUE((*executor)->Run(0, Args(2.0F)));
  EXPECT_THAT(Runs(), ElementsAre("lavishx3", "lavishx3", "frugalx2"));
  using Three = std::array<std::int64_t, 3>;
  EXPECT_THAT(Offsets(),
              ElementsAre(Three{0, 0, 0}, Three{3 * kInput, 0, 3 * kOutput},
                          Three{6 * kInput, 0, 6 * kOutput}));
  EXPECT_THAT(Betas(), ElementsAre(2.0F, 2.0F, 2.0F));
  EXPECT_THAT((*executor)->fallbacks(), IsEmpty());
}

TEST_F(ExecutorTest, MovesTheGradientsOfBackwardData) {
  auto executor = Executor::Create(
      device_,
      PlanOf(4, {Planned(ConvOp::kBackwardData, {Micro(2, 2, kFrugal)})}));
  ASSERT_TRUE(executor) << executor.error().message;
  ASSERT_TRUE((*executor)->Run(0, Args()));
  using Three = std::array<std::int64_t, 3>;
  EXPECT_THAT(Offsets(),
              ElementsAre(Three{0, 0, 0}, Three{2 * kOutput, 0, 2 * kInput}));
}

TEST_F(ExecutorTest, AccumulatesFilterGradientsOnTopOfTheCallersBeta) {
  auto executor = Executor::Create(
      device_,
      PlanOf(6, {Planned(ConvOp::kBackwardFilter, {Micro(2, 3, kFrugal)})}));
  ASSERT_TRUE(executor) << executor.error().message;
  ASSERT_TRUE((*executor)->Run(0, Args(0.25F)));
  EXPECT_THAT(Betas(), ElementsAre(0.25F, 1.0F, 1.0F));
  for (const auto& run : device_.runs()) EXPECT_EQ(run.args.alpha, 0.5F);
  using Three = std::array<std::int64_t, 3>;
  EXPECT_THAT(Offsets(),
              ElementsAre(Three{0, 0, 0}, Three{2 * kInput, 2 * kOutput, 0},
                          Three{4 * kInput, 4 * kOutput, 0}));
}

TEST_F(ExecutorTest, AllocatesOneArenaAndPreparesLikeLayersOnce) {
  const KernelPlan small = Planned(ConvOp::kForward, {Micro(2, 4, kLavish)});
  const KernelPlan large = Planned(ConvOp::kForward, {Micro(4, 2, kLavish)});
  auto executor = Executor::Create(device_, PlanOf(8, {small, large, small}));
  ASSERT_TRUE(executor) << executor.error().message;
  EXPECT_THAT(device_.allocations(), ElementsAre(400_B));
  EXPECT_EQ(device_.prepared(), 2);
  ASSERT_TRUE((*executor)->RunAll([&](std::size_t) { return Args(); }));
  ASSERT_TRUE((*executor)->RunAll([&](std::size_t) { return Args(); }));
  EXPECT_THAT(device_.runs(), SizeIs(20));
  EXPECT_THAT(device_.allocations(), SizeIs(1));
  EXPECT_EQ(device_.prepared(), 2);
  for (const auto& run : device_.runs()) {
    EXPECT_EQ(run.workspace, device_.runs()[0].workspace);
  }
}

TEST_F(ExecutorTest, KeepsTheOffsetsOfThePlanAligned) {
  KernelPlan first = Planned(ConvOp::kForward, {Micro(2, 1, kLavish)});
  KernelPlan second = first;
  first.offset = 0_B;
  second.offset = 200_B;
  auto executor = Executor::Create(device_, PlanOf(2, {first, second}));
  ASSERT_TRUE(executor) << executor.error().message;
  ASSERT_TRUE((*executor)->RunAll([&](std::size_t) { return Args(); }));
  EXPECT_EQ(static_cast<const char*>(device_.runs()[1].workspace) -
                static_cast<const char*>(device_.runs()[0].workspace),
            256);
}

TEST_F(ExecutorTest, RunsKernelsThatTheDeviceRejectsUndivided) {
  const Algorithm unknown = {"FFT", "", Precision::kFp32};
  auto executor = Executor::Create(
      device_, PlanOf(8, {Planned(ConvOp::kForward, {Micro(4, 2, unknown)}),
                          Planned(ConvOp::kForward, {Micro(4, 2, kFrugal)})}));
  ASSERT_TRUE(executor) << executor.error().message;
  ASSERT_TRUE((*executor)->RunAll([&](std::size_t) { return Args(); }));
  EXPECT_THAT(Runs(), ElementsAre("lavishx8", "frugalx4", "frugalx4"));
  ASSERT_THAT((*executor)->fallbacks(), SizeIs(1));
  EXPECT_EQ((*executor)->fallbacks()[0].kernel, 0U);
  EXPECT_THAT((*executor)->fallbacks()[0].why.message, HasSubstr("no FFT"));
  EXPECT_EQ((*executor)->fallbacks()[0].instead, "lavish");
}

TEST_F(ExecutorTest, FallsBackToWhatTheDeviceSuggests) {
  device_.set_suggestion("frugal");
  const Algorithm unknown = {"FFT", "", Precision::kFp32};
  auto executor = Executor::Create(
      device_, PlanOf(8, {Planned(ConvOp::kForward, {Micro(4, 2, unknown)})}));
  ASSERT_TRUE(executor) << executor.error().message;
  ASSERT_THAT((*executor)->fallbacks(), SizeIs(1));
  EXPECT_EQ((*executor)->fallbacks()[0].instead, "frugal");
}

TEST_F(ExecutorTest, FallsBackWhenAnAlgorithmNeedsMoreThanThePlanHas) {
  KernelPlan kernel = Planned(ConvOp::kForward, {Micro(4, 2, kLavish)});
  kernel.workspace = 399_B;
  kernel.micro_batches[0].workspace = 399_B;
  auto executor = Executor::Create(device_, PlanOf(8, {kernel}));
  ASSERT_TRUE(executor) << executor.error().message;
  EXPECT_THAT((*executor)->fallbacks(), SizeIs(1));
  EXPECT_EQ((*executor)->kernel(0).micro_batches[0].batch, BatchSize(8));
}

TEST_F(ExecutorTest, KeepsToTheLimitWhenItFallsBack) {
  const Algorithm unknown = {"FFT", "", Precision::kFp32};
  WorkspacePlan plan =
      PlanOf(8, {Planned(ConvOp::kForward, {Micro(4, 2, unknown)})});
  plan.workspace_limit = 799_B;
  auto executor = Executor::Create(device_, plan);
  ASSERT_TRUE(executor) << executor.error().message;
  EXPECT_EQ((*executor)->fallbacks()[0].instead, "frugal");

  device_.algorithms().pop_back();
  executor = Executor::Create(device_, plan);
  ASSERT_FALSE(executor);
  EXPECT_EQ(executor.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(executor.error().message, HasSubstr("conv forward"));
  EXPECT_THAT(executor.error().message, HasSubstr("needs 800"));
}

TEST_F(ExecutorTest, FallsBackIfMemoryIsShort) {
  device_.set_memory(300_B);
  auto executor = Executor::Create(
      device_, PlanOf(8, {Planned(ConvOp::kForward, {Micro(8, 1, kLavish)}),
                          Planned(ConvOp::kForward, {Micro(2, 4, kLavish)})}));
  ASSERT_TRUE(executor) << executor.error().message;
  ASSERT_TRUE((*executor)->RunAll([&](std::size_t) { return Args(); }));
  EXPECT_THAT(Runs(), ElementsAre("frugalx8", "lavishx2", "lavishx2",
                                  "lavishx2", "lavishx2"));
}

TEST_F(ExecutorTest, FinishesTheBatchWhenAMicroBatchFails) {
  device_.algorithms()[0].runs_before_failure = 2;
  auto executor = Executor::Create(
      device_,
      PlanOf(8, {Planned(ConvOp::kBackwardFilter, {Micro(2, 4, kLavish)})}));
  ASSERT_TRUE(executor) << executor.error().message;
  ASSERT_TRUE((*executor)->Run(0, Args(0.25F)));
  EXPECT_THAT(Runs(), ElementsAre("lavishx2", "lavishx2", "frugalx4"));
  EXPECT_THAT(Betas(), ElementsAre(0.25F, 1.0F, 1.0F));
  using Three = std::array<std::int64_t, 3>;
  EXPECT_EQ(Offsets()[2], (Three{4 * kInput, 4 * kOutput, 0}));
  // Undivided from now on.
  device_.runs().clear();
  ASSERT_TRUE((*executor)->Run(0, Args()));
  EXPECT_THAT(Runs(), ElementsAre("frugalx8"));
  EXPECT_THAT((*executor)->fallbacks(), SizeIs(1));
}

TEST_F(ExecutorTest, ReportsKernelsThatFailUndividedToo) {
  device_.algorithms()[0].runs_before_failure = 0;
  device_.algorithms()[1].runs_before_failure = 0;
  auto executor = Executor::Create(
      device_, PlanOf(4, {Planned(ConvOp::kForward, {Micro(2, 2, kLavish)})}));
  ASSERT_TRUE(executor) << executor.error().message;
  EXPECT_FALSE((*executor)->Run(0, Args()));
  const Status again = (*executor)->Run(0, Args());
  ASSERT_FALSE(again);
  EXPECT_THAT(again.error().message, HasSubstr("frugal failed"));
  EXPECT_THAT((*executor)->fallbacks(), SizeIs(1));
  EXPECT_EQ((*executor)->Run(1, Args()).error().code, Code::kOutOfRange);
}

TEST_F(ExecutorTest, RefusesPlansThatDoNotCoverTheBatch) {
  for (const auto& micro : {Micro(3, 2, kFrugal), Micro(4, 3, kFrugal),
                            Micro(1LL << 40, 1LL << 40, kFrugal)}) {
    auto executor = Executor::Create(
        device_, PlanOf(8, {Planned(ConvOp::kForward, {micro})}));
    ASSERT_FALSE(executor);
    EXPECT_EQ(executor.error().code, Code::kInvalidArgument);
  }
  KernelPlan nameless = Planned(ConvOp::kForward, {Micro(8, 1, kFrugal)});
  nameless.problem.reset();
  EXPECT_THAT(Executor::Create(device_, PlanOf(8, {nameless})).error().message,
              HasSubstr("does not tell its problem"));
}

TEST_F(ExecutorTest, HasNothingToRunForAnEmptyShare) {
  auto executor = Executor::Create(device_, PlanOf(0, {}));
  ASSERT_TRUE(executor) << executor.error().message;
  EXPECT_EQ((*executor)->size(), 0U);
  EXPECT_THAT(device_.allocations(), IsEmpty());
}

TEST_F(ExecutorTest, RefusesWorkspacesOutsideOfItsArena) {
  for (const Bytes offset : {Bytes(-8), Bytes(-256), Bytes(1LL << 62)}) {
    KernelPlan kernel = Planned(ConvOp::kForward, {Micro(4, 1, kLavish)});
    kernel.offset = offset;
    const auto executor = Executor::Create(device_, PlanOf(4, {kernel}));
    ASSERT_FALSE(executor) << offset.count();
    EXPECT_EQ(executor.error().code, Code::kInvalidArgument);
    EXPECT_THAT(executor.error().message, HasSubstr("offset_bytes"));
  }
  EXPECT_THAT(device_.allocations(), IsEmpty());
}

}  // namespace
}  // namespace ucudnn
