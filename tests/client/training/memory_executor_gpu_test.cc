// The executor on the GPU that computes on the host (tests/support/fake_gpu):
// the calls that it makes, though not what happens at once.

#include <gtest/gtest.h>

#include <cstdlib>
#include <utility>
#include <vector>

#include "client/training/memory_run.h"
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
  Status SumGradients(std::span<const ReadyBucket> buckets) override {
    for (const ReadyBucket& bucket : buckets) {
      gradients += std::ssize(bucket.gradients);
      EXPECT_FALSE(bucket.ready.empty());
    }
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

// As many steps as a trial of streams takes, and two more.
constexpr int kTrial = 4 + 2 * static_cast<int>(kStreamTrials);

// Of a graph with branches, on which tasks that may run at once do
// (fake_gpu.h): always the latest that is ready.
class StreamsTest : public ::testing::TestWithParam<int> {
 protected:
  static Graph Branches() {
    test::NetworkBuilder n("branches", 2);
    auto x = n.Relu("stem", n.Conv("stem", n.Input(3, 8), 4, 3));
    const auto a = n.Relu("a", n.Conv("a", x, 4, 1));
    const auto b = n.Relu("b2", n.Conv("b2", n.Conv("b1", x, 4, 1), 4, 3));
    const auto c =
        n.BatchNorm("c", n.Conv("c1", n.Pool("p", x, 3, 1, 1), 4, 1));
    x = n.Concat("d", {a, b, c});
    x = n.Same("sum", "Add", {n.Conv("e", x, 12, 3), x});
    n.Gemm("fc", n.Flatten(n.Pool("q", x, 2, 2)), 5);
    return n.Finish();
  }
  static constexpr TrainingOptions kGraph = {.momentum = true,
                                             .running_statistics = true};

  test::Trainee::Outcome Train(test::Trainee& trainee, const MemoryPlan& plan,
                               int streams) {
    return trainee.Train(plan,
                         {.rate = 0.001F,
                          .momentum = 0.9F,
                          .allow_sub_batch_statistics = true,
                          .streams = streams},
                         kTrial);
  }
  // With this many streams, bit by bit what one does.
  StreamUse ExpectSame(test::Trainee& trainee, const MemoryPlan& plan) {
    const auto expected = Train(trainee, plan, 1);
    EXPECT_EQ(expected.streams.why, "");
    const auto outcome = Train(trainee, plan, GetParam());
    EXPECT_EQ(outcome.captured.problem, "");
    EXPECT_EQ(outcome.losses, expected.losses);
    EXPECT_EQ(outcome.parameters, expected.parameters);
    EXPECT_EQ(outcome.captured.graphs, expected.captured.graphs);
    return outcome.streams;
  }
};
INSTANTIATE_TEST_SUITE_P(N, StreamsTest, ::testing::Values(2, 3, 4));

TEST_P(StreamsTest, TrainsBranchesAtOnceAsOneByOne) {
  for (const Graph& graph : {Branches(), test::SmallInception(2)}) {
    SCOPED_TRACE(graph.name);
    test::Trainee trainee(OpenFakeGpu(), graph, {}, test::kFastLink, kGraph);
    MemoryRequest request;
    request.streams = GetParam();
    const MemoryPlan plan = *trainee.Plan("baseline", 1_GiB, request);
    const StreamUse use = ExpectSame(trainee, plan);
    EXPECT_EQ(use.kept, GetParam());
    EXPECT_EQ(use.why, "");
    EXPECT_LT(use.together, use.alone);
    EXPECT_EQ(use.gain(), use.alone - use.together);
  }
}

// Plans that know nothing of streams, and use memory again as soon as they can.
TEST_P(StreamsTest, TrainsByAnyPlan) {
  test::Trainee trainee(OpenFakeGpu(), Branches(), {}, test::kSlowLink, kGraph);
  for (const char* policy : {"baseline", "vdnn-ext-all-m", "hmms", "modnn"}) {
    SCOPED_TRACE(policy);
    ExpectSame(trainee, *trainee.PlanInLeastMemory(policy));
  }
}

TEST_P(StreamsTest, TrainsWhereActivationsAreRecomputed) {
  test::NetworkBuilder n("twice", 4);
  auto x = n.Input(2, 8);
  for (const char* name : {"a", "b", "c"}) {
    const auto y = n.Conv(name + std::string("1"), x, 4, 3);
    x = n.Relu(name, n.BatchNorm(name + std::string("2"), y));
  }
  n.Gemm("fc", n.Flatten(x), 5);
  test::Trainee trainee(OpenFakeGpu(), n.Finish(), {}, test::kSlowLink, kGraph);
  MemoryRequest freedom;
  freedom.recompute = true;
  const MemoryPlan plan = *trainee.PlanInLeastMemory("best", freedom);
  EXPECT_TRUE(test::RunsSomethingTwice(plan));
  ExpectSame(trainee, plan);
}

TEST_P(StreamsTest, TrainsRoundsThatAddUpGradients) {
  test::Trainee trainee(OpenFakeGpu(), Tiny(6), {BatchSize(2)}, test::kFastLink,
                        kGraph);
  MemoryRequest request;
  request.sub_batch = BatchSize(2);
  request.streams = GetParam();
  const MemoryPlan plan = *trainee.Plan("modnn", 1_GiB, request);
  ASSERT_GT(plan.rounds.front().count, 1);
  ExpectSame(trainee, plan);
}

// Remembers on the device which exchange of statistics it made last.
class LastExchange final : public RankExchange {
 public:
  explicit LastExchange(Device& device)
      : device_(device), last_(*device.Allocate(Bytes(1))) {}
  bool stream_ordered() const override { return true; }
  Status SumStatistics(std::span<double>) override {
    return device_.Fill(last_.data(), static_cast<unsigned char>(++count_),
                        Bytes(1));
  }
  Status SumGradients(std::span<const ReadyBucket>) override { return {}; }

  // Counted as they were enqueued or captured.
  int last() const {
    unsigned char last = 0;
    EXPECT_TRUE(device_.Download(&last, last_.data(), Bytes(1)));
    return last;
  }

 private:
  Device& device_;
  DeviceBuffer last_;
  int count_ = 0;
};

// Two branches are normalised, so nothing but the exchange orders their sums.
TEST_P(StreamsTest, TrainsWithOtherRanks) {
  test::NetworkBuilder n("norms", 2);
  const auto x = n.Relu("stem", n.Conv("stem", n.Input(3, 8), 4, 3));
  const auto a = n.BatchNorm("a", n.Conv("a1", x, 4, 1));
  const auto b = n.BatchNorm("b", n.Conv("b1", x, 4, 1));
  n.Gemm("fc", n.Flatten(n.Same("sum", "Add", {a, b})), 5);
  test::Trainee trainee(
      OpenFakeGpu(), n.Finish(), {}, test::kFastLink,
      {.momentum = true, .running_statistics = true, .updates_at_end = true});
  MemoryRequest request;
  request.streams = GetParam();
  const MemoryPlan plan = *trainee.Plan("baseline", 1_GiB, request);
  LastExchange exchange(trainee.device());
  ExecutionOptions options = {.momentum = 0.9F, .exchange = &exchange};
  const auto expected = trainee.Train(plan, options, kTrial);
  EXPECT_EQ(exchange.last() % 4, 0) << "two normalisations, both ways";
  options.streams = GetParam();
  const auto outcome = trainee.Train(plan, options, kTrial);
  EXPECT_EQ(exchange.last() % 4, 0) << exchange.last();
  EXPECT_EQ(outcome.streams.kept, GetParam()) << outcome.streams.why;
  EXPECT_EQ(outcome.losses, expected.losses);
  EXPECT_EQ(outcome.parameters, expected.parameters);
}

// Leaves out one of the edges of all that is captured, by number.
class Forgetful final : public ForwardingDevice {
 public:
  Forgetful(Device& device, int forgotten)
      : ForwardingDevice(device), forgotten_(forgotten) {}
  Result<std::unique_ptr<CapturedWork>> CaptureParts(
      std::span<const CapturePart> parts,
      std::unique_ptr<CapturedWork> replaced) override {
    std::vector<CapturePart> fewer(parts.begin(), parts.end());
    for (CapturePart& part : fewer) {
      std::erase_if(part.after,
                    [&](std::size_t) { return edges++ == forgotten_; });
    }
    return ForwardingDevice::CaptureParts(fewer, std::move(replaced));
  }

  int edges = 0;

 private:
  const int forgotten_;
};

TEST(MissingEdgeTest, IsNoticed) {
  test::NetworkBuilder n("two", 2);
  const auto x = n.Conv("stem", n.Input(2, 4), 2, 3);
  n.Gemm(
      "fc",
      n.Flatten(n.Same("sum", "Add", {n.Relu("a", n.Conv("a", x, 2, 3)), x})),
      3);
  test::Trainee trainee(OpenFakeGpu(), n.Finish());
  MemoryRequest request;
  request.streams = 4;
  const MemoryPlan plan = *trainee.Plan("baseline", 1_GiB, request);
  const auto train = [&](int forgotten, int* edges) {
    Forgetful device(trainee.device(), forgotten);
    const auto outcome = trainee.TrainOn(device, plan, {.streams = 4}, 4);
    *edges = device.edges;
    return std::pair(outcome.losses, outcome.parameters);
  };
  int edges = 0;
  const auto expected = train(-1, &edges);
  ASSERT_GT(edges, 10);
  int noticed = 0;
  int ignored = 0;
  for (int edge = 0; edge < edges; ++edge) {
    if (train(edge, &ignored) != expected) ++noticed;
  }
  // Others only bound how many run at once.
  EXPECT_GE(noticed, edges * 3 / 4);
}

TEST(StreamsReportTest, PredictsTheMeasuredGain) {
  test::Trainee trainee(OpenFakeGpu(), Tiny(2));
  const MemoryPlan plan = trainee.Undivided();
  PreparedTraining prepared;
  prepared.training = trainee.training();
  prepared.operations = trainee.operations();
  MemoryRun run;
  run.streams = trainee.Train(plan, {}, kTrial).streams;
  EXPECT_FALSE(ToJson(prepared, plan, run).contains("streams"));
  EXPECT_EQ(ToJson(prepared, plan, run)["predicted_us"],
            Microseconds(plan.time));
  run.streams = trainee.Train(plan, {.streams = 2}, kTrial).streams;
  ASSERT_GT(run.streams.gain(), Nanoseconds(0));
  const auto kept = ToJson(prepared, plan, run);
  EXPECT_EQ(kept["streams"]["asked"], 2);
  EXPECT_EQ(kept["streams"]["kept"], 2);
  EXPECT_EQ(kept["streams"]["alone_us"], Microseconds(run.streams.alone));
  EXPECT_EQ(kept["streams"]["together_us"], Microseconds(run.streams.together));
  EXPECT_EQ(kept["predicted_us"], Microseconds(plan.time - run.streams.gain()));
  EXPECT_EQ(kept["predicted_passes_us"], kept["predicted_us"]);
  run.streams = {.asked = 2, .why = "no"};
  const auto alone = ToJson(prepared, plan, run);
  EXPECT_TRUE(alone["streams"]["together_us"].is_null());
  EXPECT_EQ(alone["streams"]["why"], "no");
  EXPECT_EQ(alone["predicted_us"], Microseconds(plan.time));
}

class WhyNotTest : public ::testing::Test {
 protected:
  StreamUse Use(const Graph& graph, ExecutionOptions options,
                int steps = kTrial) {
    options.streams = 2;
    test::Trainee trainee(OpenFakeGpu(), graph);
    return trainee.Train(trainee.Undivided(), options, steps).streams;
  }
};

TEST_F(WhyNotTest, SaysWhyTasksRunOneByOne) {
  EXPECT_EQ(Use(Tiny(2), {.poison = true}).why, "nothing is captured");
  EXPECT_EQ(Use(Tiny(2), {.graph_memory = Bytes()}).why, "nothing is captured");
  EXPECT_EQ(Use(Tiny(2), {.time_tasks = true}).why,
            "tasks are timed one by one");
  const StreamUse few = Use(Tiny(2), {}, 5);
  EXPECT_EQ(few.why, "there were too few steps to try more");
  EXPECT_EQ(few.kept, 1);
  test::NetworkBuilder n("line", 2);
  n.Gemm("fc", n.Flatten(n.Input(2, 4)), 3);
  EXPECT_EQ(Use(n.Finish(), {}).why, "no two tasks may run at once");
}

TEST_F(WhyNotTest, KeepsOneIfMoreAreNotFaster) {
  setenv("FAKE_GPU_SERIAL", "1", 1);
  const StreamUse use = Use(Tiny(2), {});
  unsetenv("FAKE_GPU_SERIAL");
  EXPECT_EQ(use.asked, 2);
  EXPECT_EQ(use.kept, 1);
  EXPECT_EQ(use.why, "one at a time is as fast");
  EXPECT_GT(use.alone, Nanoseconds(0));
  EXPECT_EQ(use.together, use.alone);
  EXPECT_EQ(use.gain(), Nanoseconds(0));
}

// Has captured branches that cannot be enqueued, or none.
class Unable final : public ForwardingDevice {
 public:
  Unable(Device& device, bool captures)
      : ForwardingDevice(device), captures_(captures) {}
  Result<std::unique_ptr<CapturedWork>> CaptureParts(
      std::span<const CapturePart> parts,
      std::unique_ptr<CapturedWork> replaced) override {
    if (parts.size() == 1) {
      return ForwardingDevice::CaptureParts(parts, std::move(replaced));
    }
    if (captures_) return std::make_unique<Work>();
    return Fail(Code::kInternal, "no branches here");
  }

 private:
  class Work final : public CapturedWork {
    Status Enqueue() override { return Fail(Code::kInternal, "not now"); }
    Bytes memory() const override { return 1_B; }
  };
  const bool captures_;
};

TEST_F(WhyNotTest, GoesOnWithoutBranches) {
  test::Trainee trainee(OpenFakeGpu(), Tiny(2));
  const MemoryPlan plan = trainee.Undivided();
  const auto expected = trainee.Train(plan, {}, kTrial);
  for (const bool captures : {false, true}) {
    Unable device(trainee.device(), captures);
    const auto outcome = trainee.TrainOn(device, plan, {.streams = 2}, kTrial);
    EXPECT_EQ(outcome.losses, expected.losses);
    EXPECT_EQ(outcome.parameters, expected.parameters);
    EXPECT_EQ(outcome.captured.problem, captures ? "not now" : "");
    EXPECT_EQ(outcome.captured.graphs, expected.captured.graphs);
    EXPECT_EQ(outcome.streams.why, captures ? "not now" : "no branches here");
    EXPECT_EQ(outcome.streams.kept, 1);
  }
}

}  // namespace
}  // namespace ucudnn
