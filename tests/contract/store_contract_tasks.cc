// The queue of benchmark tasks.

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>
#include <thread>

#include "tests/contract/store_contract.h"

namespace ucudnn {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Enqueues `tasks` at time 1.
EnqueueResult Enqueue(Store& store, const std::vector<NewTask>& tasks) {
  return store.EnqueueTasks(tasks, 1).value();
}

std::vector<std::string> Problems(const std::vector<TaskRecord>& tasks) {
  std::vector<std::string> problems;
  for (const TaskRecord& task : tasks) problems.push_back(task.key.problem);
  return problems;
}

TEST_P(StoreContract, EnqueuesAKeyOnce) {
  const EnqueueResult first =
      Enqueue(store(), {TestTask(1), TestTask(2), TestTask(1)});
  EXPECT_EQ(first.added, 2);
  EXPECT_EQ(first.reopened, 0);
  EXPECT_EQ(Enqueue(store(), {TestTask(2), TestTask(2, 64)}).added, 1);
  const auto tasks = store().ListTasks({}).value();
  ASSERT_THAT(tasks, SizeIs(3));
  EXPECT_EQ(tasks[0].key, TestTask(1).key);
  EXPECT_EQ(tasks[0].max_workspace, 64_MiB);
  EXPECT_EQ(tasks[0].state, TaskState::kPending);
  EXPECT_EQ(tasks[0].created_ms, 1);
  EXPECT_EQ(store().GetTask(tasks[0].id).value(), tasks[0]);
  EXPECT_EQ(store().GetTask(12345).error().code, Code::kNotFound);
}

TEST_P(StoreContract, DistinguishesTasksByGoal) {
  NewTask adaptive = TestTask(1);
  adaptive.key.goal = "adaptive-64";
  EXPECT_EQ(Enqueue(store(), {TestTask(1), adaptive, adaptive}).added, 2);
  EXPECT_EQ(Enqueue(store(), {adaptive}).added, 0);
  const auto tasks = Lease(store(), 9, 10);
  ASSERT_THAT(tasks, SizeIs(2));
  EXPECT_EQ(tasks[1].key, adaptive.key);
  const std::vector<TaskKey> keys = {adaptive.key};
  EXPECT_EQ(store().Progress(keys).value().begin()->second.leased, 1);
  // Only tasks with a goal may have points of smaller batches.
  const std::vector<MeasuredPoint> smaller = {TestPoint(8, "FFT", 5)};
  EXPECT_EQ(store().CompleteTask(Completion(tasks[0], smaller)).error().code,
            Code::kInvalidArgument);
  EXPECT_TRUE(store().CompleteTask(Completion(tasks[1], smaller)));
  EXPECT_EQ(store().GetTask(tasks[1].id)->state, TaskState::kDone);
}

TEST_P(StoreContract, KeepsWhatWasMeasuredOfATaskSoFar) {
  NewTask adaptive = TestTask(1);
  adaptive.key.goal = "adaptive";
  Enqueue(store(), {adaptive});
  const TaskRecord task = Lease(store(), 1, 10).at(0);
  MeasuredPoint point = TestPoint(8, "FFT", 500);
  point.min = Nanoseconds(490);
  point.p90 = Nanoseconds(530);
  point.enqueue = Nanoseconds(70);
  EXPECT_TRUE(store().AddToTask(Completion(task, {point})));
  EXPECT_EQ(store().GetTask(task.id).value(), task);
  EXPECT_THAT(
      store().LoadProfile(task.key.kind, {}, {}).value().at(task.key.problem),
      ElementsAre(point));
  EXPECT_EQ(store()
                .AddToTask(Completion(task, {TestPoint(64, "FFT", 1)}))
                .error()
                .code,
            Code::kInvalidArgument);
}

TEST_P(StoreContract, ReopensWhatWasDoneUnderAnotherDriver) {
  Enqueue(store(), {TestTask(1), TestTask(2), TestTask(3, 32, 1)});
  std::vector<TaskKey> keys;
  for (const TaskRecord& task : Lease(store(), 9, 10)) {
    TaskCompletion completion = Completion(task, {TestPoint(32, "FFT", 5)});
    completion.origin.driver = task.key.problem == "forward-c1" ? "old" : "new";
    ASSERT_TRUE(store().CompleteTask(completion));
    keys.push_back(task.key);
  }
  const std::string kind = keys.at(0).kind;
  const std::vector<std::string> drivers = {"new", "newer"};
  EXPECT_EQ(store().ReopenStaleTasks(kind, keys, drivers), 1);
  EXPECT_EQ(store().ReopenStaleTasks(kind, keys, drivers), 0);
  EXPECT_THAT(Problems(Lease(store(), 9, 20)), ElementsAre("forward-c1"));
  // Points measured under another driver are not loaded with the rest.
  EXPECT_THAT(store().LoadProfile(kind, {}, {}).value(), SizeIs(2));
  EXPECT_THAT(store().LoadProfile(kind, {}, {}, drivers).value(), SizeIs(1));
  const auto summaries = store().ListProfiles().value();
  EXPECT_EQ(summaries.at(0).points_by_driver.at("old"), 1);
}

TEST_P(StoreContract, ImportsProfilesAsIfTheyHadBeenMeasuredHere) {
  Enqueue(store(), {TestTask(1), TestTask(2)});
  const TaskRecord begun = Lease(store(), 1, 10).at(0);
  std::vector<Measurement> measurements;
  std::vector<CompleteBatch> batches;
  for (const int problem : {1, 2, 3}) {
    Measurement m = TestMeasurement(problem, TestPoint(32, "FFT", 7));
    m.origin.clocks = {1755, 3201, "thermal"};
    measurements.push_back(m);
    batches.push_back({m.kind, m.problem, BatchSize(32), 64_MiB, "580"});
  }
  ASSERT_TRUE(store().ImportProfile(measurements, batches, 50));
  ASSERT_TRUE(store().ImportProfile(measurements, batches, 60));
  EXPECT_EQ(store().LoadMeasurements(begun.key.kind), measurements);
  // Leased tasks stay leased; the others are done.
  EXPECT_EQ(store().GetTask(begun.id)->state, TaskState::kLeased);
  EXPECT_THAT(Lease(store(), 9, 20), IsEmpty());
  EXPECT_EQ(Enqueue(store(), {TestTask(3)}).added, 0);
  EXPECT_THAT(store().ListCompleteBatches(begun.key.kind).value(), SizeIs(2));
  EXPECT_THAT(store().ListCompleteBatches(begun.key.kind, "forward-c3").value(),
              ElementsAre(batches[2]));
}

TEST_P(StoreContract, LeasesByPriorityThenAge) {
  NewTask urgent = TestTask(3);
  urgent.priority = 5;
  Enqueue(store(), {TestTask(1), TestTask(2), urgent, TestTask(9, 32, 1)});
  const auto tasks = Lease(store(), 2, 10);
  EXPECT_THAT(Problems(tasks), ElementsAre("forward-c3", "forward-c1"));
  EXPECT_EQ(tasks[0].state, TaskState::kLeased);
  EXPECT_EQ(tasks[0].agent, "a");
  EXPECT_EQ(tasks[0].device, "GPU-a");
  EXPECT_EQ(tasks[0].lease_until_ms, 110);
  EXPECT_EQ(tasks[0].attempts, 1);
  EXPECT_EQ(tasks[0].lease_token, 1);
  EXPECT_EQ(store().GetTask(tasks[0].id).value(), tasks[0]);
  // Another request raises its priority.
  Enqueue(store(), {TestTask(4)});
  urgent = TestTask(4);
  urgent.priority = 1;
  Enqueue(store(), {urgent});
  EXPECT_THAT(Problems(Lease(store(), 9, 10)),
              ElementsAre("forward-c4", "forward-c2"));
  EXPECT_THAT(Lease(store(), 9, 10), IsEmpty());
}

TEST_P(StoreContract, LeasesAnExpiredTaskAgain) {
  Enqueue(store(), {TestTask(1)});
  const auto first = Lease(store(), 1, 0, "a");
  EXPECT_THAT(Lease(store(), 1, 99, "b"), IsEmpty());
  const auto second = Lease(store(), 1, 100, "b");
  ASSERT_THAT(second, SizeIs(1));
  EXPECT_EQ(second[0].agent, "b");
  EXPECT_GT(second[0].lease_token, first[0].lease_token);
  EXPECT_EQ(second[0].attempts, 2);
}

TEST_P(StoreContract, RenewsLeasesThatAreStillHeld) {
  Enqueue(store(), {TestTask(1), TestTask(2), TestTask(3)});
  const auto tasks = Lease(store(), 3, 0, "a");
  ASSERT_TRUE(store().CompleteTask(Completion(tasks[1], {})));
  std::vector<LeaseRef> leases = {
      tasks[2].lease(), tasks[1].lease(), tasks[0].lease(), {999, 1}};
  // Expired, but not leased by anybody else.
  EXPECT_THAT(store().RenewLeases(leases, 500).value(),
              ElementsAre(tasks[0].id, tasks[2].id));
  EXPECT_EQ(store().GetTask(tasks[0].id)->lease_until_ms, 500);
  EXPECT_THAT(store().RenewLeases(leases, 400).value(), SizeIs(2));
  EXPECT_EQ(store().GetTask(tasks[0].id)->lease_until_ms, 500);
  EXPECT_THAT(Lease(store(), 3, 499, "b"), IsEmpty());
  EXPECT_THAT(Lease(store(), 3, 500, "b"), SizeIs(2));
  EXPECT_THAT(store().RenewLeases(leases, 900).value(), IsEmpty());
}

TEST_P(StoreContract, CompletesATaskOnceWithItsMeasurements) {
  Enqueue(store(), {TestTask(1)});
  const auto task = Lease(store(), 1, 0).at(0);
  const MeasuredPoint point = TestPoint(32, "FFT", 100);
  auto result = store().CompleteTask(Completion(task, {point})).value();
  EXPECT_FALSE(result.already);
  EXPECT_FALSE(result.reopened);
  const TaskRecord done = store().GetTask(task.id).value();
  EXPECT_EQ(done.state, TaskState::kDone);
  EXPECT_EQ(done.finished_ms, 1001);
  EXPECT_EQ(done.agent, "");
  const std::vector<std::string> problems = {task.key.problem};
  const auto points = [&] {
    return store().LoadProfile(task.key.kind, problems, {})->at(problems[0]);
  };
  EXPECT_THAT(points(), ElementsAre(point));
  // A repeat is recognised and changes nothing, whatever its content.
  TaskCompletion again = Completion(task, {TestPoint(32, "FFT", 7)});
  again.origin.measured_ms = 9000;
  EXPECT_TRUE(store().CompleteTask(again)->already);
  EXPECT_THAT(points(), ElementsAre(point));
  EXPECT_THAT(Lease(store(), 1, 1000), IsEmpty());
}

TEST_P(StoreContract, AcceptsACompletionWhoseLeaseIsOutdated) {
  Enqueue(store(), {TestTask(1), TestTask(2)});
  const auto first = Lease(store(), 2, 0, "a");
  const auto second = Lease(store(), 1, 200, "b");
  // One was leased by another agent meanwhile, one expired and was not leased
  // again.
  for (const TaskRecord& task : first) {
    const auto result = store().CompleteTask(Completion(task, {}));
    ASSERT_TRUE(result);
    EXPECT_FALSE(result->already);
    EXPECT_EQ(store().GetTask(task.id)->state, TaskState::kDone);
  }
  EXPECT_TRUE(store().CompleteTask(Completion(second[0], {}))->already);
}

TEST_P(StoreContract, RefusesCompletionsThatDoNotFitTheTask) {
  Enqueue(store(), {TestTask(1, 32)});
  const auto task = Lease(store(), 1, 0).at(0);
  TaskCompletion completion = Completion(task, {TestPoint(64, "A", 1)});
  EXPECT_EQ(store().CompleteTask(completion).error().code,
            Code::kInvalidArgument);
  EXPECT_EQ(store().GetTask(task.id)->state, TaskState::kLeased);
  completion.lease.task = 999;
  EXPECT_EQ(store().CompleteTask(completion).error().code, Code::kNotFound);
}

TEST_P(StoreContract, ReopensATaskForALargerCap) {
  Enqueue(store(), {TestTask(1)});
  const auto task = Lease(store(), 1, 0).at(0);
  ASSERT_TRUE(store().CompleteTask(Completion(task, {})));
  NewTask larger = TestTask(1);
  larger.max_workspace = 32_MiB;
  EXPECT_EQ(Enqueue(store(), {larger}).reopened, 0);
  larger.max_workspace = 128_MiB;
  const EnqueueResult result = Enqueue(store(), {larger, TestTask(1)});
  EXPECT_EQ(result.added, 0);
  EXPECT_EQ(result.reopened, 1);
  const TaskRecord open = store().GetTask(task.id).value();
  EXPECT_EQ(open.state, TaskState::kPending);
  EXPECT_EQ(open.max_workspace, 128_MiB);
  EXPECT_EQ(open.finished_ms, 0);
  // The old completion, repeated, does not finish it.
  EXPECT_TRUE(store().CompleteTask(Completion(task, {}))->reopened);
  EXPECT_EQ(store().GetTask(task.id)->state, TaskState::kPending);
}

TEST_P(StoreContract, ContinuesATaskWhoseCapRoseWhileItRan) {
  Enqueue(store(), {TestTask(1)});
  const auto task = Lease(store(), 1, 0).at(0);
  NewTask larger = TestTask(1);
  larger.max_workspace = 128_MiB;
  EXPECT_EQ(Enqueue(store(), {larger}).reopened, 0);
  EXPECT_EQ(store().GetTask(task.id)->state, TaskState::kLeased);
  const auto result =
      store().CompleteTask(Completion(task, {TestPoint(32, "A", 1)}));
  EXPECT_TRUE(result->reopened);
  EXPECT_EQ(store().GetTask(task.id)->state, TaskState::kPending);
  EXPECT_EQ(store().ListProfiles()->at(0).points, 1);
  const auto again = Lease(store(), 1, 0).at(0);
  EXPECT_EQ(again.max_workspace, 128_MiB);
  EXPECT_FALSE(store().CompleteTask(Completion(again, {}))->reopened);
  EXPECT_EQ(store().GetTask(task.id)->state, TaskState::kDone);
}

TEST_P(StoreContract, RetriesFailuresThreeTimes) {
  Enqueue(store(), {TestTask(1)});
  TaskRecord task;
  for (int i = 1; i <= kMaxTaskFailures; ++i) {
    task = Lease(store(), 1, 0).at(0);
    const TaskFailure failure{.lease = task.lease(),
                              .error = fmt::format("failure {}", i),
                              .retryable = true,
                              .now_ms = 50};
    const TaskState expected =
        i < kMaxTaskFailures ? TaskState::kPending : TaskState::kFailed;
    EXPECT_EQ(store().FailTask(failure).value(), expected);
    // A failure reported twice counts once.
    EXPECT_EQ(store().FailTask(failure).value(), expected);
  }
  const TaskRecord failed = store().GetTask(task.id).value();
  EXPECT_EQ(failed.error, "failure 3");
  EXPECT_EQ(failed.failures, 3);
  EXPECT_EQ(failed.finished_ms, 50);
  EXPECT_THAT(Lease(store(), 1, 9999), IsEmpty());
  EXPECT_EQ(store().RetryFailedTasks("none").value(), 0);
  EXPECT_EQ(store().RetryFailedTasks("").value(), 1);
  EXPECT_EQ(store().RetryFailedTasks(task.key.kind).value(), 0);
  EXPECT_EQ(Lease(store(), 1, 0).at(0).attempts, 1);
}

TEST_P(StoreContract, DoesNotRetryWhatCannotSucceed) {
  Enqueue(store(), {TestTask(1)});
  const auto task = Lease(store(), 1, 0).at(0);
  EXPECT_EQ(store().FailTask({task.lease(), "no", false, 5}).value(),
            TaskState::kFailed);
  EXPECT_EQ(store().FailTask({{999, 1}, "no", false, 5}).error().code,
            Code::kNotFound);
  // A measurement that arrives anyway is accepted.
  EXPECT_FALSE(store().CompleteTask(Completion(task, {}))->already);
  EXPECT_EQ(store().GetTask(task.id)->state, TaskState::kDone);
  EXPECT_EQ(store().GetTask(task.id)->error, "");
}

TEST_P(StoreContract, GivesUpATaskThatKillsItsAgents) {
  Enqueue(store(), {TestTask(1)});
  UnixMillis now = 0;
  std::int64_t id = 0;
  for (int i = 0; i < kMaxTaskAttempts; ++i, now += 100) {
    id = Lease(store(), 1, now).at(0).id;
  }
  EXPECT_THAT(Lease(store(), 1, now), IsEmpty());
  EXPECT_EQ(store().GetTask(id)->state, TaskState::kFailed);
  EXPECT_NE(store().GetTask(id)->error, "");
}

TEST_P(StoreContract, ReleasesTheLeasesOfAnAgentThatDrains) {
  Enqueue(store(), {TestTask(1), TestTask(2), TestTask(3)});
  const auto of_a = Lease(store(), 2, 0, "a");
  const auto of_b = Lease(store(), 1, 0, "b");
  EXPECT_EQ(store().ReleaseLeases("a").value(), 2);
  EXPECT_EQ(store().ReleaseLeases("a").value(), 0);
  EXPECT_EQ(store().GetTask(of_a[0].id)->state, TaskState::kPending);
  EXPECT_EQ(store().GetTask(of_a[0].id)->attempts, 0);
  EXPECT_EQ(store().GetTask(of_b[0].id)->state, TaskState::kLeased);
  const auto again = Lease(store(), 9, 0, "c");
  ASSERT_THAT(again, SizeIs(2));
  EXPECT_NE(again[0].lease_token, of_a[0].lease_token);
}

TEST_P(StoreContract, CountsProgress) {
  Enqueue(store(), {TestTask(1), TestTask(2), TestTask(3), TestTask(4, 32, 1)});
  const auto leased = Lease(store(), 2, 0);
  ASSERT_TRUE(store().CompleteTask(Completion(leased[0], {})));
  const std::vector<TaskKey> keys = {TestTask(1).key, TestTask(3).key,
                                     TestTask(3).key, TestTask(77).key};
  const TaskCounts two{.pending = 1, .leased = 0, .done = 1, .failed = 0};
  EXPECT_THAT(store().Progress(keys).value(),
              ElementsAre(std::pair(ToString(TestKind()), two)));
  const TaskCounts all{.pending = 1, .leased = 1, .done = 1, .failed = 0};
  EXPECT_EQ(store().CountTasks()->at(ToString(TestKind())), all);
  EXPECT_EQ(store().CountTasks()->at(ToString(TestKind(1))).total(), 1);
  EXPECT_THAT(store().Progress({}).value(), IsEmpty());
}

TEST_P(StoreContract, ListsTasksByFilter) {
  Enqueue(store(), {TestTask(1), TestTask(2), TestTask(3, 32, 1)});
  const auto leased = Lease(store(), 1, 0);
  TaskFilter filter;
  filter.kind = ToString(TestKind());
  EXPECT_THAT(store().ListTasks(filter).value(), SizeIs(2));
  filter = {};
  filter.state = TaskState::kLeased;
  EXPECT_THAT(store().ListTasks(filter).value(), ElementsAre(leased[0]));
  filter = {};
  filter.after_id = leased[0].id;
  filter.limit = 1;
  EXPECT_THAT(Problems(store().ListTasks(filter).value()),
              ElementsAre("forward-c2"));
}

TEST_P(StoreContract, EnqueuesManyTasksAtOnce) {
  std::vector<NewTask> tasks;
  std::vector<TaskKey> keys;
  for (int i = 0; i < 3000; ++i) {
    tasks.push_back(TestTask(i % 1000, 1 + i / 1000));
    keys.push_back(tasks.back().key);
  }
  EXPECT_EQ(Enqueue(store(), tasks).added, 3000);
  for (NewTask& task : tasks) task.max_workspace = 65_MiB;
  EXPECT_EQ(Enqueue(store(), tasks).added, 0);
  EXPECT_EQ(store().Progress(keys)->at(ToString(TestKind())).pending, 3000);
}

TEST_P(StoreContract, NeverLeasesATaskToTwo) {
  constexpr int kTasks = 400;
  std::vector<NewTask> tasks;
  for (int i = 0; i < kTasks; ++i) tasks.push_back(TestTask(i));
  Enqueue(store(), tasks);
  // Half of the threads share a connection's store, half have their own.
  std::mutex mutex;
  std::vector<std::int64_t> ids;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      std::unique_ptr<Store> own;
      if (t % 2 == 1 && database_->shared()) own = Open();
      Store& mine = own ? *own : store();
      for (;;) {
        const auto leased = Lease(mine, 1 + t, 0, fmt::format("agent{}", t));
        if (leased.empty()) return;
        const std::lock_guard lock(mutex);
        for (const TaskRecord& task : leased) ids.push_back(task.id);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(ids, SizeIs(kTasks));
  EXPECT_THAT(std::set<std::int64_t>(ids.begin(), ids.end()), SizeIs(kTasks));
}

TEST_P(StoreContract, SurvivesConcurrentWriters) {
  std::vector<NewTask> tasks;
  for (int i = 0; i < 100; ++i) tasks.push_back(TestTask(i));
  std::atomic<std::int64_t> added = 0;
  std::atomic<int> completed = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      std::vector<NewTask> mine = tasks;
      if (t % 2 == 1) std::ranges::reverse(mine);
      const auto result = store().EnqueueTasks(mine, 1);
      ASSERT_TRUE(result) << result.error().message;
      added += result->added;
      EXPECT_TRUE(store().PutNetwork(TestNetwork("n", fmt::format("h{}", t))));
      EXPECT_TRUE(store().CreatePlan(TestPlan("same")));
      // Leases expire at once, so that several agents complete the same task.
      for (int round = 0; round < 3; ++round) {
        for (const TaskRecord& task : Lease(store(), 40, round * 100)) {
          const auto done = store().CompleteTask(
              Completion(task, {TestPoint(32, "A", t + 1)}));
          ASSERT_TRUE(done) << done.error().message;
          if (!done->already) ++completed;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(added, 100);
  EXPECT_EQ(completed, 100);
  EXPECT_EQ(store().CountTasks()->at(ToString(TestKind())).done, 100);
  EXPECT_EQ(store().ListProfiles()->at(0).points, 100);
  EXPECT_EQ(store().GetNetwork("n")->revision, 8);
  EXPECT_THAT(store().ListPlans(10).value(), SizeIs(1));
}

}  // namespace
}  // namespace ucudnn
