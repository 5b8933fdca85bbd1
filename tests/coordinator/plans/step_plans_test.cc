// Plans of steps, as the coordinator makes and keeps them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>

#include "coordinator/coordinator.h"
#include "tests/support/fake_clock.h"
#include "ucudnn/v1/coordinator.pb.h"

namespace ucudnn {
namespace step_plans {  // short names that other tests have, too
namespace {

using ::testing::HasSubstr;

class StepPlansTest : public ::testing::Test {
 protected:
  // Of kind K: a step takes so many microseconds an image.
  static v1::PutStepRequest Content(int us) {
    v1::PutStepRequest put;
    put.set_name("resnet");
    put.set_content(fmt::format(
        R"({{"kinds": [{{"device_kind": "K", "steps": [
            {{"batch": 1, "time_us": {}}}, {{"batch": 9, "time_us": {}}}]}}]}})",
        us, 9 * us));
    return put;
  }

  void Put(int us) { ASSERT_TRUE(coordinator_.steps.PutStep(Content(us))); }

  static v1::PlanRequest Wanted() {
    v1::PlanRequest request;
    request.set_step("resnet");
    request.set_batch(8);
    request.add_device_kinds("K");
    request.add_device_kinds("K");
    return request;
  }

  std::int64_t Register(std::int64_t plan) {
    v1::RegisterJobRequest job;
    job.set_job_id("job");
    *job.mutable_request() = Wanted();
    job.set_plan_id(plan);
    job.set_auto_replan(true);
    for (int r = 0; r < 2; ++r) job.add_ranks()->set_rank(r);
    EXPECT_TRUE(coordinator_.jobs.RegisterJob(job));
    return plan;
  }

  FakeClock clock_{1'000'000};
  const std::unique_ptr<Store> store_ = OpenStore("sqlite::memory:").value();
  Coordinator coordinator_{CoordinatorOptions(), *store_, clock_};
};

TEST_F(StepPlansTest, ChangeWithTheContentAlone) {
  Put(10);
  const auto plan = coordinator_.plans.CreatePlan(Wanted());
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->predicted_ns(), 40'000);
  EXPECT_EQ(plan->network_revision(), 1);
  Put(10);
  EXPECT_EQ(coordinator_.plans.CreatePlan(Wanted())->id(), plan->id());
  Put(20);
  const auto slower = coordinator_.plans.CreatePlan(Wanted());
  EXPECT_EQ(slower->predicted_ns(), 80'000);
  EXPECT_EQ(slower->network_revision(), 2);
  Put(10);
  EXPECT_EQ(coordinator_.plans.CreatePlan(Wanted())->id(), plan->id());
}

// Jobs plan with what they put themselves, which others may replace at once.
TEST_F(StepPlansTest, ArePutWithAnAnswerOfWhatWasPut) {
  const auto put_many = [&](int from) {
    int others = 0;
    for (int us = from; us < from + 2000; ++us) {
      const auto put = coordinator_.steps.PutStep(Content(us));
      if (!put || put->kinds(0).steps(0).time_ns() != us * 1000) ++others;
    }
    return others;
  };
  auto beside = std::async(std::launch::async, put_many, 10000);
  EXPECT_EQ(put_many(1), 0);
  EXPECT_EQ(beside.get(), 0);
}

TEST_F(StepPlansTest, NeedNoMeasurement) {
  Put(10);
  v1::MeasureRequest measure;
  *measure.mutable_plan() = Wanted();
  const auto progress = coordinator_.jobs.Measure(measure);
  ASSERT_TRUE(progress) << progress.error().message;
  EXPECT_EQ(progress->total(), 0);
}

TEST_F(StepPlansTest, AreReplannedWithTheNewestContent) {
  Put(10);
  Register(coordinator_.plans.CreatePlan(Wanted())->id());
  Put(20);
  v1::ReplanJobRequest replan;
  replan.set_job_id("job");
  const auto revision = coordinator_.jobs.ReplanJob(replan);
  ASSERT_TRUE(revision) << revision.error().message;
  EXPECT_EQ(revision->predicted_ns(), 80'000);
  replan.add_exclude_ranks(1);
  EXPECT_EQ(coordinator_.jobs.ReplanJob(replan)->predicted_ns(), 160'000);
}

// Ranks may report less than the whole steps that were put, such as their
// passes without the optimizer's.
TEST_F(StepPlansTest, BoundNoStepsOfTheirJobs) {
  Put(10);
  Register(coordinator_.plans.CreatePlan(Wanted())->id());
  v1::ReportStepsRequest report;
  report.set_job_id("job");
  v1::StepBatch& batch = *report.add_batches();
  batch.set_revision(1);
  for (int step = 0; step < 40; ++step) batch.add_step_ns(30'000);
  ASSERT_TRUE(coordinator_.jobs.ReportSteps(report));
  v1::GetRequest get;
  get.set_id("job");
  const auto job = coordinator_.jobs.GetJob(get);
  ASSERT_TRUE(job);
  EXPECT_EQ(job->ranks(0).steps(0).predicted_ns(), 40'000);
  EXPECT_THAT(job->drift(), ::testing::IsEmpty());
}

TEST_F(StepPlansTest, KeepTheStepWhileAJobRuns) {
  Put(10);
  Register(coordinator_.plans.CreatePlan(Wanted())->id());
  v1::DeleteRequest request;
  request.set_id("resnet");
  const auto refused = coordinator_.upkeep.DeleteStep(request);
  EXPECT_EQ(refused.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(refused.error().message,
              HasSubstr("job 'job' runs step 'resnet'"));
  v1::FinishJobRequest finish;
  finish.set_job_id("job");
  ASSERT_TRUE(coordinator_.jobs.FinishJob(finish));
  EXPECT_TRUE(coordinator_.upkeep.DeleteStep(request));
  EXPECT_EQ(coordinator_.plans.CreatePlan(Wanted()).error().code,
            Code::kNotFound);
}

}  // namespace
}  // namespace step_plans
}  // namespace ucudnn
