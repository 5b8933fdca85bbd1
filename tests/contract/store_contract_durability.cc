// Acknowledged writes survive any crash.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>
#include <thread>
#include <vector>

#include "tests/contract/store_contract.h"

namespace ucudnn {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

TEST_P(StoreContract, KeepsEverythingWhenItIsReopened) {
  if (!database_->shared()) GTEST_SKIP() << "kept in memory alone";
  const std::vector<DeviceRecord> devices = {TestDevice("GPU-1")};
  ASSERT_TRUE(store().agents.RegisterAgent(TestAgent("a"), devices, 1));
  ASSERT_TRUE(store().networks.PutNetwork(TestNetwork("n", "h")));
  const std::vector<NewTask> tasks = {TestTask(1), TestTask(2)};
  ASSERT_TRUE(store().tasks.EnqueueTasks(tasks, {}, 1));
  const auto task = Lease(store(), 1, 0).at(0);
  const MeasuredPoint point = TestPoint(32, "A", 5);
  ASSERT_TRUE(store().tasks.CompleteTask(Completion(task, {point})));
  ASSERT_TRUE(store().plans.CreatePlan(TestPlan("k")));
  JobRecord job;
  job.id = "j";
  const std::vector<JobRankRecord> ranks(1);
  ASSERT_TRUE(store().jobs.RegisterJob(job, ranks, std::nullopt, 1));
  const std::vector<StepReport> steps = {
      {.rank = 0, .revision = 1, .first_step = 0, .steps = {Nanoseconds(5)}}};
  ASSERT_TRUE(store().jobs.ReportSteps("j", steps, 2));

  const std::string epoch = store().Epoch().value();

  store_.reset();
  database_->Crash();
  store_ = Open();
  EXPECT_EQ(store().Epoch().value(), epoch);
  EXPECT_THAT(store().agents.ListAgents().value(), SizeIs(1));
  EXPECT_EQ(store().agents.GetDevice("GPU-1")->agent, "a");
  EXPECT_EQ(store().networks.GetNetwork("n")->hash, "h");
  EXPECT_EQ(store().tasks.GetTask(task.id)->state, TaskState::kDone);
  EXPECT_THAT(store().tasks.ListTasks({}).value(), SizeIs(2));
  const std::vector<std::string> problems = {task.key.problem};
  EXPECT_THAT(store()
                  .measurements.LoadProfile(task.key.kind, problems)
                  ->at(problems[0]),
              ElementsAre(point));
  const auto plan = store().plans.FindPlan("k").value();
  ASSERT_TRUE(plan);
  EXPECT_EQ(store().plans.GetPlanBody(plan->id), TestPlan("k").body);
  EXPECT_EQ(store().jobs.GetJob("j")->steps.at(0).count, 1);
}

TEST_P(StoreContract, ContinuesWhenTheDatabaseComesBack) {
  ASSERT_TRUE(store().plans.CreatePlan(TestPlan("before")));
  database_->Crash();
  EXPECT_TRUE(store().CheckWritable());
  database_->Crash();
  const auto plan = store().plans.CreatePlan(TestPlan("after"));
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_THAT(store().plans.ListPlanIds(10).value(), SizeIs(2));
}

Result<std::vector<TaskRecord>> LeaseOne(Store& store) {
  return store.tasks.LeaseTasks({.kind = ToString(TestKind()),
                                 .agent = "a",
                                 .device = "d",
                                 .max_count = 1,
                                 .now_ms = 0,
                                 .until_ms = 1});
}

// Completes one task after the other, the `i`-th, the `i + step`-th and so on,
// reporting each through `acknowledged`.
[[noreturn]] void WriteFrom(Store& store, int i, int step, int acknowledged) {
  for (;; i += step) {
    const std::vector<NewTask> tasks = {TestTask(i)};
    if (!store.tasks.EnqueueTasks(tasks, {}, 1)) _exit(2);
    auto leased = LeaseOne(store);
    // Another thread may take this task before its own can be seen.
    while (leased && leased->empty()) leased = LeaseOne(store);
    if (!leased) _exit(3);
    const auto task = leased->front();
    if (!store.tasks.CompleteTask(Completion(
            task,
            {TestPoint(32, "A", 1000 + i), TestPoint(32, "B", 2000 + i)}))) {
      _exit(4);
    }
    if (write(acknowledged, &task.id, sizeof task.id) != sizeof task.id) {
      _exit(5);
    }
  }
}

// Does so in several threads, whose reports share transactions.
[[noreturn]] void WriteUntilKilled(const std::string& url, int acknowledged) {
  constexpr int kThreads = 4;
  const auto store = OpenStore(url);
  if (!store) _exit(1);
  std::vector<std::jthread> threads;
  for (int t = 1; t < kThreads; ++t) {
    threads.emplace_back(
        [&, t] { WriteFrom(**store, t, kThreads, acknowledged); });
  }
  WriteFrom(**store, 0, kThreads, acknowledged);
}

TEST_P(StoreContract, LosesNothingAcknowledgedWhenItsWriterIsKilled) {
  if (!database_->shared()) GTEST_SKIP() << "kept in memory alone";
  std::mt19937 random(20261121);
  store_.reset();
  for (int round = 0; round < 6; ++round) {
    database_.reset();
    database_ = GetParam().make_durable();
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      close(ends[0]);
      WriteUntilKilled(database_->url(), ends[1]);
    }
    close(ends[1]);
    // A random moment in the writer's work: after some writes, plus the time it
    // takes to count.
    std::vector<std::int64_t> acknowledged;
    std::int64_t id = 0;
    const auto enough =
        std::uniform_int_distribution<std::size_t>(1, 40)(random);
    while (acknowledged.size() < enough &&
           read(ends[0], &id, sizeof id) == sizeof id) {
      acknowledged.push_back(id);
    }
    volatile unsigned long spin = 0;
    for (auto n = random() % 3'000'000; spin < n;) spin = spin + 1;
    kill(child, SIGKILL);
    if (round % 3 == 2) database_->Crash();
    while (read(ends[0], &id, sizeof id) == sizeof id) {
      acknowledged.push_back(id);
    }
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << WEXITSTATUS(status);

    const auto store = Open();
    ASSERT_NE(store, nullptr);
    std::int64_t done = 0;
    for (const std::int64_t task_id : acknowledged) {
      const auto task = store->tasks.GetTask(task_id);
      ASSERT_TRUE(task) << task.error().message;
      EXPECT_EQ(task->state, TaskState::kDone);
      const std::vector<std::string> problems = {task->key.problem};
      EXPECT_THAT(store->measurements.LoadProfile(task->key.kind, problems)
                      ->at(problems[0]),
                  SizeIs(2));
      ++done;
    }
    // Unacknowledged writes are complete or absent.
    EXPECT_EQ(store->measurements.ListProfiles()->at(0).points,
              2 * store->tasks.CountTasks(0)->at(ToString(TestKind())).done);
    EXPECT_GE(done, static_cast<std::int64_t>(enough));
  }
}

}  // namespace
}  // namespace ucudnn
