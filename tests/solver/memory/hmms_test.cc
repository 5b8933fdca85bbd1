#include "solver/memory/hmms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/training/build.h"
#include "base/training/costs.h"
#include "solver/check/memory_plan.h"
#include "solver/memory/bounds.h"
#include "solver/memory/policies.h"
#include "solver/memory/split/split.h"
#include "tests/support/small_networks.h"
#include "tests/support/trials.h"

namespace ucudnn {
namespace {

using std::chrono::microseconds;

// A chain of tasks with given times on a link of 1000 bytes/us each way: task i
// of the forward pass reads block i - 1 (the image is block 0) and writes block
// i; its backward task reads block i - 1 and both gradients.
class Chain {
 public:
  struct Layer {
    int forward_us;
    int backward_us;
    int output_bytes;
  };

  Chain(int image_bytes, const std::vector<Layer>& layers) {
    graph_.network = "toy";
    graph_.batch = BatchSize(1);
    graph_.device = *DeviceModelPreset("K40");
    graph_.device.d2h_rate = graph_.device.h2d_rate = 1000;
    AddBlock("y0", BlockKind::kInput, image_bytes);
    for (std::size_t i = 1; i <= layers.size(); ++i) {
      AddBlock("y" + std::to_string(i), BlockKind::kActivation,
               layers[i - 1].output_bytes);
      AddTask("f" + std::to_string(i), TaskKind::kForward,
              layers[i - 1].forward_us, {i - 1}, {i});
    }
    std::size_t gradient = AddBlock("loss.d", BlockKind::kGradient, 256);
    AddTask("loss", TaskKind::kLoss, 1, {layers.size()}, {gradient});
    for (std::size_t i = layers.size(); i > 0; --i) {
      const std::size_t next =
          AddBlock("d" + std::to_string(i - 1), BlockKind::kGradient, 256);
      AddTask("b" + std::to_string(i), TaskKind::kBackward,
              layers[i - 1].backward_us, {i - 1, gradient}, {next});
      gradient = next;
    }
  }

  Task& Named(const std::string& name) {
    return *std::find_if(graph_.tasks.begin(), graph_.tasks.end(),
                         [&](const Task& task) { return task.name == name; });
  }
  // A block that the one task writes and the other reads.
  void AddStatistics(const std::string& writer, const std::string& reader,
                     int bytes) {
    const std::size_t block =
        AddBlock(writer + ".S", BlockKind::kStatistics, bytes);
    Named(writer).writes.push_back(block);
    Named(reader).reads.push_back(block);
  }
  const TrainingGraph& graph() const { return graph_; }

  MemoryPlan Plan() const {
    Result<MemoryPlan> plan = PlanHmms(graph_, {.budget = 1_MiB});
    EXPECT_TRUE(plan) << plan.error().message;
    return plan.value_or(MemoryPlan());
  }

 private:
  std::size_t AddBlock(const std::string& name, BlockKind kind, int bytes) {
    graph_.blocks.push_back({name, kind, Bytes(0), Bytes(bytes), false});
    return graph_.blocks.size() - 1;
  }
  void AddTask(const std::string& name, TaskKind kind, int us,
               std::vector<std::size_t> reads,
               std::vector<std::size_t> writes) {
    Task task;
    task.name = name;
    task.kind = kind;
    task.layer = graph_.layers.size();
    task.reads = std::move(reads);
    task.writes = std::move(writes);
    task.work.fixed = microseconds(us);
    graph_.layers.push_back({name, "toy"});
    graph_.tasks.push_back(std::move(task));
  }

