// What the executor captures, replays and captures again.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "client/executor/executor.h"
#include "tests/support/fake_device.h"

namespace ucudnn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr Bytes kRun = 1_MiB;  // of a captured run

// Four images in pairs.
KernelPlan Pairs(ConvOp op) {
  MicroBatch pair;
  pair.batch = BatchSize(2);
  pair.count = 2;
  pair.algorithm = {"lavish", "", Precision::kFp32};
  pair.workspace = 200_B;
  KernelPlan kernel;
  kernel.layer = "conv";
  kernel.op = op;
  kernel.problem.emplace();
  kernel.problem->op = op;
  kernel.problem->geometry.channels = 2;
  kernel.problem->geometry.filters = 3;
  kernel.problem->geometry.input = {1, 5, 5};
  kernel.problem->geometry.filter = {1, 3, 3};
  kernel.workspace = 200_B;
  kernel.micro_batches = {pair};
  return kernel;
}

class ExecutorGraphsTest : public ::testing::Test {
 protected:
  ExecutorGraphsTest() { device_.set_graphs(kRun); }

  std::unique_ptr<Executor> Make(const ExecutorOptions& options = {}) {
    WorkspacePlan plan;
    plan.batch = BatchSize(4);
    plan.workspace_limit = 1000_B;
    plan.kernels = {Pairs(ConvOp::kForward), Pairs(ConvOp::kBackwardFilter)};
    auto executor = Executor::Create(device_, plan, options);
    EXPECT_TRUE(executor) << executor.error().message;
    return *std::move(executor);
  }
  ConvArgs Args(std::size_t set = 0) {
    return {memory_[set].data(), memory_[set].data() + 1000,
            memory_[set].data() + 2000};
  }
  Status RunAll(Executor& executor, std::size_t set = 0) {
    return executor.RunAll([&](std::size_t) { return Args(set); });
  }
  // The runs of one call, as the device saw them.
  template <class Call>
  std::vector<ConvArgs> RunsOf(const Call& call) {
    device_.runs().clear();
    EXPECT_TRUE(call());
    std::vector<ConvArgs> args;
    for (const auto& run : device_.runs()) args.push_back(run.args);
    return args;
  }

  FakeDevice device_;
  std::array<std::array<char, 3000>, 8> memory_ = {};
};

TEST_F(ExecutorGraphsTest, ReplayAKernelThatComesAgain) {
  const auto executor = Make();
  const auto run = [&] { return executor->Run(1, Args()); };
  const auto first = RunsOf(run);
  EXPECT_THAT(first, SizeIs(2));
  EXPECT_EQ(device_.captures(), 0);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(RunsOf(run), first);
  EXPECT_EQ(device_.captures(), 1);
  EXPECT_EQ(device_.replays(), 3);
  EXPECT_EQ(executor->graphs().graphs, 1U);
  EXPECT_EQ(executor->graphs().replayed, 3U);
  EXPECT_EQ(executor->graphs().memory, kRun * 2);
  EXPECT_THAT(executor->graphs().problem, IsEmpty());
}

TEST_F(ExecutorGraphsTest, KeepAGraphForEachSetOfOperands) {
  const auto executor = Make();
  for (int i = 0; i < 4; ++i) {
    for (const std::size_t set : {0, 1}) {
      ConvArgs args = Args(set);
      for (const float beta : {0.0F, 1.0F}) {
        args.beta = beta;
        const auto runs = RunsOf([&] { return executor->Run(0, args); });
        ASSERT_THAT(runs, SizeIs(2));
        EXPECT_EQ(runs[0], args);
      }
    }
  }
  EXPECT_EQ(device_.captures(), 4);
  EXPECT_EQ(device_.replays(), 4 * 3);
}

TEST_F(ExecutorGraphsTest, ReplayAnIterationAsOne) {
  const auto executor = Make();
  const auto run = [&] { return RunAll(*executor); };
  const auto first = RunsOf(run);
  EXPECT_THAT(first, SizeIs(4));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(RunsOf(run), first);
  EXPECT_EQ(device_.captures(), 1);
  EXPECT_EQ(device_.replays(), 3);
}

