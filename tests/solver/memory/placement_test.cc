#include "solver/memory/placement.h"

#include <gtest/gtest.h>

#include "base/training/build.h"
#include "base/training/costs.h"
#include "solver/memory/policies.h"
#include "tests/support/paper_networks.h"

namespace ucudnn {
namespace {

// Of all budgets in steps of 3 % and all policies that place statically,
// greedily placed plans fail here, and the search needs most steps: between
// 30,000 and 100,000.
TEST(PlacementTest, SearchesLongEnoughForResNet50) {
  Result<TrainingGraph> graph = BuildTrainingGraph(test::PaperResNet50(64), {});
  ASSERT_TRUE(graph) << graph.error().message;
  ASSERT_TRUE(SetDevice(*DeviceModelPreset("K40"), &*graph));
  const MemoryPlan whole = PlanMemory(*graph, {.budget = Bytes::Max()},
                                      *FindMemoryPolicy("baseline").value())
                               .value();
  MemoryRequest request;
  request.budget = whole.peak * 29 / 100;
  request.allocator = MemoryAllocator::kStatic;
  const Result<MemoryPlan> plan =
      FindMemoryPolicy("vdnn-ext-all-m").value()->plan(*graph, request);
  EXPECT_TRUE(plan) << plan.error().message;
}

}  // namespace
}  // namespace ucudnn
