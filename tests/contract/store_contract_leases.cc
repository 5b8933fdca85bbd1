// The leases of benchmark tasks: taking, renewing, completing, releasing.

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
  EXPECT_GT(tasks[0].lease_token, 0);
  EXPECT_EQ(store().tasks.GetTask(tasks[0].id).value(), tasks[0]);
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
  EXPECT_NE(second[0].lease_token, first[0].lease_token);
  EXPECT_EQ(second[0].attempts, 2);
}

TEST_P(StoreContract, ListsTheLeasesThatHaveNotExpired) {
  Enqueue(store(), {TestTask(1), TestTask(2), TestTask(3)});
  const auto first = Lease(store(), 1, 0, "b");
  const auto second = Lease(store(), 1, 50, "a");
  EXPECT_THAT(store().tasks.ListLeases(99).value(),
              ElementsAre(second[0], first[0]));
  EXPECT_THAT(store().tasks.ListLeases(100).value(), ElementsAre(second[0]));
  ASSERT_TRUE(store().tasks.CompleteTask(Completion(second[0], {})));
  EXPECT_THAT(store().tasks.ListLeases(99).value(), ElementsAre(first[0]));
}

TEST_P(StoreContract, RenewsLeasesThatAreStillHeld) {
  Enqueue(store(), {TestTask(1), TestTask(2), TestTask(3)});
  const auto tasks = Lease(store(), 3, 0, "a");
  ASSERT_TRUE(store().tasks.CompleteTask(Completion(tasks[1], {})));
  std::vector<LeaseRef> leases = {
      tasks[2].lease(), tasks[1].lease(), tasks[0].lease(), {999, 1}};
  // Expired, but not leased by anybody else.
  EXPECT_THAT(store().agents.RenewLeases(leases, 500).value(),
              ElementsAre(tasks[0].id, tasks[2].id));
  EXPECT_EQ(store().tasks.GetTask(tasks[0].id)->lease_until_ms, 500);
  EXPECT_THAT(store().agents.RenewLeases(leases, 400).value(), SizeIs(2));
  EXPECT_EQ(store().tasks.GetTask(tasks[0].id)->lease_until_ms, 500);
  EXPECT_THAT(Lease(store(), 3, 499, "b"), IsEmpty());
  EXPECT_THAT(Lease(store(), 3, 500, "b"), SizeIs(2));
  EXPECT_THAT(store().agents.RenewLeases(leases, 900).value(), IsEmpty());
}

TEST_P(StoreContract, CompletesATaskOnceWithItsMeasurements) {
  Enqueue(store(), {TestTask(1)});
  const auto task = Lease(store(), 1, 0).at(0);
  const MeasuredPoint point = TestPoint(32, "FFT", 100);
  auto result = store().tasks.CompleteTask(Completion(task, {point})).value();
  EXPECT_FALSE(result.already);
  EXPECT_FALSE(result.reopened);
  const TaskRecord done = store().tasks.GetTask(task.id).value();
  EXPECT_EQ(done.state, TaskState::kDone);
  EXPECT_EQ(done.finished_ms, 1001);
  EXPECT_EQ(done.agent, "");
  const std::vector<std::string> problems = {task.key.problem};
  const auto points = [&] {
    return store()
        .measurements.LoadProfile(task.key.kind, problems)
        ->at(problems[0]);
  };
  EXPECT_THAT(points(), ElementsAre(point));
  // A repeat is recognised and changes nothing, whatever its content.
  TaskCompletion again = Completion(task, {TestPoint(32, "FFT", 7)});
  again.origin.measured_ms = 9000;
  EXPECT_TRUE(store().tasks.CompleteTask(again)->already);
  EXPECT_THAT(points(), ElementsAre(point));
  EXPECT_THAT(Lease(store(), 1, 1000), IsEmpty());
}

TEST_P(StoreContract, RefusesReportsOfOtherTasksWithTheSameId) {
  Enqueue(store(), {TestTask(1)});
  const auto task = Lease(store(), 1, 0).at(0);
  const std::string epoch = store().Epoch().value();
  const ReportIdentity right{epoch, task.key.kind, task.key.problem};
  const MeasuredPoint point = TestPoint(32, "FFT", 100);
  for (const ReportIdentity& other :
       {ReportIdentity{"another", right.kind, right.problem},
        ReportIdentity{epoch, "another", right.problem},
        ReportIdentity{epoch, right.kind, TestTask(2).key.problem}}) {
    TaskCompletion completion = Completion(task, {point});
    completion.identity = other;
    EXPECT_EQ(store().tasks.CompleteTask(completion).error().code,
              Code::kFailedPrecondition);
    EXPECT_EQ(store().tasks.AddToTask(completion).error().code,
              Code::kFailedPrecondition);
    EXPECT_EQ(store()
                  .tasks
                  .FailTask({.lease = task.lease(),
                             .identity = other,
                             .error = "x",
                             .now_ms = 5})
                  .error()
                  .code,
              Code::kFailedPrecondition);
  }
  EXPECT_EQ(store().tasks.GetTask(task.id)->state, TaskState::kLeased);
  EXPECT_THAT(store().measurements.LoadMeasurements(task.key.kind).value(),
              IsEmpty());
  TaskCompletion completion = Completion(task, {point});
  completion.identity = right;
  EXPECT_TRUE(store().tasks.CompleteTask(completion));
}

