#include "solver/memory/modnn/modnn.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/training/build.h"
#include "base/training/costs.h"
#include "solver/memory/bounds.h"
#include "solver/memory/policies.h"
#include "tests/support/paper_networks.h"
#include "tests/support/small_networks.h"
#include "tests/support/trials.h"

namespace ucudnn {
namespace {

TrainingGraph OnK40(const Graph& network, Fusion fusion = Fusion::kNone) {
  TrainingOptions options;
  options.fusion = fusion;
  TrainingGraph graph = BuildTrainingGraph(network, options).value();
  EXPECT_TRUE(SetDevice(*DeviceModelPreset("K40"), &graph));
  return graph;
}

MemoryRequest WithBudget(double gigabytes) {
  MemoryRequest request;
  request.budget = Bytes(static_cast<std::int64_t>(gigabytes * 1e9));
  return request;
}

Result<MemoryPlan> Plan(const char* policy, const TrainingGraph& graph,
                        const MemoryRequest& request) {
  return FindMemoryPolicy(policy).value()->plan(graph, request);
}

TEST(ModnnTest, KeepsResNet34WholeAsFarAsThePaperDoes) {
  const TrainingGraph graph = OnK40(test::PaperResNet34(256), Fusion::kPaper);
  const auto sub_batch = [&](double gigabytes) {
    return PlanModnn(graph, WithBudget(gigabytes)).value().sub_batch;
  };
  EXPECT_EQ(sub_batch(12), BatchSize(256));
  EXPECT_EQ(sub_batch(6), BatchSize(256));
  EXPECT_EQ(sub_batch(5), BatchSize(256));
  EXPECT_EQ(sub_batch(4), BatchSize(192));
}

// Any budget from (7) on will do (5.1.1), if gradients that add up over rounds
// are counted in.
TEST(ModnnTest, PlansDownToItsLeastMemory) {
  for (const Graph& network : {test::PaperVgg16(64), test::PaperResNet34(64)}) {
    const TrainingGraph graph = OnK40(network, Fusion::kPaper);
    MemoryRequest request;
    request.budget = LowerBoundBytes(graph, false) + 1_MiB;
    const Result<MemoryPlan> plan = PlanModnn(graph, request);
    ASSERT_TRUE(plan) << plan.error().message;
    EXPECT_EQ(plan->sub_batch, BatchSize(1));
  }
}

TEST(ModnnTest, KeepsTheMiniBatchWhereNoTimeIsLost) {
  const TrainingGraph small = OnK40(test::SmallResidual(100));
  EXPECT_EQ(PlanModnn(small, WithBudget(1)).value().sub_batch, BatchSize(100));
  // 43 images fit by (8), but transfers of all 64 are hidden.
  const TrainingGraph graph = OnK40(test::PaperVgg16(64));
  const MemoryPlan plan = PlanModnn(graph, WithBudget(5)).value();
  EXPECT_EQ(plan.sub_batch, BatchSize(64));
  EXPECT_GT(plan.prefetched, Bytes(0));
  EXPECT_EQ(plan.time, *IdealTime(graph));
}

// Than vdnn-ext it is for ResNet-152 at other budgets; modnn_bench compares all
// of docs/results/memory-modnn-2026-11-22.md, which tells the cause.
TEST(ModnnTest, IsNeverSlowerThanVdnnOnAK40) {
  int compared = 0;
  for (const Graph& network :
       {test::PaperVgg16(64), test::PaperVgg16(128), test::PaperVgg19(128),
        test::PaperResNet34(128), test::PaperResNet34(256),
        test::PaperResNet50(64), test::PaperResNet152(32)}) {
    const TrainingGraph graph = OnK40(network);
    for (const double gigabytes :
         kSlowed ? std::vector{4.0} : std::vector{2.5, 4.0, 6.0, 8.0, 12.0}) {
      const MemoryRequest request = WithBudget(gigabytes);
      const Result<MemoryPlan> ours = Plan("modnn", graph, request);
      ASSERT_TRUE(ours) << ours.error().message;
      for (const char* policy :
           {"vdnn-all", "vdnn-conv", "vdnn-dyn", "vdnn-ext"}) {
        const Result<MemoryPlan> theirs = Plan(policy, graph, request);
        if (!theirs) continue;
        ++compared;
        EXPECT_LE(ours->time, theirs->time)
            << policy << ", " << graph.network << " at " << gigabytes << " GB";
      }
    }
  }
  EXPECT_GT(compared, kSlowed ? 10 : 50);
}

TEST(ModnnTest, IsDeterministic) {
  const TrainingGraph graph = OnK40(test::PaperResNet50(64));
  MemoryRequest request = WithBudget(3);
  request.sub_batch = BatchSize(64);
  EXPECT_EQ(PlanModnn(graph, request).value(),
            PlanModnn(graph, request).value());
}

}  // namespace
}  // namespace ucudnn
