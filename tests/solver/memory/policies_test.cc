#include "solver/memory/policies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

#include "base/training/json.h"
#include "solver/check/memory_plan.h"
#include "solver/memory/bounds.h"
#include "tests/solver/memory/plan_mutations.h"
#include "tests/solver/memory/small_graphs.h"
#include "tests/support/trials.h"

namespace ucudnn {
namespace {

using test::OnSmallDevice;
using test::PeakOf;
using test::SomeSmallGraphs;

// As JSON, plan and graph are all that a check needs.
void ExpectToReadBack(const MemoryPlan& plan, const TrainingGraph& graph) {
  const auto read_graph =
      TrainingGraphOf(ToJson(graph, BatchesOf(plan, graph.batch)), "graph");
  ASSERT_TRUE(read_graph) << read_graph.error().message;
  const auto read = MemoryPlanOf(ToJson(plan, graph), *read_graph, "plan");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, plan);
  const Status valid = ValidateMemoryPlan(*read, *read_graph);
  EXPECT_TRUE(valid) << valid.error().message;
}

TEST(MemoryPoliciesTest, MakePlansThatAnIndependentCheckAccepts) {
  const std::vector<int> budgets =
      kSlowed ? std::vector{5} : std::vector{3, 5, 6, 8, 16};
  int plans = 0;
  for (const TrainingGraph& graph : SomeSmallGraphs(16)) {
    const Bytes peak = PeakOf(graph);
    for (const MemoryPolicy& policy : MemoryPolicies()) {
      for (const int eighths : budgets) {
        for (const auto allocator :
             {MemoryAllocator::kPolicy, MemoryAllocator::kStatic}) {
          for (const int sub_batch : {16, 5}) {
            MemoryRequest request;
            request.budget = peak * eighths / 8;
            request.allocator = allocator;
            request.sub_batch = BatchSize(sub_batch);
            Result<MemoryPlan> plan = policy.plan(graph, request);
            if (!plan) {
              EXPECT_EQ(plan.error().code, Code::kFailedPrecondition);
              continue;
            }
            ++plans;
            plan->policy = policy.name;
            SetBounds(graph, request, &*plan);
            const Status valid = ValidateMemoryPlan(*plan, graph);
            EXPECT_TRUE(valid) << policy.name << " of " << graph.network << ": "
                               << valid.error().message;
            EXPECT_LE(plan->peak, request.budget);
            EXPECT_GE(plan->time, plan->lower_bound);
            ExpectToReadBack(*plan, graph);
          }
        }
      }
    }
  }
  EXPECT_GT(plans, (kSlowed ? 30 : 100) * std::ssize(budgets));
}

TEST(MemoryPoliciesTest, RemovedWaitsAreCaughtWhereTheyMakeARace) {
  std::mt19937 random(7);
  int accepted = 0;
  int rejected = 0;
  int collided = 0;
  for (const TrainingGraph& graph : SomeSmallGraphs(16)) {
    const Bytes peak = PeakOf(graph);
    for (const char* name : {"vdnn-all-m", "vdnn-ext-all-m", "vdnn-ext-conv-p",
                             "vdnn-ext", "best", "hmms", "modnn"}) {
      for (const auto allocator :
           {MemoryAllocator::kPolicy, MemoryAllocator::kStatic}) {
        MemoryRequest request;
        request.budget = peak * 3 / 4;
        request.allocator = allocator;
        const Result<MemoryPlan> plan =
            FindMemoryPolicy(name).value()->plan(graph, request);
        if (!plan) continue;
        for (int trial = 0; trial < (kSlowed ? 5 : 25); ++trial) {
          const MemoryPlan mutant =
              test::WithoutSomeWaits(*plan, graph, random);
          const Status valid = ValidateMemoryPlan(mutant, graph);
          std::optional<std::string> hazard;
          for (int run = 0; run < 20 && !hazard; ++run) {
            hazard = test::Hazard(mutant, graph, random);
          }
          if (valid) {
            ++accepted;
            EXPECT_FALSE(hazard) << name << ": accepted, yet " << *hazard;
          } else {
            ++rejected;
            collided += hazard ? 1 : 0;
            EXPECT_THAT(
                valid.error().message,
                ::testing::ContainsRegex("^R(9|13|14|15|16|17|18|20) "));
          }
        }
      }
    }
  }
  // Neither is a matter of luck.
  EXPECT_GT(accepted, kSlowed ? 10 : 50);
  EXPECT_GT(rejected, kSlowed ? 10 : 50);
  EXPECT_GT(collided, rejected / 3);
}

TEST(MemoryPoliciesTest, NameTheSmallestBudgetThatWouldDo) {
  const TrainingGraph graph = OnSmallDevice(test::SmallChain(64));
  for (const std::string_view name : {"vdnn-all-m", "hmms"}) {
    SCOPED_TRACE(name);
    const MemoryPolicy& policy = *FindMemoryPolicy(name).value();
    const MemoryRequest request{.budget = 1_MiB};
    const Result<MemoryPlan> plan = PlanMemory(graph, request, policy);
    ASSERT_FALSE(plan);
    EXPECT_EQ(plan.error().code, Code::kFailedPrecondition);
    const std::optional<Bytes> enough = SmallestBudget(graph, request, policy);
    ASSERT_TRUE(enough);
    EXPECT_THAT(plan.error().message,
                ::testing::HasSubstr(std::to_string(enough->count())));
    EXPECT_TRUE(PlanMemory(graph, {.budget = *enough}, policy));
    EXPECT_FALSE(PlanMemory(graph, {.budget = *enough - 1_MiB}, policy));
  }
}

TEST(MemoryPoliciesTest, DynamicTakesTheFirstPassThatFits) {
  const TrainingGraph graph = OnSmallDevice(test::SmallChain(64));
  const MemoryPolicy& policy = *FindMemoryPolicy("vdnn-dyn").value();
  const auto choice = [&](Bytes budget) {
    const Result<MemoryPlan> plan =
        PlanMemory(graph, {.budget = budget}, policy);
    return plan ? plan->choice : "no plan";
  };
  EXPECT_EQ(choice(1_GiB), "none(p)");
  // With less and less memory later passes are taken, down to the last one.
  std::vector<std::string> choices;
  const Bytes peak = PeakOf(graph);
  for (int percent = 100; percent >= 10; --percent) {
    const std::string taken = choice(peak * percent / 100);
    if (choices.empty() || choices.back() != taken) choices.push_back(taken);
  }
  EXPECT_THAT(choices, ::testing::IsSupersetOf({"none(p)", "no plan"}));
  EXPECT_THAT(choices, ::testing::Contains(::testing::HasSubstr("all(")));
}

TEST(MemoryPoliciesTest, UnknownNamesAreRefused) {
  const auto policy = FindMemoryPolicy("magic");
  ASSERT_FALSE(policy);
  EXPECT_THAT(policy.error().message, ::testing::HasSubstr("vdnn-all"));
}

}  // namespace
}  // namespace ucudnn
