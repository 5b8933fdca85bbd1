#include "proto/convert_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/plan/plan_json.h"

namespace ucudnn {
namespace {

TEST(ConvertPlanTest, KeepsAWorkspacePlan) {
  ConvGeometry geometry;
  geometry.channels = 8;
  geometry.filters = 4;
  geometry.input = {1, 6, 7};
  geometry.filter = {1, 2, 1};
  WorkspacePlan plan;
  plan.batch = BatchSize(256);
  plan.workspace_limit = 64_MiB;
  plan.total_time = Nanoseconds(300);
  plan.lower_bound = Nanoseconds(299);
  plan.undivided_time = Nanoseconds(400);
  plan.total_workspace = 517_B;
  plan.concurrency = "0";
  KernelPlan kernel;
  kernel.layer = "conv2";
  kernel.op = ConvOp::kBackwardFilter;
  kernel.precision = Precision::kTrueHalf;
  kernel.layout = Layout::kNhwc;
  kernel.problem =
      ConvProblem{kernel.op, geometry, kernel.precision, kernel.layout};
  kernel.time = Nanoseconds(300);
  kernel.workspace = 5_B;
  kernel.offset = 512_B;
  kernel.micro_batches = {{BatchSize(128),
                           2,
                           {"FFT", "FMA", Precision::kPseudoHalf},
                           Nanoseconds(150),
                           5_B}};
  plan.kernels = {kernel};
  EXPECT_EQ(FromProto(ToProto(plan)).value(), plan);
}

TEST(ConvertPlanTest, KeepsWhetherATotalIsDivided) {
  JobRequest request;
  request.batch = BatchSize(1);
  request.total_workspace = 1_MiB;
  for (const bool concurrent : {false, true}) {
    request.concurrent = concurrent;
    EXPECT_EQ(FromProto(ToProto(request)).value(), request);
  }
  request.total_workspace = 0_B;
  const auto refused = FromProto(ToProto(request));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message,
              ::testing::HasSubstr("concurrent is true"));
}

TEST(ConvertPlanTest, TellsOnceWhatRanksShare) {
  JobPlan plan;
  plan.request.batch = BatchSize(6);
  plan.request.device_kinds = {"A", "B", "A"};
  plan.ranks.resize(3);
  for (RankPlan& rank : plan.ranks) rank.batch = BatchSize(2);
  plan.ranks[0].workspace.Own().batch = BatchSize(2);
  plan.ranks[1].workspace = plan.ranks[0].workspace;
  plan.ranks[1].workspace.Own().total_time = Nanoseconds(7);
  plan.ranks[2].workspace = plan.ranks[0].workspace;
  plan.cut_off = true;
  v1::Plan message = ToProto(plan);
  EXPECT_TRUE(message.ranks(1).has_workspace());
  EXPECT_FALSE(message.ranks(2).has_workspace());
  EXPECT_EQ(message.ranks(2).workspace_of_rank(), 0);
  EXPECT_EQ(&WorkspaceOf(message, 2), &message.ranks(0).workspace());
  EXPECT_EQ(WorkspaceOf(message, 1).total_time_ns(), 7);
  const auto back = FromProto(message);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(*back, plan);
  EXPECT_EQ(&*back->ranks[2].workspace, &*back->ranks[0].workspace);
  for (const int of : {2, 3, -1}) {
    message.mutable_ranks(2)->set_workspace_of_rank(of);
    EXPECT_EQ(FromProto(message).error().message,
              fmt::format("ranks[2].workspace_of_rank is {}; a whole number "
                          "from 0 to 1 is accepted",
                          of));
    EXPECT_EQ(&WorkspaceOf(message, 2), &message.ranks(2).workspace());
  }
}

// A plan of three ranks, of which one has no images, with budgets of their own.
JobPlan WithMemoryPlans() {
  JobPlan plan;
  plan.request.batch = BatchSize(6);
  plan.request.device_kinds = {"A", "A", "A"};
  plan.request.memory.emplace().budgets = {6_GiB, 2_GiB, 0_B};
  plan.request.memory->momentum = true;
  plan.ranks.resize(3);
  for (RankPlan& rank : plan.ranks) rank.device_kind = "A";
  for (const std::size_t r : {0U, 1U}) {
    RankPlan& rank = plan.ranks[r];
    rank.batch = BatchSize(3);
    rank.memory =
        RankMemory{.budget = plan.request.memory->BudgetOf(r), .peak = 1_GiB};
    plan.memory_plans.push_back({.device_kind = "A",
                                 .batch = rank.batch,
                                 .budget = rank.memory->budget,
                                 .plan = r == 0 ? "{\"a\":1}" : "{\"a\":2}"});
  }
  return plan;
}

TEST(ConvertPlanTest, KeepsEachRanksBudgetAndMemoryPlan) {
  const JobPlan plan = WithMemoryPlans();
  const auto back = FromProto(ToProto(plan));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(*back, plan);
  EXPECT_EQ(MemoryPlanOf(*back, 0), &back->memory_plans[0]);
  EXPECT_EQ(MemoryPlanOf(*back, 1), &back->memory_plans[1]);
  EXPECT_EQ(MemoryPlanOf(*back, 2), nullptr);
  const auto file = ParseJobPlan(ToJsonText(plan), "plan.json");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(*file, plan);
}

TEST(ConvertPlanTest, ReadsMemoryPlansOfOlderVersions) {
  const auto plan = ParseJobPlan(
      R"({"request":{"network":"n","batch":3,"device_kinds":["A"],
          "memory":{"budget_bytes":4096,"policy":"hmms"}},
          "ranks":[{"device_kind":"A","batch":3,"weight":1,
                    "workspace":{"batch":3,"workspace_limit_bytes":0,
                    "total_time_us":1,"lower_bound_us":1,"optimal":true,
                    "total_workspace_bytes":0,"kernels":[]}}],
          "memory_plans":[{"device_kind":"A","batch":3,"plan":{"a":1}}]})",
      "old.json");
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->request.memory->budgets, std::vector<Bytes>{4096_B});
  ASSERT_NE(MemoryPlanOf(*plan, 0), nullptr);
  EXPECT_EQ(MemoryPlanOf(*plan, 0)->plan, "{\"a\":1}");
}