TEST_P(StoreContract, RefusesReportsWithoutTheTokenOfTheLatestLease) {
  Enqueue(store(), {TestTask(1), TestTask(2)});
  const auto first = Lease(store(), 1, 0, "a").at(0);
  const auto second = Lease(store(), 1, 200, "b").at(0);
  ASSERT_EQ(first.id, second.id);
  TaskFilter pending;
  pending.state = TaskState::kPending;
  const std::int64_t other = store().tasks.ListTasks(pending)->at(0).id;
  const MeasuredPoint point = TestPoint(32, "FFT", 100);
  for (const LeaseRef& wrong :
       {first.lease(), LeaseRef{first.id, 0}, LeaseRef{first.id, 1},
        LeaseRef{other, 0}, LeaseRef{other, second.lease_token}}) {
    SCOPED_TRACE(fmt::format("task {}, token {}", wrong.task, wrong.token));
    TaskCompletion completion = Completion(second, {point});
    completion.lease = wrong;
    EXPECT_EQ(store().tasks.CompleteTask(completion).error().code,
              Code::kFailedPrecondition);
    EXPECT_EQ(store().tasks.AddToTask(completion).error().code,
              Code::kFailedPrecondition);
    EXPECT_EQ(store().tasks.FailTask({wrong, {}, "no", false, 5}).error().code,
              Code::kFailedPrecondition);
  }
  EXPECT_EQ(store().tasks.GetTask(second.id).value(), second);
  EXPECT_EQ(store().tasks.GetTask(other)->state, TaskState::kPending);
  EXPECT_THAT(store().measurements.LoadMeasurements(second.key.kind).value(),
              IsEmpty());
}

TEST_P(StoreContract, TakesReportsOfALeaseThatExpired) {
  Enqueue(store(), {TestTask(1)});
  const auto task = Lease(store(), 1, 0, "a").at(0);
  EXPECT_FALSE(store().tasks.CompleteTask(Completion(task, {}))->already);
  EXPECT_EQ(store().tasks.GetTask(task.id)->state, TaskState::kDone);
  // The lease has ended; a repeat is known by its token.
  EXPECT_TRUE(store().tasks.CompleteTask(Completion(task, {}))->already);
  EXPECT_EQ(store().tasks.FailTask({task.lease(), {}, "no", true, 5}).value(),
            TaskState::kDone);
}

TEST_P(StoreContract, RefusesCompletionsThatDoNotFitTheTask) {
  Enqueue(store(), {TestTask(1, 32)});
  const auto task = Lease(store(), 1, 0).at(0);
  TaskCompletion completion = Completion(task, {TestPoint(64, "A", 1)});
  EXPECT_EQ(store().tasks.CompleteTask(completion).error().code,
            Code::kInvalidArgument);
  EXPECT_EQ(store().tasks.GetTask(task.id)->state, TaskState::kLeased);
  completion.lease.task = 999;
  EXPECT_EQ(store().tasks.CompleteTask(completion).error().code,
            Code::kNotFound);
}

TEST_P(StoreContract, StoresReportsThatArriveTogetherDespiteBadOnes) {
  constexpr int kTasks = 120;
  std::vector<NewTask> tasks;
  for (int i = 0; i < kTasks; ++i) tasks.push_back(TestTask(i));
  Enqueue(store(), tasks);
  const auto leased = Lease(store(), kTasks, 0);
  ASSERT_THAT(leased, SizeIs(kTasks));
  // Every third is refused: before it is stored, or by the database.
  std::atomic<int> next = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = next++; i < kTasks; i = next++) {
        const auto& task = leased[static_cast<std::size_t>(i)];
        TaskCompletion completion = Completion(task, {TestPoint(32, "A", 1)});
        if (i % 3 == 2) {
          (i % 2 == 0 ? completion.identity.kind : completion.origin.driver) =
              i % 2 == 0 ? "another" : std::string("a\0b", 3);
        }
        const auto done = store().tasks.CompleteTask(completion);
        EXPECT_EQ(done.has_value(), i % 3 != 2) << i;
        if (!done) continue;
        EXPECT_TRUE(store().tasks.CompleteTask(completion)->already);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < kTasks; ++i) {
    const auto& task = leased[static_cast<std::size_t>(i)];
    EXPECT_EQ(store().tasks.GetTask(task.id)->state,
              i % 3 == 2 ? TaskState::kLeased : TaskState::kDone);
  }
  EXPECT_EQ(store().measurements.ListProfiles()->at(0).points,
            kTasks - kTasks / 3);
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
    EXPECT_EQ(store().tasks.FailTask(failure).value(), expected);
    // A failure reported twice counts once.
    EXPECT_EQ(store().tasks.FailTask(failure).value(), expected);
  }
  const TaskRecord failed = store().tasks.GetTask(task.id).value();
  EXPECT_EQ(failed.error, "failure 3");
  EXPECT_EQ(failed.failures, 3);
  EXPECT_EQ(failed.finished_ms, 50);
  EXPECT_THAT(Lease(store(), 1, 9999), IsEmpty());
  EXPECT_EQ(store().tasks.RetryFailedTasks("none", {}).value(), 0);
  EXPECT_EQ(store().tasks.RetryFailedTasks("", {}).value(), 1);
  EXPECT_EQ(store().tasks.RetryFailedTasks(task.key.kind, {}).value(), 0);
  EXPECT_EQ(Lease(store(), 1, 0).at(0).attempts, 1);
}

