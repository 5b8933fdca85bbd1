#include "coordinator/planning/step_planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/planning/planner.h"

namespace ucudnn {
namespace step_planner {  // short names that other tests have, too
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

constexpr std::chrono::milliseconds kLimit{10'000};
constexpr const char* kFast = "F/2u/1GiB/torch-2.13";
constexpr const char* kSlow = "S/1u/1GiB/torch-2.13";

StepRecord TwoKinds() {
  StepRecord step;
  step.name = "resnet";
  step.revision = 3;
  step.hash = "h";
  step.put_by = "job j";
  step.content = R"({"kinds": [
    {"device_kind": "F/2u/1GiB/torch-2.13", "least": 1,
     "steps": [{"batch": 4, "time_us": 40, "peak_bytes": 400000000},
               {"batch": 12, "time_us": 120, "peak_bytes": 1200000000}]},
    {"device_kind": "S/1u/1GiB/torch-2.13",
     "steps": [{"batch": 2, "time_us": 40}, {"batch": 16, "time_us": 320}]}]})";
  return step;
}

JobRequest Wanted(std::int64_t batch, std::vector<std::string> kinds) {
  JobRequest request;
  request.step = "resnet";
  request.batch = BatchSize(batch);
  request.device_kinds = std::move(kinds);
  return request;
}

TEST(StepPlannerTest, SharesByTheTimesOfSteps) {
  const JobRequest request = Wanted(12, {kFast, kSlow});
  const auto plan = MakeStepPlan(TwoKinds(), request, kLimit);
  ASSERT_TRUE(plan) << plan.error().message;
  ASSERT_TRUE(Validate(*plan));
  EXPECT_EQ(plan->ranks[0].batch, BatchSize(8));
  EXPECT_EQ(plan->ranks[1].batch, BatchSize(4));
  EXPECT_DOUBLE_EQ(plan->ranks[0].weight, 8.0 / 12);
  EXPECT_EQ(plan->predicted, Nanoseconds(80'000));
  EXPECT_TRUE(plan->optimal);
  EXPECT_EQ(plan->ranks[0].memory->peak, Bytes(800'000'000));
  EXPECT_EQ(plan->ranks[0].memory->budget, 1_GiB);
  EXPECT_FALSE(plan->ranks[1].memory);
  EXPECT_THAT(plan->ranks[0].reason, HasSubstr("between two that were"));
  EXPECT_THAT(plan->reasons,
              Contains("times are of whole steps: revision 3 of step 'resnet', "
                       "put by job j"));
  EXPECT_THAT(plan->reasons,
              Contains(HasSubstr("measured at batches 4, 12; on the line")));
  EXPECT_THAT(plan->reasons, Contains(HasSubstr("memory not considered")));
  EXPECT_THAT(plan->reasons, Contains("even shares take 120 us"));
}

TEST(StepPlannerTest, MemoryBoundsShares) {
  // Its kind's memory holds 10 images.
  auto plan = MakeStepPlan(TwoKinds(), Wanted(12, {kFast}), kLimit);
  EXPECT_THAT(plan.error().message, HasSubstr("at most 10 is accepted"));
  JobRequest request = Wanted(12, {kFast, kSlow});
  request.memory.emplace().budgets = {Bytes(500'000'000), Bytes(0)};
  plan = MakeStepPlan(TwoKinds(), request, kLimit);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->ranks[0].batch, BatchSize(5));
  EXPECT_EQ(plan->ranks[0].memory->budget, Bytes(500'000'000));
  EXPECT_THAT(plan->ranks[0].reason, HasSubstr("all that fit into"));
  request.memory->budgets = {3_GiB};
  plan = MakeStepPlan(TwoKinds(), request, kLimit);
  EXPECT_THAT(plan.error().message, HasSubstr("up to 2GiB, which devices of"));
}

TEST(StepPlannerTest, LeavesOutExcludedRanks) {
  JobRequest request = Wanted(12, {kFast, kSlow, kFast});
  request.all_ranks = true;
  request.exclude_ranks = {1};
  const auto plan = MakeStepPlan(TwoKinds(), request, kLimit);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->ranks[1].batch, BatchSize(0));
  EXPECT_EQ(plan->ranks[1].reason, "excluded by the request");
  EXPECT_EQ(plan->ranks[0].batch, BatchSize(6));
  EXPECT_EQ(plan->ranks[2].batch, BatchSize(6));
}

TEST(StepPlannerTest, TakesKindsOfTheStepOnly) {
  EXPECT_THAT(WithStepKinds(TwoKinds(), Wanted(4, {})).error().message,
              HasSubstr("name device_kinds, out of F/2u"));
  EXPECT_THAT(
      WithStepKinds(TwoKinds(), Wanted(4, {kFast, "X"})).error().message,
      HasSubstr("device_kinds[1] is 'X', of which step 'resnet'"));
}

TEST(StepPlannerTest, RefusesWhatConcernsConvolutions) {
  EXPECT_TRUE(Canonical(Wanted(4, {})));
  const auto error_of = [](auto change) {
    JobRequest request = Wanted(4, {});
    change(&request);
    const auto canonical = Canonical(request);
    return canonical ? "none" : canonical.error().message;
  };
  EXPECT_THAT(error_of([](JobRequest* r) { r->network = "n"; }),
              HasSubstr("network is given with step 'resnet'"));
  EXPECT_THAT(error_of([](JobRequest* r) { r->workspace_limit = 1_MiB; }),
              HasSubstr("workspace_limit_bytes is given"));
  EXPECT_THAT(error_of([](JobRequest* r) { r->layout = Layout::kNhwc; }),
              HasSubstr("layout is given"));
  EXPECT_THAT(error_of([](JobRequest* r) { r->memory.emplace().momentum = 1; }),
              HasSubstr("memory.momentum is given"));
  EXPECT_THAT(error_of([](JobRequest* r) {
                r->step.clear();
                r->network = "n";
                r->all_ranks = true;
              }),
              HasSubstr("it is accepted with step"));
}

TEST(StepPlannerTest, SaysWhichSharesTakeSeveralPasses) {
  StepRecord step = TwoKinds();
  step.content = R"({"kinds": [{"device_kind": "K", "fingerprint": "f",
      "passes": 3, "steps": [{"batch": 2, "time_us": 10}]}]})";
  const auto plan = MakeStepPlan(step, Wanted(4, {"K"}), kLimit);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->predicted, Nanoseconds(20'000));
  EXPECT_EQ(plan->ranks[0].reason,
            "the slowest rank, which the others wait for; in 2 equal passes, "
            "as no more fit");
}

TEST(StepPlannerTest, DependsOnAllThatMakesIt) {
  const JobRequest request = Wanted(4, {kFast});
  StepRecord other = TwoKinds();
  other.hash = "other";
  EXPECT_NE(StepInputsText(other, request),
            StepInputsText(TwoKinds(), request));
  JobRequest all = request;
  all.all_ranks = true;
  EXPECT_NE(StepInputsText(TwoKinds(), all),
            StepInputsText(TwoKinds(), request));
}

}  // namespace
}  // namespace step_planner
}  // namespace ucudnn
