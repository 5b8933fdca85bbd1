// The queue of benchmark tasks.

#include "tests/contract/store_contract.h"

namespace ucudnn {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST_P(StoreContract, EnqueuesAKeyOnce) {
  const EnqueueResult first =
      Enqueue(store(), {TestTask(1), TestTask(2), TestTask(1)});
  EXPECT_EQ(first.added, 2);
  EXPECT_EQ(first.reopened, 0);
  EXPECT_EQ(Enqueue(store(), {TestTask(2), TestTask(2, 64)}).added, 1);
  const auto tasks = store().tasks.ListTasks({}).value();
  ASSERT_THAT(tasks, SizeIs(3));
  EXPECT_EQ(tasks[0].key, TestTask(1).key);
  EXPECT_EQ(tasks[0].max_workspace, 64_MiB);
  EXPECT_EQ(tasks[0].state, TaskState::kPending);
  EXPECT_EQ(tasks[0].created_ms, 1);
  EXPECT_EQ(store().tasks.GetTask(tasks[0].id).value(), tasks[0]);
  EXPECT_EQ(store().tasks.GetTask(12345).error().code, Code::kNotFound);
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
  EXPECT_THAT(store().tasks.FindTasks(keys).value(), ElementsAre(tasks[1]));
  // Only tasks with a goal may have points of smaller batches.
  const std::vector<MeasuredPoint> smaller = {TestPoint(8, "FFT", 5)};
  EXPECT_EQ(
      store().tasks.CompleteTask(Completion(tasks[0], smaller)).error().code,
      Code::kInvalidArgument);
  EXPECT_TRUE(store().tasks.CompleteTask(Completion(tasks[1], smaller)));
  EXPECT_EQ(store().tasks.GetTask(tasks[1].id)->state, TaskState::kDone);
}

TEST_P(StoreContract, KeepsPartialResultsOfATask) {
  NewTask adaptive = TestTask(1);
  adaptive.key.goal = "adaptive";
  Enqueue(store(), {adaptive});
  const TaskRecord task = Lease(store(), 1, 10).at(0);
  MeasuredPoint point = TestPoint(8, "FFT", 500);
  point.min = Nanoseconds(490);
  point.p90 = Nanoseconds(530);
  point.enqueue = Nanoseconds(70);
  EXPECT_TRUE(store().tasks.AddToTask(Completion(task, {point})));
  EXPECT_EQ(store().tasks.GetTask(task.id).value(), task);
  EXPECT_THAT(store()
                  .measurements.LoadProfile(task.key.kind, {})
                  .value()
                  .at(task.key.problem),
              ElementsAre(point));
  EXPECT_EQ(store()
                .tasks.AddToTask(Completion(task, {TestPoint(64, "FFT", 1)}))
                .error()
                .code,
            Code::kInvalidArgument);
}

TEST_P(StoreContract, ReopensTasksDoneUnderAnotherDriver) {
  Enqueue(store(), {TestTask(1), TestTask(2), TestTask(3, 32, 1)});
  std::vector<TaskKey> keys;
  for (const TaskRecord& task : Lease(store(), 9, 10)) {
    TaskCompletion completion = Completion(task, {TestPoint(32, "FFT", 5)});
    completion.origin.driver = task.key.problem == "forward-c1" ? "old" : "new";
    ASSERT_TRUE(store().tasks.CompleteTask(completion));
    keys.push_back(task.key);
  }
  const std::string kind = keys.at(0).kind;
  const std::vector<std::string> drivers = {"new", "newer"};
  EXPECT_EQ(store().tasks.ReopenStaleTasks(kind, keys, drivers, {}), 1);
  EXPECT_EQ(store().tasks.ReopenStaleTasks(kind, keys, drivers, {}), 0);
  EXPECT_THAT(Problems(Lease(store(), 9, 20)), ElementsAre("forward-c1"));
  // Points measured under another driver are not loaded with the rest.
  EXPECT_THAT(store().measurements.LoadProfile(kind, {}).value(), SizeIs(2));
  EXPECT_THAT(store().measurements.LoadProfile(kind, {}, drivers).value(),
              SizeIs(1));
  const auto summaries = store().measurements.ListProfiles().value();
  EXPECT_EQ(summaries.at(0).points_by_driver.at("old"), 1);
}

TEST_P(StoreContract, ReopensATaskForALargerCap) {
  Enqueue(store(), {TestTask(1)});
  const auto task = Lease(store(), 1, 0).at(0);
  ASSERT_TRUE(store().tasks.CompleteTask(Completion(task, {})));
  NewTask larger = TestTask(1);
  larger.max_workspace = 32_MiB;
  EXPECT_EQ(Enqueue(store(), {larger}).reopened, 0);
  larger.max_workspace = 128_MiB;
  const EnqueueResult result = Enqueue(store(), {larger, TestTask(1)});
  EXPECT_EQ(result.added, 0);
  EXPECT_EQ(result.reopened, 1);
  const TaskRecord open = store().tasks.GetTask(task.id).value();
  EXPECT_EQ(open.state, TaskState::kPending);
  EXPECT_EQ(open.max_workspace, 128_MiB);
  EXPECT_EQ(open.finished_ms, 0);
  // The old completion, repeated, does not finish it.
  EXPECT_TRUE(store().tasks.CompleteTask(Completion(task, {}))->reopened);
  EXPECT_EQ(store().tasks.GetTask(task.id)->state, TaskState::kPending);
}

TEST_P(StoreContract, ContinuesATaskWhoseCapRoseWhileItRan) {
  Enqueue(store(), {TestTask(1)});
  const auto task = Lease(store(), 1, 0).at(0);
  NewTask larger = TestTask(1);
  larger.max_workspace = 128_MiB;
  EXPECT_EQ(Enqueue(store(), {larger}).reopened, 0);
  EXPECT_EQ(store().tasks.GetTask(task.id)->state, TaskState::kLeased);
  const auto result =
      store().tasks.CompleteTask(Completion(task, {TestPoint(32, "A", 1)}));
  EXPECT_TRUE(result->reopened);
  EXPECT_EQ(store().tasks.GetTask(task.id)->state, TaskState::kPending);
  EXPECT_EQ(store().measurements.ListProfiles()->at(0).points, 1);
  const auto again = Lease(store(), 1, 0).at(0);
  EXPECT_EQ(again.max_workspace, 128_MiB);
  EXPECT_FALSE(store().tasks.CompleteTask(Completion(again, {}))->reopened);
  EXPECT_EQ(store().tasks.GetTask(task.id)->state, TaskState::kDone);
}

TEST_P(StoreContract, CountsProgress) {
  Enqueue(store(), {TestTask(1), TestTask(2), TestTask(3), TestTask(4, 32, 1)});
  const auto leased = Lease(store(), 2, 0);
  ASSERT_TRUE(store().tasks.CompleteTask(Completion(leased[0], {})));
  const TaskCounts all{.pending = 1, .leased = 1, .done = 1, .failed = 0};
  EXPECT_EQ(store().tasks.CountTasks(99)->at(ToString(TestKind())), all);
  EXPECT_EQ(store().tasks.CountTasks(99)->at(ToString(TestKind(1))).total(), 1);
  // A task whose lease has expired waits for another device.
  EXPECT_EQ(store().tasks.CountTasks(100)->at(ToString(TestKind())).leased, 0);
  EXPECT_EQ(store().tasks.CountTasks(100)->at(ToString(TestKind())).pending, 2);
}

TEST_P(StoreContract, ListsTasksByFilter) {
  Enqueue(store(), {TestTask(1), TestTask(2), TestTask(3, 32, 1)});
  const auto leased = Lease(store(), 1, 0);
  TaskFilter filter;
  filter.kind = ToString(TestKind());
  EXPECT_THAT(store().tasks.ListTasks(filter).value(), SizeIs(2));
  filter = {};
  filter.state = TaskState::kLeased;
  EXPECT_THAT(store().tasks.ListTasks(filter).value(), ElementsAre(leased[0]));
  filter.now_ms = 99;
  filter.expired = true;
  EXPECT_THAT(store().tasks.ListTasks(filter).value(), IsEmpty());
  filter.now_ms = 100;
  EXPECT_THAT(store().tasks.ListTasks(filter).value(), ElementsAre(leased[0]));
  filter.expired = false;
  EXPECT_THAT(store().tasks.ListTasks(filter).value(), IsEmpty());
  filter = {};
  filter.after_id = leased[0].id;
  filter.limit = 1;
  EXPECT_THAT(Problems(store().tasks.ListTasks(filter).value()),
              ElementsAre("forward-c2"));
  const std::vector<TaskKey> keys = {TestTask(2).key, TestTask(1).key,
                                     TestTask(9).key};
  EXPECT_THAT(Problems(store().tasks.FindTasks(keys).value()),
              ElementsAre("forward-c1", "forward-c2"));
}

TEST_P(StoreContract, CancelsOpenTasksUntilTheyAreOpenedAgain) {
  Enqueue(store(), {TestTask(1), TestTask(2), TestTask(3), TestTask(4)});
  const auto leased = Lease(store(), 2, 0);
  ASSERT_TRUE(store().tasks.CompleteTask(Completion(leased[0], {})));
  std::vector<std::int64_t> ids;
  const auto tasks = store().tasks.ListTasks({}).value();
  for (const TaskRecord& task : tasks) {
    ids.push_back(task.id);
  }
  ids.pop_back();
  const TaskCounts open{.pending = 1, .leased = 1};
  EXPECT_EQ(store().tasks.CancelTasks(ids, "by alice: enough", 50).value(),
            open);
  EXPECT_EQ(store().tasks.CancelTasks(ids, "by bob", 60).value(), TaskCounts());
  const TaskRecord cancelled = store().tasks.GetTask(ids[2]).value();
  EXPECT_EQ(cancelled.state, TaskState::kCancelled);
  EXPECT_EQ(cancelled.error, "by alice: enough");
  EXPECT_EQ(cancelled.finished_ms, 50);
  EXPECT_EQ(store().tasks.GetTask(ids[1])->device, "");
  EXPECT_EQ(store().tasks.CountTasks(50)->at(ToString(TestKind())).cancelled,
            2);
  // No device takes them, and requests by others leave them cancelled, but the
  // device that measures one may complete it.
  EXPECT_EQ(Enqueue(store(), {TestTask(2), TestTask(3)}).added, 0);
  EXPECT_THAT(Problems(Lease(store(), 9, 500)), ElementsAre("forward-c4"));
  ASSERT_TRUE(store().tasks.CompleteTask(Completion(leased[1], {})));
  EXPECT_EQ(store().tasks.GetTask(leased[1].id)->state, TaskState::kDone);
  const std::vector<TaskKey> keys = {TestTask(1).key, TestTask(3).key};
  EXPECT_EQ(store().tasks.ReopenCancelledTasks(keys, {}).value(), 1);
  EXPECT_THAT(Problems(Lease(store(), 9, 550)), ElementsAre("forward-c3"));
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
  EXPECT_THAT(store().tasks.FindTasks(keys).value(), SizeIs(3000));
}

}  // namespace
}  // namespace ucudnn
