// Random sequences of operations, compared with a simple model of the queue.

#include <algorithm>
#include <map>
#include <random>

#include "tests/contract/store_contract.h"

namespace ucudnn {
namespace {

// The tasks of one kind, in memory.
class ModelQueue {
 public:
  EnqueueResult Enqueue(const NewTask& task, UnixMillis now_ms) {
    for (auto& [id, known] : tasks_) {
      if (known.key != task.key) continue;
      EnqueueResult result;
      known.priority = std::max(known.priority, task.priority);
      if (task.max_workspace <= known.max_workspace) return result;
      known.max_workspace = task.max_workspace;
      if (known.state == TaskState::kDone ||
          known.state == TaskState::kFailed) {
        Reopen(known);
        result.reopened = 1;
      }
      return result;
    }
    TaskRecord added;
    added.id = static_cast<std::int64_t>(tasks_.size()) + 1;
    added.key = task.key;
    added.max_workspace = task.max_workspace;
    added.priority = task.priority;
    added.created_ms = now_ms;
    tasks_[added.id] = added;
    return {.added = 1, .reopened = 0};
  }

  std::vector<TaskRecord> Lease(const LeaseRequest& request) {
    std::vector<TaskRecord*> free;
    for (auto& [id, task] : tasks_) {
      const bool expired = task.state == TaskState::kLeased &&
                           task.lease_until_ms <= request.now_ms;
      if (expired && task.attempts >= kMaxTaskAttempts) {
        task.error = "given up: its leases expired without a report";
        End(task, TaskState::kFailed, request.now_ms);
      } else if (expired || task.state == TaskState::kPending) {
        free.push_back(&task);
      }
    }
    std::ranges::stable_sort(free, [](const auto* a, const auto* b) {
      return a->priority > b->priority;
    });
    std::vector<TaskRecord> leased;
    for (TaskRecord* task : free) {
      if (std::ssize(leased) == request.max_count) break;
      task->state = TaskState::kLeased;
      ++task->attempts;
      task->agent = request.agent;
      task->device = request.device;
      task->lease_until_ms = request.until_ms;
      leased.push_back(*task);
    }
    return leased;
  }

  // The store has drawn this token for the task's lease.
  void SetToken(const LeaseRef& lease) {
    tasks_.at(lease.task).lease_token = lease.token;
  }

  bool HasLatest(const LeaseRef& lease) const {
    return tasks_.at(lease.task).lease() == lease;
  }

  std::vector<std::int64_t> Renew(const LeaseRef& lease, UnixMillis until_ms) {
    TaskRecord& task = tasks_.at(lease.task);
    if (!Holds(task, lease)) return {};
    task.lease_until_ms = std::max(task.lease_until_ms, until_ms);
    return {task.id};
  }

  CompletionResult Complete(const TaskCompletion& completion) {
    TaskRecord& task = tasks_.at(completion.lease.task);
    if (task.state == TaskState::kDone) return {true, false};
    if (completion.max_workspace >= task.max_workspace) {
      task.error.clear();
      task.driver = completion.origin.driver;
      End(task, TaskState::kDone, completion.now_ms);
      return {false, false};
    }
    if (Holds(task, completion.lease)) Reopen(task);
    return {false, true};
  }

  TaskState Fail(const TaskFailure& failure) {
    TaskRecord& task = tasks_.at(failure.lease.task);
    if (!Holds(task, failure.lease)) return task.state;
    ++task.failures;
    task.error = failure.error;
    if (failure.retryable && task.failures < kMaxTaskFailures) {
      End(task, TaskState::kPending, 0);
    } else {
      End(task, TaskState::kFailed, failure.now_ms);
    }
    return task.state;
  }

  std::int64_t Release(const std::string& agent) {
    std::int64_t released = 0;
    for (auto& [id, task] : tasks_) {
      if (task.state != TaskState::kLeased || task.agent != agent) continue;
      --task.attempts;
      End(task, TaskState::kPending, 0);
      ++released;
    }
    return released;
  }

  std::int64_t RetryFailed() {
    std::int64_t retried = 0;
    for (auto& [id, task] : tasks_) {
      if (task.state != TaskState::kFailed) continue;
      Reopen(task);
      ++retried;
    }
    return retried;
  }

  std::vector<TaskRecord> All() const {
    std::vector<TaskRecord> all;
    for (const auto& [id, task] : tasks_) all.push_back(task);
    return all;
  }

 private:
  static bool Holds(const TaskRecord& task, const LeaseRef& lease) {
    return task.state == TaskState::kLeased && task.lease() == lease;
  }
  static void End(TaskRecord& task, TaskState state, UnixMillis finished_ms) {
    task.state = state;
    task.finished_ms = finished_ms;
    task.agent.clear();
    task.device.clear();
    task.lease_until_ms = 0;
  }
  static void Reopen(TaskRecord& task) {
    End(task, TaskState::kPending, 0);
    task.attempts = 0;
    task.failures = 0;
    task.error.clear();
  }

  std::map<std::int64_t, TaskRecord> tasks_;
};

// The store numbers tasks with gaps, the model without. Both count up in the
// order of adding, so the n-th of one is the n-th of the other.
class BothQueues {
 public:
  BothQueues(Store& store, unsigned seed) : store_(store), random_(seed) {}