TEST(ConvertPlanTest, RefusesBudgetsThatAreNotOneForEachRank) {
  const auto why = [](Bytes all, const std::vector<Bytes>& each) {
    v1::PlanRequest message;
    message.set_network("n");
    message.set_batch(4);
    message.add_device_kinds("A");
    message.add_device_kinds("B");
    message.mutable_memory()->set_budget_bytes(all.count());
    for (const Bytes bytes : each) {
      message.mutable_memory()->add_rank_budget_bytes(bytes.count());
    }
    const auto request = FromProto(message);
    return request ? "" : request.error().message;
  };
  EXPECT_EQ(why(1_GiB, {}), "");
  EXPECT_EQ(why(0_B, {1_GiB}), "");
  EXPECT_EQ(why(0_B, {1_GiB, 0_B}), "");
  EXPECT_EQ(why(0_B, {1_GiB, 1_GiB, 1_GiB}),
            "memory.rank_budget_bytes has 3 entries; one, or one for each of 2 "
            "ranks, is accepted");
  EXPECT_EQ(
      why(1_B, {1_GiB, 1_GiB}),
      "memory: budget_bytes is 1 beside rank_budget_bytes; one of them is "
      "accepted");
  EXPECT_THAT(why(0_B, {1_GiB, Bytes(-1)}),
              testing::HasSubstr("memory.rank_budget_bytes[1] is -1"));
  EXPECT_THAT(why(Bytes(-1), {}),
              testing::HasSubstr("memory.budget_bytes is -1"));
}

TEST(ConvertPlanTest, ReadsBudgetsFromAText) {
  EXPECT_EQ(ParseBudgets("6GiB").value(), std::vector<Bytes>{6_GiB});
  EXPECT_EQ(ParseBudgets("6GiB,0").value(), (std::vector<Bytes>{6_GiB, 0_B}));
  for (const char* text : {"", "6GiB,", ",6GiB", "six"}) {
    EXPECT_FALSE(ParseBudgets(text)) << text;
  }
}

TEST(ConvertPlanTest, FillsInTheDefaultsOfARequest) {
  v1::PlanRequest request;
  request.set_batch(4);
  const auto job = FromProto(request);
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(job->policy, BatchPolicy::kPowerOfTwo);
  EXPECT_EQ(job->precision, Precision::kFp32);
  EXPECT_EQ(job->layout, Layout::kNchw);
}

}  // namespace
}  // namespace ucudnn