  TrainingGraph graph_;
};

// "free y1 at 40"; of transfers and of what they move, in order.
std::vector<std::string> Travel(const MemoryPlan& plan,
                                const TrainingGraph& graph,
                                const std::string& block) {
  std::vector<std::string> lines;
  for (const MemoryEvent& event : plan.rounds.front().events) {
    if (event.op == EventOp::kCompute || event.op == EventOp::kSync ||
        graph.blocks[event.block].name != block) {
      continue;
    }
    lines.push_back(std::string(Name(event.op)) + " at " +
                    std::to_string(event.start / microseconds(1)));
  }
  return lines;
}

using ::testing::ElementsAre;

// compute  | f1 | f2 | f3 | f4 |loss| b4 | b3 | b2 | b1 |
//          0   10   20   30   40   41   51   61   71   81
const std::vector<Chain::Layer> kTens = {
    {10, 10, 15'000}, {10, 10, 10'000}, {10, 10, 1'000}, {10, 10, 1'000}};

TEST(HmmsTest, FreesAnObjectAfterTheTaskDuringWhichItsLastByteLeaves) {
  const Chain chain(5'000, kTens);
  const MemoryPlan plan = chain.Plan();
  // 15 us from the end of f2 to the middle of f4; and back 15 us before b2, in
  // the middle of b4.
  EXPECT_THAT(Travel(plan, chain.graph(), "y1"),
              ElementsAre("alloc at 0", "offload at 20", "free at 40",
                          "alloc at 41", "prefetch at 41", "free at 71"));
}

TEST(HmmsTest, KeepsWhatIsStillQueuedAtTheLoss) {
  const Chain chain(5'000, kTens);
  // The link is free again at 35; 10 us more end after the loss has begun.
  EXPECT_THAT(Travel(chain.Plan(), chain.graph(), "y2"),
              ElementsAre("alloc at 10", "free at 61"));
}

TEST(HmmsTest, DropsTheImageWithoutCopyingIt) {
  const Chain chain(5'000, kTens);
  const MemoryPlan plan = chain.Plan();
  // Queued behind nothing: 5 us before b1, in the middle of b2.
  EXPECT_THAT(
      Travel(plan, chain.graph(), "y0"),
      ElementsAre("free at 10", "alloc at 61", "prefetch at 61", "free at 81"));
  EXPECT_EQ(plan.offloaded, Bytes(15'000));
  EXPECT_EQ(plan.prefetched, Bytes(20'000));
}

TEST(HmmsTest, LeavesTheLinkToOthersWhereAnObjectCannotReturnInTime) {
  Chain chain(5'000, kTens);
  // The first task after the loss reads y1, so y1 would have to return during
  // the loss. Without it y2 leaves in time.
  chain.Named("b4").reads.push_back(1);
  const MemoryPlan plan = chain.Plan();
  EXPECT_THAT(Travel(plan, chain.graph(), "y1"),
              ElementsAre("alloc at 0", "free at 71"));
  EXPECT_THAT(Travel(plan, chain.graph(), "y2"),
              ElementsAre("alloc at 10", "offload at 30", "free at 40",
                          "alloc at 41", "prefetch at 41", "free at 61"));
}

TEST(HmmsTest, FetchesInTheOrderInWhichObjectsAreNeeded) {
  // y1 and y2 return behind each other: 6 us for y2 before b3 at 51, and 6 us
  // for y1 before b2 at 61.
  const Chain chain(
      100, {{10, 10, 6'000}, {10, 10, 6'000}, {10, 10, 100}, {10, 10, 100}});
  const MemoryPlan plan = chain.Plan();
  EXPECT_THAT(Travel(plan, chain.graph(), "y2"),
              ::testing::IsSupersetOf({"offload at 30", "prefetch at 41"}));
  EXPECT_THAT(Travel(plan, chain.graph(), "y1"),
              ::testing::IsSupersetOf({"offload at 20", "prefetch at 51"}));
}

TEST(HmmsTest, QueuesWhatNoForwardTaskReadsAfterItsWriter) {
  Chain chain(5'000, kTens);
  chain.AddStatistics("f2", "b2", 2'000);
  // Queued behind y1, whose last reader is f2 too.
  EXPECT_THAT(Travel(chain.Plan(), chain.graph(), "f2.S"),
              ElementsAre("alloc at 10", "offload at 35", "free at 40",
                          "alloc at 41", "prefetch at 41", "free at 71"));
}

Nanoseconds SumOfTimes(const TrainingGraph& graph, bool fastest) {
  Nanoseconds sum{0};
  for (const Task& task : graph.tasks) {
    const std::vector<TaskCost> costs = CostsAt(graph, task, graph.batch);
    sum += fastest ? costs.back().time : costs.front().time;
  }
  return sum;
}

TEST(HmmsTest, NoTaskEverWaits) {
  std::mt19937 random(3);
  const auto number = [&](int low, int high) {
    return std::uniform_int_distribution(low, high)(random);
  };
  int moved = 0;
  for (int trial = 0; trial < Trials(300); ++trial) {
    std::vector<Chain::Layer> layers(static_cast<std::size_t>(number(1, 12)));
    for (Chain::Layer& layer : layers) {
      layer = {number(0, 20), number(0, 20), number(1, 20'000)};
    }
    const Chain chain(number(1, 20'000), layers);
    const MemoryPlan plan = chain.Plan();
    EXPECT_EQ(plan.stall, Nanoseconds(0));
    EXPECT_EQ(plan.time, SumOfTimes(chain.graph(), true));
    const Status valid = ValidateMemoryPlan(plan, chain.graph());
    EXPECT_TRUE(valid) << valid.error().message;
    moved += plan.offloaded > Bytes(0) ? 1 : 0;
  }
  EXPECT_GT(moved, Trials(100));
}

TrainingGraph OnDevice(const Graph& network, double link_gb_per_s,
                       bool duplex = true) {
  Result<TrainingGraph> graph = BuildTrainingGraph(network, {});
  EXPECT_TRUE(graph) << graph.error().message;
  DeviceModel device = *DeviceModelPreset("K40");
  device.d2h_rate = device.h2d_rate = link_gb_per_s * 1e3;
  device.duplex = duplex;
  device.transfer_latency = microseconds(3);
  device.algorithms = {{"WINOGRAD_NONFUSED", 2.0}, {"FFT", 1.5}};
  EXPECT_TRUE(SetDevice(device, &*graph));
  return *std::move(graph);
}

TEST(HmmsTest, StaysWithinEveryBudgetAndNeverStalls) {
  int plans = 0;
  for (const Graph& network :
       {test::SmallChain(32), test::SmallResidual(32), test::SmallInception(32),
        SplitGraph(test::SmallChain(32), {0.5, 2, 2}).value(),
        SplitGraph(test::SmallResidual(32), {1, 1, 3, true}).value()}) {
    for (const double link : {0.5, 5.0, 50.0}) {
      for (const bool duplex : {true, false}) {
        const TrainingGraph graph = OnDevice(network, link, duplex);
        const Bytes all = *IdealBytes(graph);
        for (int percent = 10; percent <= 110; percent += kSlowed ? 20 : 4) {
          for (const auto allocator :
               {MemoryAllocator::kPolicy, MemoryAllocator::kStatic}) {
            const MemoryRequest request{.budget = all * percent / 100,
                                        .allocator = allocator};
            const Result<MemoryPlan> plan = PlanHmms(graph, request);
            if (!plan) {
              EXPECT_EQ(plan.error().code, Code::kFailedPrecondition);
              continue;
            }
            ++plans;
            EXPECT_LE(plan->peak, request.budget);
            EXPECT_EQ(plan->time, SumOfTimes(graph, plan->choice == "p"));
            const Status valid = ValidateMemoryPlan(*plan, graph);
            EXPECT_TRUE(valid) << valid.error().message;
            EXPECT_EQ(*plan, *PlanHmms(graph, request));
          }
        }
      }
    }
  }
  EXPECT_GT(plans, Trials(300));
}

TEST(HmmsTest, TakesTheLeastWorkspaceWhereTheFastestDoesNotFit) {
  const TrainingGraph graph = OnDevice(test::SmallChain(32), 5);
  const MemoryPolicy& policy = *FindMemoryPolicy("hmms").value();
  const Result<MemoryPlan> fast =
      PlanMemory(graph, {.budget = *IdealBytes(graph)}, policy);
  ASSERT_TRUE(fast) << fast.error().message;
  EXPECT_EQ(fast->choice, "p");
  const Result<MemoryPlan> small =
      PlanMemory(graph, {.budget = fast->load - Bytes(1)}, policy);
  ASSERT_TRUE(small) << small.error().message;
  EXPECT_EQ(small->choice, "m");
}

}  // namespace
}  // namespace ucudnn