  void Step() {
    now_ms_ += Pick(0, 60);
    switch (Pick(0, 9)) {
      case 0:
      case 1:
        Enqueue();
        break;
      case 2:
      case 3:
      case 4:
        Lease();
        break;
      case 5:
      case 6:
        Complete();
        break;
      case 7:
        Fail();
        break;
      case 8:
        Renew();
        break;
      default:
        if (Pick(0, 1) == 0) {
          const std::string agent = Agent();
          EXPECT_EQ(store_.agents.ReleaseLeases(agent).value(),
                    model_.Release(agent));
        } else if (Pick(0, 4) == 0) {
          EXPECT_EQ(store_.tasks.RetryFailedTasks("", {}).value(),
                    model_.RetryFailed());
        }
    }
    CheckSame();
  }

 private:
  std::int64_t Pick(std::int64_t from, std::int64_t to) {
    return std::uniform_int_distribution<std::int64_t>(from, to)(random_);
  }
  std::string Agent() { return Pick(0, 1) == 0 ? "a" : "b"; }

  std::int64_t Id(std::int64_t of_model) const {
    return ids_.at(static_cast<std::size_t>(of_model) - 1);
  }
  TaskRecord Numbered(TaskRecord task) const {
    task.id = Id(task.id);
    return task;
  }

  void Enqueue() {
    NewTask task = TestTask(static_cast<int>(Pick(0, 7)));
    task.max_workspace = Bytes(Pick(1, 4));
    task.priority = Pick(0, 2);
    const auto expected = model_.Enqueue(task, now_ms_);
    const auto result =
        store_.tasks.EnqueueTasks(std::span(&task, 1), {}, now_ms_);
    EXPECT_EQ(result->added, expected.added);
    EXPECT_EQ(result->reopened, expected.reopened);
    if (expected.added == 1) {
      ids_.push_back(store_.tasks.ListTasks({})->back().id);
    }
  }

  void Lease() {
    const LeaseRequest request{.kind = ToString(TestKind()),
                               .agent = Agent(),
                               .device = "d",
                               .max_count = Pick(0, 3),
                               .now_ms = now_ms_,
                               .until_ms = now_ms_ + 100};
    auto expected = model_.Lease(request);
    const auto leased = store_.tasks.LeaseTasks(request).value();
    ASSERT_EQ(leased.size(), expected.size());
    for (std::size_t i = 0; i < leased.size(); ++i) {
      expected[i].lease_token = leased[i].lease_token;
      model_.SetToken(expected[i].lease());
      EXPECT_EQ(leased[i], Numbered(expected[i]));
      taken_.push_back(expected[i]);
    }
  }

  // A random task as it was leased at some time; null if there is none.
  const TaskRecord* Taken() {
    if (taken_.empty()) return nullptr;
    // Mostly one of the latest.
    const auto last = std::ssize(taken_) - 1;
    const auto first =
        Pick(0, 3) == 0 ? 0 : std::max<std::int64_t>(0, last - 4);
    return &taken_[static_cast<std::size_t>(Pick(first, last))];
  }

  void Complete() {
    const TaskRecord* task = Taken();
    if (task == nullptr) return;
    TaskCompletion completion = Completion(*task, {});
    completion.now_ms = now_ms_;
    if (!model_.HasLatest(task->lease())) {
      completion.lease.task = Id(task->id);
      EXPECT_EQ(store_.tasks.CompleteTask(completion).error().code,
                Code::kFailedPrecondition);
      return;
    }
    const auto expected = model_.Complete(completion);
    completion.lease.task = Id(task->id);
    const auto result = store_.tasks.CompleteTask(completion).value();
    EXPECT_EQ(result.already, expected.already);
    EXPECT_EQ(result.reopened, expected.reopened);
  }

  void Fail() {
    const TaskRecord* task = Taken();
    if (task == nullptr) return;
    TaskFailure failure{task->lease(), {}, "it broke", Pick(0, 4) > 0, now_ms_};
    if (!model_.HasLatest(task->lease())) {
      failure.lease.task = Id(task->id);
      EXPECT_EQ(store_.tasks.FailTask(failure).error().code,
                Code::kFailedPrecondition);
      return;
    }
    const auto expected = model_.Fail(failure);
    failure.lease.task = Id(task->id);
    EXPECT_EQ(store_.tasks.FailTask(failure).value(), expected);
  }

  void Renew() {
    const TaskRecord* task = Taken();
    if (task == nullptr) return;
    LeaseRef lease = task->lease();
    const UnixMillis until_ms = now_ms_ + Pick(0, 200);
    auto expected = model_.Renew(lease, until_ms);
    for (std::int64_t& id : expected) id = Id(id);
    lease.task = Id(task->id);
    EXPECT_EQ(store_.agents.RenewLeases(std::span(&lease, 1), until_ms).value(),
              expected);
  }

  void CheckSame() {
    std::vector<TaskRecord> expected = model_.All();
    for (TaskRecord& task : expected) task = Numbered(task);
    EXPECT_TRUE(store_.tasks.ListTasks({}).value() == expected);
  }

  Store& store_;
  std::mt19937 random_;
  ModelQueue model_;
  UnixMillis now_ms_ = 1;
  std::vector<std::int64_t> ids_;  // in the store, by number in the model
  std::vector<TaskRecord> taken_;
};

TEST_P(StoreContract, AgreesWithTheModelOfItsQueue) {
  for (unsigned seed = 1; seed <= 3; ++seed) {
    database_ = GetParam().make();
    store_ = Open();
    BothQueues both(store(), seed);
    for (int step = 0; step < 400; ++step) {
      both.Step();
      ASSERT_FALSE(HasFailure()) << "seed " << seed << ", step " << step;
    }
  }
}

}  // namespace
}  // namespace ucudnn