TEST_F(ExecutorGraphsTest, CaptureAnIterationAgainForOtherOperands) {
  const auto executor = Make();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(RunAll(*executor, 0));
  const auto moved = [&] { return RunAll(*executor, 1); };
  const auto first = RunsOf(moved);
  EXPECT_EQ(first.at(0), Args(1));
  EXPECT_EQ(RunsOf(moved), first);
  EXPECT_EQ(RunsOf(moved), first);
  EXPECT_EQ(device_.captures(), 2);
  // In the memory of the first.
  EXPECT_EQ(device_.updates(), 1);
  EXPECT_EQ(executor->graphs().memory, kRun * 4);
}

TEST_F(ExecutorGraphsTest, CaptureNothingForOperandsThatNeverComeAgain) {
  const auto executor = Make();
  for (std::size_t set = 0; set < memory_.size(); ++set) {
    ASSERT_TRUE(RunAll(*executor, set));
  }
  EXPECT_EQ(device_.captures(), 0);
}

TEST_F(ExecutorGraphsTest, EnqueueWhatCannotBeCaptured) {
  const auto executor = Make();
  device_.set_capture_error(Error{Code::kInternal, "not this one"});
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(RunsOf([&] { return RunAll(*executor); }), SizeIs(4));
  }
  EXPECT_THAT(executor->graphs().problem, HasSubstr("not this one"));
  EXPECT_THAT(executor->fallbacks(), IsEmpty());
  // Not tried again.
  device_.set_capture_error(std::nullopt);
  EXPECT_THAT(RunsOf([&] { return RunAll(*executor); }), SizeIs(4));
  EXPECT_EQ(device_.captures(), 0);
}

TEST_F(ExecutorGraphsTest, EnqueueWhenAReplayFails) {
  const auto executor = Make();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(executor->Run(0, Args()));
  device_.set_capture_error(Error{Code::kInternal, "refused"});
  EXPECT_THAT(RunsOf([&] { return executor->Run(0, Args()); }), SizeIs(2));
  EXPECT_EQ(executor->graphs().graphs, 0U);
  device_.set_capture_error(Error{Code::kDataLoss, "gone"});
  for (int i = 0; i < 2; ++i) (void)executor->Run(1, Args());
  EXPECT_EQ(executor->Run(1, Args()).error().code, Code::kDataLoss);
}

TEST_F(ExecutorGraphsTest, StopWhenTheirMemoryIsUsedUp) {
  const auto executor = Make({.graph_memory = kRun});
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(executor->Run(0, Args()));
    ASSERT_TRUE(executor->Run(1, Args()));
  }
  EXPECT_EQ(device_.captures(), 1);
  EXPECT_THAT(executor->graphs().problem, HasSubstr("of 1MiB"));
  const auto none = Make({.graph_memory = Bytes()});
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(RunAll(*none));
  EXPECT_EQ(device_.captures(), 1);
}

TEST_F(ExecutorGraphsTest, ForgetAKernelThatFallsBack) {
  const auto executor = Make();
  ASSERT_TRUE(RunAll(*executor));
  // The second iteration fails while it is captured, and then when enqueued.
  device_.algorithms()[0].runs_before_failure = 0;
  EXPECT_THAT(RunsOf([&] { return RunAll(*executor); }), SizeIs(2));
  EXPECT_THAT(executor->fallbacks(), SizeIs(2));
  // What runs instead is captured.
  const auto whole = RunsOf([&] { return RunAll(*executor); });
  EXPECT_THAT(whole, SizeIs(2));
  const int replays = device_.replays();
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(RunsOf([&] { return RunAll(*executor); }), whole);
  }
  EXPECT_EQ(device_.replays(), replays + 2);
}

}  // namespace
}  // namespace ucudnn
