// The executor on the GPU that computes on the host (tests/support/fake_gpu):
// the calls that it makes, though not what happens at once.

#include <gtest/gtest.h>

#include <utility>

#include "device/cudnn/cudnn_device.h"
#include "tests/client/training/trainee.h"
#include "tests/client/training/trains_equally.h"
#include "tests/support/fake_gpu/fake_gpu.h"
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
  test::ExpectSameUnderAllPolicies(trainee, 0.001F);
}

TEST(MemoryExecutorGpuTest, TrainsExcitationsAsWithoutABudget) {
  test::Trainee trainee(OpenFakeGpu(), test::SmallGates(2));
  test::ExpectSameUnderAllPolicies(trainee);
  test::ExpectStepsDownTheGradient(trainee);
}

TEST(MemoryExecutorGpuTest, TrainsResidualBlocksAsWithoutABudget) {
  test::Trainee trainee(OpenFakeGpu(), test::SmallResidual(2));
  test::ExpectSameUnderAllPolicies(trainee);
}

TEST(MemoryExecutorGpuTest, TrainsVolumesAsWithoutABudget) {
  test::Trainee trainee(OpenFakeGpu(), test::SmallVolumes(2));
  test::ExpectSameUnderAllPolicies(trainee);
  test::ExpectStepsDownTheGradient(trainee);
}

// Every kind of task, on few pixels.
Graph Tiny(std::int64_t batch) {
  test::NetworkBuilder n("tiny", batch);
  auto x = n.Relu("a", n.Conv("a", n.Input(2, 8), 4, 3));
  const auto y = n.BatchNorm("b.bn", n.Conv("b", x, 4, 3, 1, false));
  x = n.Pool("pool", n.Same("sum", "Add", {x, y}), 2, 2);
  x = n.Same("drop", "Dropout", {n.Conv("c", x, 4, 1)});
  n.Gemm("fc", n.Flatten(x), 3);
  return n.Finish();
}

class ReplayTest : public ::testing::Test {
 protected:
  MemoryPlan InRounds() {
    MemoryRequest request;
    request.sub_batch = BatchSize(2);
    return *trainee_.Plan("modnn", 1_GiB, request);
  }
  test::Trainee::Outcome Enqueued(const MemoryPlan& plan) {
    auto outcome = trainee_.Train(
        plan, {.allow_sub_batch_statistics = true, .graph_memory = Bytes()});
    EXPECT_EQ(outcome.captured.graphs, 0U);
    return outcome;
  }
  test::Trainee::Outcome Replayed(const MemoryPlan& plan) {
    return trainee_.Train(plan, {.allow_sub_batch_statistics = true});
  }

  test::Trainee trainee_{OpenFakeGpu(), Tiny(6), {BatchSize(2)}};
};

TEST_F(ReplayTest, ReplaysWhatStepsRepeat) {
  const MemoryPlan plan = *trainee_.PlanInLeastMemory("vdnn-ext-all-m");
  EXPECT_GT(plan.offloaded, Bytes());
  const auto expected = Enqueued(plan);
  const auto before = FakeGpuGraphs();
  const auto replayed = Replayed(plan);
  EXPECT_EQ(replayed.captured.problem, "");
  EXPECT_GT(replayed.captured.graphs, 3U);
  EXPECT_GT(replayed.captured.memory, Bytes());
  // In the second step and in the third.
  EXPECT_EQ(FakeGpuGraphs().launches - before.launches,
            2 * static_cast<int>(replayed.captured.graphs));
  EXPECT_EQ(replayed.losses, expected.losses);
  EXPECT_EQ(replayed.parameters, expected.parameters);
}

// The first round begins the weight gradients, the others add to them.
TEST_F(ReplayTest, ReplaysRoundsThatAddUpGradients) {
  const MemoryPlan plan = InRounds();
  const auto expected = Enqueued(plan);
  const auto replayed = Replayed(plan);
  EXPECT_GT(replayed.captured.graphs, 2U);
  EXPECT_EQ(replayed.losses, expected.losses);
  EXPECT_EQ(replayed.parameters, expected.parameters);
}

// The only rank of its job, whose sums are its own.
class OneRank final : public RankExchange {
 public:
  explicit OneRank(bool stream_ordered) : stream_ordered_(stream_ordered) {}
  bool stream_ordered() const override { return stream_ordered_; }
  Status SumStatistics(std::span<double>) override {
    ++statistics;
    return {};
  }
  Status SumGradients(std::span<const std::span<float>> bucket) override {
    gradients += std::ssize(bucket);
    return {};
  }

  int statistics = 0;
  std::ptrdiff_t gradients = 0;

 private:
  bool stream_ordered_;
};

// Three steps, of which the second captures.
TEST(ExchangeTest, IsCapturedIfItIsOrderedByTheStream) {
  test::Trainee trainee(
      OpenFakeGpu(), Tiny(4), {}, test::kFastLink,
      {.momentum = true, .running_statistics = true, .updates_at_end = true});
  const MemoryPlan plan = trainee.Undivided();
  const auto expected = trainee.Train(plan, {.momentum = 0.9F});
  for (const bool ordered : {false, true}) {
    OneRank exchange(ordered);
    const auto outcome =
        trainee.Train(plan, {.momentum = 0.9F, .exchange = &exchange});
    ASSERT_EQ(outcome.losses.size(), expected.losses.size());
    for (std::size_t i = 0; i < outcome.losses.size(); ++i) {
      EXPECT_NEAR(outcome.losses[i], expected.losses[i], 1e-5);
    }
    EXPECT_GT(outcome.captured.graphs, 0U);
    // One normalisation, both ways: enqueued thrice, or once and captured.
    EXPECT_EQ(exchange.statistics, ordered ? 4 : 6);
    EXPECT_EQ(exchange.gradients, 3 * 5);
  }
}

TEST_F(ReplayTest, EnqueuesWhatCannotBeCaptured) {
  const MemoryPlan plan = InRounds();
  const auto expected = Enqueued(plan);
  FakeGpuFailInstantiations(1);
  const auto outcome = Replayed(plan);
  EXPECT_EQ(outcome.captured.graphs, 0U);
  EXPECT_NE(outcome.captured.problem, "");
  EXPECT_EQ(outcome.losses, expected.losses);
  EXPECT_EQ(outcome.parameters, expected.parameters);
}

}  // namespace
}  // namespace ucudnn
