#include "solver/memory/modnn/host_updates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/training/build.h"
#include "base/training/costs.h"
#include "solver/check/memory_plan.h"
#include "solver/memory/bounds.h"
#include "solver/memory/modnn/modnn.h"
#include "solver/memory/policies.h"
#include "tests/support/paper_networks.h"
#include "tests/support/small_networks.h"

namespace ucudnn {
namespace {

TrainingGraph OnHostOfK40(const Graph& network) {
  TrainingGraph graph = BuildTrainingGraph(network, {}).value();
  EXPECT_TRUE(SetDevice(*DeviceModelPreset("K40"), &graph));
  return graph;
}

TEST(HostUpdatesTest, APartHasItsShareOfImagesAndOfTheLink) {
  const TrainingGraph graph = OnHostOfK40(test::SmallChain(32));
  const TrainingGraph part = PartOfOneGpu(graph, 4).value();
  EXPECT_EQ(part.batch, BatchSize(8));
  EXPECT_DOUBLE_EQ(part.device.d2h_rate, graph.device.d2h_rate / 4);
  EXPECT_DOUBLE_EQ(part.device.h2d_rate, graph.device.h2d_rate / 4);
  EXPECT_EQ(PartOfOneGpu(graph, 1).value(), graph);
  for (std::size_t i = 0; i < part.tasks.size(); ++i) {
    if (graph.tasks[i].kind != TaskKind::kUpdate) continue;
    EXPECT_EQ(part.tasks[i].kind, TaskKind::kHostUpdate);
    // fc4: 2048 x 64 weights and 64 biases, of four GPUs, at 4 GB/s.
    if (part.tasks[i].name != "fc4.update") continue;
    EXPECT_EQ(part.tasks[i].work.fixed, Nanoseconds(4 * (2048 + 1) * 64));
  }
}

TEST(HostUpdatesTest, RefusesAMiniBatchThatCannotBeDivided) {
  const auto part = PartOfOneGpu(OnHostOfK40(test::SmallChain(30)), 4);
  ASSERT_FALSE(part);
  EXPECT_EQ(part.error().code, Code::kInvalidArgument);
  EXPECT_THAT(part.error().message, ::testing::HasSubstr("30"));
}

TEST(HostUpdatesTest, OtherPoliciesRefuseSeveralGpus) {
  const TrainingGraph part =
      PartOfOneGpu(OnHostOfK40(test::SmallChain(32)), 2).value();
  MemoryRequest request{.budget = 1_GiB};
  request.gpus = 2;
  const auto plan =
      PlanMemory(part, request, *FindMemoryPolicy("vdnn-all").value());
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, Code::kInvalidArgument);
  EXPECT_THAT(plan.error().message, ::testing::HasSubstr("modnn"));
}

// Figure 8, of every weight in the last round: dW leaves, the host updates, W
// returns.
TEST(HostUpdatesTest, EveryWeightMakesItsWayThroughTheHostOnce) {
  for (const Graph& network : {test::SmallChain(32), test::SmallResidual(32),
                               test::SmallInception(32)}) {
    const TrainingGraph part = PartOfOneGpu(OnHostOfK40(network), 2).value();
    for (const int sub_batch : {16, 5}) {
      for (const std::int64_t mebibytes : {2, 3, 4, 8, 64}) {
        MemoryRequest request;
        request.budget = 1_MiB * mebibytes;
        request.sub_batch = BatchSize(sub_batch);
        request.gpus = 2;
        Result<MemoryPlan> plan = PlanModnn(part, request);
        if (!plan) continue;
        SetBounds(part, request, &*plan);
        const Status valid = ValidateMemoryPlan(*plan, part);
        EXPECT_TRUE(valid) << valid.error().message;
        std::vector<int> left(part.blocks.size());
        std::vector<int> returned(part.blocks.size());
        for (const MemoryEvent& event : plan->rounds.back().events) {
          if (event.op == EventOp::kOffload) ++left[event.block];
          if (event.op == EventOp::kPrefetch) ++returned[event.block];
        }
        for (std::size_t i = 0; i < part.blocks.size(); ++i) {
          const BlockKind kind = part.blocks[i].kind;
          if (kind == BlockKind::kWeightGradient) {
            EXPECT_EQ(left[i], 1) << part.blocks[i].name;
          } else if (kind == BlockKind::kWeight) {
            EXPECT_EQ(returned[i], 1) << part.blocks[i].name;
          }
        }
      }
    }
  }
}

TEST(HostUpdatesTest, BeatTheNaiveExchangeOnFourK40s) {
  const TrainingGraph graph = OnHostOfK40(test::PaperVgg16(256));
  // Three GPUs' gradients and weights, 553 MB each, at 10 GB/s.
  EXPECT_NEAR(Microseconds(NaiveExchangeTime(graph, 4)) / 1e6, 0.332, 0.001);
  EXPECT_EQ(NaiveExchangeTime(graph, 1), Nanoseconds(0));
  MemoryRequest request;
  request.budget = 12_GiB;
  request.gpus = 4;
  const TrainingGraph part = PartOfOneGpu(graph, 4).value();
  const Result<MemoryPlan> plan = PlanModnn(part, request);
  ASSERT_TRUE(plan) << plan.error().message;
  // Nothing but weights moves, so the part stays whole; the naive way's memory
  // is unlimited.
  EXPECT_EQ(plan->sub_batch, BatchSize(64));
  EXPECT_LT(plan->time, *IdealTime(part) + NaiveExchangeTime(graph, 4));
}

}  // namespace
}  // namespace ucudnn
