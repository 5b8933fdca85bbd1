// What people do: deletions, and the record of who did what.

#include "tests/contract/store_contract.h"

namespace ucudnn {
namespace {

using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::IsEmpty;

ActionRecord TestAction(const std::string& object) {
  return {.id = 0,
          .made_ms = 100,
          .who = "alice@host",
          .what = "delete",
          .object = object,
          .reason = "no longer needed",
          .outcome = "done"};
}

TEST_P(StoreContract, ListsActionsNewestFirst) {
  for (const char* object : {"plan 1", "plan 2", "plan 3"}) {
    ASSERT_TRUE(store().actions.AddAction(TestAction(object)));
  }
  const auto newest = store().actions.ListActions(2, 0).value();
  ASSERT_THAT(newest, ElementsAre(Field(&ActionRecord::object, "plan 3"),
                                  Field(&ActionRecord::object, "plan 2")));
  ActionRecord expected = TestAction("plan 3");
  expected.id = newest[0].id;
  EXPECT_EQ(newest[0], expected);
  EXPECT_THAT(store().actions.ListActions(9, newest[1].id).value(),
              ElementsAre(Field(&ActionRecord::object, "plan 1")));
}

TEST_P(StoreContract, CountsOnTheRevisionsOfADeletedNetwork) {
  ASSERT_TRUE(store().plans.PutNetwork(TestNetwork("net", "a")));
  ASSERT_TRUE(store().plans.PutNetwork(TestNetwork("net", "b")));
  ASSERT_TRUE(store().plans.DeleteNetwork("net", TestAction("network net")));
  EXPECT_EQ(store().plans.GetNetwork("net").error().code, Code::kNotFound);
  EXPECT_EQ(store().plans.GetNetwork("net", 1).error().code, Code::kNotFound);
  EXPECT_THAT(store().plans.ListNetworks(9).value(), IsEmpty());
  EXPECT_EQ(store().plans.CountNetworks().value(), 0);
  EXPECT_EQ(store()
                .plans.DeleteNetwork("net", TestAction("network net"))
                .error()
                .code,
            Code::kNotFound);
  EXPECT_THAT(store().actions.ListActions(9, 0).value(),
              ElementsAre(Field(&ActionRecord::object, "network net")));
  EXPECT_EQ(store().plans.PutNetwork(TestNetwork("net", "b")).value(), 3);
}

TEST_P(StoreContract, DeletesJobsThatEndedAndPlansThatNoJobHas) {
  const std::int64_t plan = store().plans.CreatePlan(TestPlan("a"))->plan.id;
  JobRecord job;
  job.id = "job";
  const std::vector<JobRankRecord> ranks = {
      {.rank = 0, .device = "d", .kind = "k", .host = "h"}};
  ASSERT_TRUE(store().jobs.RegisterJob(job, ranks, plan, 10));
  const std::vector<StepReport> steps = {
      {.rank = 0, .revision = 1, .first_step = 0, .steps = {Nanoseconds(5)}}};
  ASSERT_TRUE(store().jobs.ReportSteps("job", steps, 20));
  EXPECT_EQ(store().jobs.DeleteJob("job", TestAction("job job")).error().code,
            Code::kFailedPrecondition);
  EXPECT_EQ(store().plans.DeletePlan(plan, TestAction("plan")).error().code,
            Code::kFailedPrecondition);
  ASSERT_TRUE(store().jobs.FinishJob("job", 30));
  ASSERT_TRUE(store().jobs.DeleteJob("job", TestAction("job job")));
  EXPECT_EQ(store().jobs.GetJob("job").error().code, Code::kNotFound);
  EXPECT_EQ(store().jobs.DeleteJob("job", TestAction("job job")).error().code,
            Code::kNotFound);
  ASSERT_TRUE(store().plans.DeletePlan(plan, TestAction("plan")));
  EXPECT_EQ(store().plans.GetPlanBody(plan).error().code, Code::kNotFound);
  EXPECT_EQ(store().plans.DeletePlan(plan, TestAction("plan")).error().code,
            Code::kNotFound);
}

}  // namespace
}  // namespace ucudnn
