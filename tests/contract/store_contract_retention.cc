// What is deleted of what ended long ago.

#include "tests/contract/store_contract.h"

namespace ucudnn {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

JobRecord JobNamed(const std::string& id) {
  JobRecord job;
  job.id = id;
  job.request = "{}";
  return job;
}

// A job of two ranks that took a step each and was last heard of then.
void AddJob(Store& store, const std::string& id,
            std::optional<std::int64_t> plan, UnixMillis seen_ms, bool ended) {
  std::vector<JobRankRecord> ranks(2);
  ranks[1].rank = 1;
  ASSERT_TRUE(store.jobs.RegisterJob(JobNamed(id), ranks, plan, seen_ms));
  for (const std::int64_t rank : {0, 1}) {
    const std::vector<StepReport> steps = {{.rank = rank,
                                            .revision = 1,
                                            .first_step = 0,
                                            .steps = {Nanoseconds(5)}}};
    ASSERT_TRUE(store.jobs.ReportSteps(id, steps, seen_ms));
  }
  if (!ended) return;
  ASSERT_TRUE(store.jobs.FinishJob(id, seen_ms));
}

std::vector<std::string> JobIds(Store& store) {
  std::vector<std::string> ids;
  const auto jobs = store.jobs.ListJobs(100, "").value();
  for (const JobRecord& job : jobs) ids.push_back(job.id);
  return ids;
}

std::vector<std::string> TaskProblems(Store& store) {
  return Problems(store.tasks.ListTasks({}).value());
}

void Complete(Store& store, const TaskRecord& task, const std::string& driver,
              UnixMillis now_ms) {
  TaskCompletion completion = Completion(task, {});
  completion.origin.driver = driver;
  completion.now_ms = now_ms;
  ASSERT_TRUE(store.tasks.CompleteTask(completion));
}

void Cancel(Store& store, std::int64_t task, UnixMillis now_ms) {
  ASSERT_TRUE(store.tasks.CancelTasks(std::span(&task, 1), "", now_ms));
}

TEST_P(StoreContract, DeletesEndedJobsInPieces) {
  AddJob(store(), "a", std::nullopt, 100, /*ended=*/true);
  AddJob(store(), "b", std::nullopt, 100, /*ended=*/true);
  AddJob(store(), "c", std::nullopt, 100, /*ended=*/false);
  AddJob(store(), "d", std::nullopt, 200, /*ended=*/true);
  EXPECT_EQ(store().retention.PruneJobs(0, 10), 0);
  EXPECT_EQ(store().retention.CountPrunable({.jobs_ms = 150})->jobs, 2);
  EXPECT_EQ(store().retention.CountPrunable({.jobs_ms = 150})->steps, 4);
  EXPECT_EQ(store().retention.PruneJobs(150, 1), 1);
  EXPECT_EQ(store().retention.PruneJobs(150, 1), 1);
  EXPECT_EQ(store().retention.PruneJobs(150, 1), 0);
  EXPECT_THAT(JobIds(store()), ElementsAre("d", "c"));
  EXPECT_EQ(store().jobs.GetJob("a").error().code, Code::kNotFound);
  // Lost jobs ended too.
  ASSERT_TRUE(store().jobs.ExpireJobs(store().jobs.ListJobPulses().value()));
  EXPECT_EQ(store().retention.PruneJobs(150, 10), 1);
  EXPECT_THAT(JobIds(store()), ElementsAre("d"));
}

TEST_P(StoreContract, DeletesStepsOfEndedJobsInPieces) {
  AddJob(store(), "a", std::nullopt, 100, /*ended=*/true);
  AddJob(store(), "b", std::nullopt, 100, /*ended=*/false);
  EXPECT_EQ(store().retention.CountPrunable({.steps_ms = 150}),
            (PruneCounts{.steps = 2}));
  EXPECT_EQ(store().retention.PruneSteps(100, 10), 0);
  EXPECT_EQ(store().retention.PruneSteps(150, 1), 1);
  EXPECT_EQ(store().retention.PruneSteps(150, 10), 1);
  EXPECT_THAT(store().jobs.GetJob("a")->steps, IsEmpty());
  EXPECT_THAT(store().jobs.GetJob("a")->ranks, SizeIs(2));
  EXPECT_THAT(store().jobs.GetJob("b")->steps, SizeIs(2));
}

TEST_P(StoreContract, KeepsPlansThatJobsHave) {
  const auto plan = [&](const char* key, UnixMillis created_ms) {
    PlanRecord record = TestPlan(key);
    record.created_ms = created_ms;
    return store().plans.CreatePlan(record)->plan.id;
  };
  const std::int64_t of_job = plan("a", 100);
  const std::int64_t unused = plan("b", 100);
  const std::int64_t proposed = plan("c", 100);
  const std::int64_t young = plan("d", 200);
  AddJob(store(), "j", of_job, 100, /*ended=*/true);
  ASSERT_TRUE(store().jobs.RegisterJob(JobNamed("running"), {}, of_job, 300));
  ASSERT_TRUE(
      store()
          .jobs.ProposeJobRevision("running", std::nullopt, proposed, "", 300)
          .value());
  EXPECT_EQ(store().retention.CountPrunable({.plans_ms = 150}),
            (PruneCounts{.plans = 1}));
  // The running job still has the first plan when the other job is gone.
  EXPECT_EQ(
      store().retention.CountPrunable({.plans_ms = 150, .jobs_ms = 150})->plans,
      1);
  EXPECT_EQ(store().retention.PrunePlans(150, 10), 1);
  EXPECT_EQ(store().plans.GetPlanBody(unused).error().code, Code::kNotFound);
  for (const std::int64_t kept : {of_job, proposed, young}) {
    EXPECT_TRUE(store().plans.GetPlanBody(kept)) << kept;
  }
  ASSERT_TRUE(store().jobs.FinishJob("running", 300));
  EXPECT_EQ(
      store().retention.CountPrunable({.plans_ms = 150, .jobs_ms = 400})->plans,
      2);
  EXPECT_EQ(store().retention.PruneJobs(400, 10), 2);
  EXPECT_EQ(store().retention.PrunePlans(150, 1), 1);
  EXPECT_EQ(store().retention.PrunePlans(150, 10), 1);
  EXPECT_TRUE(store().plans.GetPlanBody(young));
}

TEST_P(StoreContract, KeepsTasksThatTellWhatIsMeasured) {
  const std::vector<DeviceRecord> devices = {TestDevice("GPU-a")};
  ASSERT_TRUE(store().agents.RegisterAgent(TestAgent("a"), devices, 1));
  Enqueue(store(), {TestTask(1), TestTask(2), TestTask(3), TestTask(4)});
  const auto leased = Lease(store(), 4, 10);
  ASSERT_THAT(leased, SizeIs(4));
  Cancel(store(), leased[0].id, 100);
  Cancel(store(), leased[1].id, 300);
  Complete(store(), leased[2], "CUDA 12.0", 100);
  EXPECT_EQ(store().retention.CountPrunable({.tasks_ms = 200})->tasks, 2);
  // A piece looks at so many tasks.
  const PrunedTasks first = store().retention.PruneTasks(200, 0, 2).value();
  EXPECT_EQ(first.deleted, 1);
  EXPECT_EQ(first.last_id, leased[1].id);
  const PrunedTasks second =
      store().retention.PruneTasks(200, first.last_id, 10).value();
  EXPECT_EQ(second.deleted, 1);
  EXPECT_EQ(store().retention.PruneTasks(200, second.last_id, 10)->last_id, 0);
  EXPECT_THAT(TaskProblems(store()), ElementsAre("forward-c2", "forward-c4"));
  // Done under the driver of a device that is online.
  Complete(store(), leased[3], "CUDA 13.0", 100);
  EXPECT_EQ(store().retention.PruneTasks(200, 0, 10)->deleted, 0);
  // While no device is online, nobody knows which drivers are outdated.
  Enqueue(store(), {TestTask(5)});
  Complete(store(), Lease(store(), 1, 20).at(0), "CUDA 12.0", 100);
  ASSERT_TRUE(store().agents.SetAgentState("a", AgentState::kGone, ""));
  EXPECT_EQ(store().retention.PruneTasks(200, 0, 10)->deleted, 0);
  EXPECT_EQ(store().retention.CountPrunable({.tasks_ms = 400})->tasks, 1);
}

TEST_P(StoreContract, HasOneDoneTaskHoweverOftenItIsMeasuredAgain) {
  const std::vector<TaskKey> key = {TestTask(1).key};
  for (int year = 0; year < 5; ++year) {
    DeviceRecord device = TestDevice("GPU-a");
    device.driver = fmt::format("CUDA {}.0", 13 + year);
    ASSERT_TRUE(store().agents.RegisterAgent(TestAgent("a"),
                                             std::span(&device, 1), 1 + year));
    // Asked for again, once for more workspace and once under a new driver.
    NewTask larger = TestTask(1);
    larger.max_workspace = Bytes(larger.max_workspace.count() << year);
    Enqueue(store(), {larger});
    const std::vector<std::string> drivers = {device.driver};
    ASSERT_TRUE(store().tasks.ReopenStaleTasks(key[0].kind, key, drivers, {}));
    const auto leased = Lease(store(), 1, 10 + 10 * year);
    ASSERT_THAT(leased, SizeIs(1)) << year;
    Complete(store(), leased[0], device.driver, 100 + year);
    // However old it is: it tells that this is measured.
    EXPECT_EQ(store().retention.CountPrunable({.tasks_ms = 1'000'000})->tasks,
              0);
    EXPECT_EQ(store().retention.PruneTasks(1'000'000, 0, 10)->deleted, 0);
    EXPECT_THAT(store().tasks.ListTasks({}).value(), SizeIs(1));
    EXPECT_THAT(
        store().measurements.ListCompleteBatches(key[0].kind, "").value(),
        SizeIs(1));
  }
}

}  // namespace
}  // namespace ucudnn
