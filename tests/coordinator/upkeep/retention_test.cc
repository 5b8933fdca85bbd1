// What a coordinator deletes by itself and on request.

#include "coordinator/upkeep/retention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "coordinator/coordinator.h"
#include "tests/coordinator/tiny_cluster.h"
#include "tests/support/fake_clock.h"
#include "ucudnn/v1/coordinator.pb.h"

namespace ucudnn {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kDayMs = 24 * 3'600'000;
constexpr std::int64_t kStart = 1000 * kDayMs;

TEST(CutoffsTest, AreSoManyDaysAgo) {
  EXPECT_EQ(CutoffsAt({.tasks = 1, .plans = 3}, 10 * kDayMs),
            (Cutoffs{.tasks_ms = 9 * kDayMs, .plans_ms = 7 * kDayMs}));
  EXPECT_EQ(CutoffsAt({.jobs = 11}, 10 * kDayMs), Cutoffs());
}

class RetentionTest : public ::testing::Test {
 protected:
  // A job that ends after a step.
  void EndJob(const std::string& id) {
    v1::RegisterJobRequest job;
    job.set_job_id(id);
    job.add_ranks();
    ASSERT_TRUE(coordinator_.jobs.RegisterJob(job));
    v1::ReportStepsRequest steps;
    steps.set_job_id(id);
    v1::StepBatch& batch = *steps.add_batches();
    batch.set_revision(1);
    batch.add_step_ns(5);
    ASSERT_TRUE(coordinator_.jobs.ReportSteps(steps));
    v1::FinishJobRequest finish;
    finish.set_job_id(id);
    ASSERT_TRUE(coordinator_.jobs.FinishJob(finish));
  }

  // A plan that no job has; its id.
  std::string MakePlan() {
    UCUDNN_CHECK(coordinator_.networks.PutNetwork(test::PutTiny()).has_value());
    const std::vector<std::int64_t> batches = {4};
    UCUDNN_CHECK(coordinator_.measuring
                     .PutProfile(test::Measured(test::kKind, 10, batches))
                     .has_value());
    v1::PlanRequest request;
    request.set_network("tiny");
    request.set_batch(4);
    request.set_batch_policy("undivided");
    request.add_device_kinds(test::kKind);
    return std::to_string(coordinator_.plans.CreatePlan(request)->id());
  }

  int Jobs() { return coordinator_.jobs.ListJobs({})->jobs_size(); }

  void Keep(const KeepDays& keep) {
    CoordinatorOptions options;
    options.keep = keep;
    coordinator_.context.Reconfigure(options);
  }

  void Pass(std::chrono::seconds time) {
    clock_.Advance(time);
    // A pass takes a piece of each sort, at least.
    for (int piece = 0; piece < 8; ++piece) {
      ASSERT_TRUE(coordinator_.upkeep.Maintain());
    }
  }

  static constexpr std::chrono::seconds kDay{24 * 3600};
  FakeClock clock_{kStart};
  const std::unique_ptr<Store> store_ = OpenStore("sqlite::memory:").value();
  Coordinator coordinator_{CoordinatorOptions(), *store_, clock_};
};

TEST_F(RetentionTest, KeepsJobsByDefault) {
  EndJob("old");
  Pass(10'000 * kDay);
  EXPECT_EQ(Jobs(), 1);
}

TEST_F(RetentionTest, DeletesWithMaintenanceWhatIsOldEnough) {
  Keep({.jobs = 30});
  EndJob("old");
  Pass(20 * kDay);
  EndJob("young");
  EXPECT_EQ(Jobs(), 2);
  Pass(11 * kDay);
  ASSERT_EQ(Jobs(), 1);
  EXPECT_EQ(coordinator_.jobs.ListJobs({})->jobs(0).id(), "young");
}

TEST_F(RetentionTest, KeepsPlansThatAreAskedForLessThan90DaysAgo) {
  const std::string id = MakePlan();
  const auto ask = [&] {
    v1::GetRequest get;
    get.set_id(id);
    const bool found = coordinator_.plans.GetPlanBytes(get).has_value();
    EXPECT_TRUE(coordinator_.upkeep.Maintain());
    return found;
  };
  EXPECT_TRUE(ask());
  Pass(60 * kDay);
  EXPECT_TRUE(ask());
  Pass(60 * kDay);
  EXPECT_EQ(store_->plans.ListPlanIds(9)->size(), 1U);
  Pass(31 * kDay);
  EXPECT_EQ(store_->plans.ListPlanIds(9)->size(), 0U);
  EXPECT_FALSE(ask());
}

TEST_F(RetentionTest, FindsNoPlanThatMaintenanceDeleted) {
  Keep({.plans = 30});
  v1::GetRequest get;
  get.set_id(MakePlan());
  ASSERT_TRUE(coordinator_.plans.GetPlanBytes(get));  // keeps it in memory
  ASSERT_TRUE(coordinator_.upkeep.Maintain());
  Pass(29 * kDay);
  EXPECT_EQ(store_->plans.ListPlanIds(9)->size(), 1U);
  Pass(2 * kDay);
  EXPECT_EQ(coordinator_.plans.GetPlanBytes(get).error().code, Code::kNotFound);
}

TEST_F(RetentionTest, DeletesOnRequestAndRecordsWho) {
  EndJob("old");
  clock_.Advance(40 * kDay);
  EndJob("young");
  v1::PruneRequest request;
  request.set_keep_plans_days(0);
  EXPECT_THAT(coordinator_.upkeep.Prune(request).error().message,
              HasSubstr("everything is kept forever"));
  request.set_keep_jobs_days(30);
  request.set_who("alice@host");
  request.set_reason("disk full");
  request.set_dry_run(true);
  EXPECT_EQ(coordinator_.upkeep.Prune(request)->jobs(), 1);
  EXPECT_EQ(coordinator_.upkeep.Prune(request)->steps(), 1);
  EXPECT_EQ(Jobs(), 2);
  EXPECT_EQ(coordinator_.upkeep.ListActions({})->actions_size(), 0);
  request.set_dry_run(false);
  const auto pruned = coordinator_.upkeep.Prune(request);
  ASSERT_TRUE(pruned) << pruned.error().message;
  EXPECT_EQ(pruned->jobs(), 1);
  EXPECT_EQ(pruned->steps(), 1);
  EXPECT_EQ(Jobs(), 1);
  const v1::Action action = coordinator_.upkeep.ListActions({})->actions(0);
  EXPECT_EQ(action.what(), "prune");
  EXPECT_EQ(action.who(), "alice@host");
  EXPECT_EQ(action.outcome(), "0 tasks, 1 rows of steps, 0 plans, 1 jobs");
  EXPECT_EQ(coordinator_.upkeep.Prune(request)->jobs(), 0);
}

TEST_F(RetentionTest, TakesTheSettingsThatTheRequestDoesNotName) {
  Keep({.steps = 1, .jobs = 30});
  EndJob("job");
  clock_.Advance(40 * kDay);
  v1::PruneRequest request;
  request.set_dry_run(true);
  EXPECT_EQ(coordinator_.upkeep.Prune(request)->jobs(), 1);
  request.set_keep_jobs_days(0);
  EXPECT_EQ(coordinator_.upkeep.Prune(request)->jobs(), 0);
  EXPECT_EQ(coordinator_.upkeep.Prune(request)->steps(), 1);
  request.set_keep_jobs_days(-1);
  EXPECT_EQ(coordinator_.upkeep.Prune(request).error().code,
            Code::kInvalidArgument);
}

}  // namespace
}  // namespace ucudnn