TEST_P(StoreContract, DoesNotRetryWhatCannotSucceed) {
  Enqueue(store(), {TestTask(1)});
  const auto task = Lease(store(), 1, 0).at(0);
  EXPECT_EQ(store().tasks.FailTask({task.lease(), {}, "no", false, 5}).value(),
            TaskState::kFailed);
  EXPECT_EQ(store().tasks.FailTask({{999, 1}, {}, "no", false, 5}).error().code,
            Code::kNotFound);
  // A measurement that arrives anyway is accepted.
  EXPECT_FALSE(store().tasks.CompleteTask(Completion(task, {}))->already);
  EXPECT_EQ(store().tasks.GetTask(task.id)->state, TaskState::kDone);
  EXPECT_EQ(store().tasks.GetTask(task.id)->error, "");
}

TEST_P(StoreContract, GivesUpATaskThatKillsItsAgents) {
  Enqueue(store(), {TestTask(1)});
  UnixMillis now = 0;
  std::int64_t id = 0;
  for (int i = 0; i < kMaxTaskAttempts; ++i, now += 100) {
    id = Lease(store(), 1, now).at(0).id;
  }
  EXPECT_THAT(Lease(store(), 1, now), IsEmpty());
  EXPECT_EQ(store().tasks.GetTask(id)->state, TaskState::kFailed);
  EXPECT_NE(store().tasks.GetTask(id)->error, "");
}

TEST_P(StoreContract, ReleasesTheLeasesOfADrainingAgent) {
  Enqueue(store(), {TestTask(1), TestTask(2), TestTask(3)});
  const auto of_a = Lease(store(), 2, 0, "a");
  const auto of_b = Lease(store(), 1, 0, "b");
  EXPECT_EQ(store().agents.ReleaseLeases("a").value(), 2);
  EXPECT_EQ(store().agents.ReleaseLeases("a").value(), 0);
  EXPECT_EQ(store().tasks.GetTask(of_a[0].id)->state, TaskState::kPending);
  EXPECT_EQ(store().tasks.GetTask(of_a[0].id)->attempts, 0);
  EXPECT_EQ(store().tasks.GetTask(of_b[0].id)->state, TaskState::kLeased);
  const auto again = Lease(store(), 9, 0, "c");
  ASSERT_THAT(again, SizeIs(2));
  EXPECT_NE(again[0].lease_token, of_a[0].lease_token);
}

TEST_P(StoreContract, NeverLeasesATaskToTwoAgents) {
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
      const auto result = store().tasks.EnqueueTasks(mine, {}, 1);
      ASSERT_TRUE(result) << result.error().message;
      added += result->added;
      EXPECT_TRUE(
          store().networks.PutNetwork(TestNetwork("n", fmt::format("h{}", t))));
      EXPECT_TRUE(store().plans.CreatePlan(TestPlan("same")));
      // Leases expire at once, so that several agents measure the same task, of
      // whom the last one completes it.
      for (int round = 0; round < 3; ++round) {
        for (const TaskRecord& task : Lease(store(), 40, round * 100)) {
          const auto done = store().tasks.CompleteTask(
              Completion(task, {TestPoint(32, "A", t + 1)}));
          if (!done) {
            EXPECT_EQ(done.error().code, Code::kFailedPrecondition);
          } else if (!done->already) {
            ++completed;
          }
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const TaskRecord& task : Lease(store(), 100, 1000)) {
    ASSERT_TRUE(
        store().tasks.CompleteTask(Completion(task, {TestPoint(32, "A", 9)})));
    ++completed;
  }
  EXPECT_EQ(added, 100);
  EXPECT_EQ(completed, 100);
  EXPECT_EQ(store().tasks.CountTasks(0)->at(ToString(TestKind())).done, 100);
  EXPECT_EQ(store().measurements.ListProfiles()->at(0).points, 100);
  EXPECT_EQ(store().networks.GetNetwork("n")->revision, 8);
  EXPECT_THAT(store().plans.ListPlanIds(10).value(), SizeIs(1));
}

}  // namespace
}  // namespace ucudnn
