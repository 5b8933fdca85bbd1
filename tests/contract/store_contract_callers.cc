// How many tasks each caller may have open.

#include <array>
#include <atomic>
#include <thread>

#include "tests/contract/store_contract.h"

namespace ucudnn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

Asker By(const std::string& caller) {
  return {.caller = caller, .max_open = 5, .max_open_of_caller = 3};
}

Result<std::int64_t> OpenFor(Store& store, const Asker& asker,
                             const std::vector<NewTask>& tasks) {
  const auto opened = store.tasks.EnqueueTasks(tasks, asker, 1);
  if (!opened) return tl::unexpected<Error>(opened.error());
  return opened->added + opened->reopened;
}

TEST_P(StoreContract, LimitsWhatACallerHasOpen) {
  EXPECT_EQ(OpenFor(store(), By("alice"), {TestTask(1), TestTask(2)}), 2);
  const auto refused =
      OpenFor(store(), By("alice"), {TestTask(2), TestTask(3), TestTask(4)});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kResourceExhausted);
  EXPECT_THAT(refused.error().message,
              AllOf(HasSubstr("2 measurements would be requested"),
                    HasSubstr("2 that alice requested are queued already"),
                    HasSubstr("up to 3 may be queued at once for one caller"),
                    HasSubstr("max-queued-measurements-per-caller")));
  EXPECT_THAT(store().tasks.ListTasks({}).value(), SizeIs(2));
  EXPECT_EQ(OpenFor(store(), By("alice"), {TestTask(3)}), 1);
  // What is open already costs nobody anything, and stays whose it is.
  EXPECT_EQ(OpenFor(store(), By("alice"), {TestTask(1), TestTask(2)}), 0);
  EXPECT_EQ(OpenFor(store(), By("bob"), {TestTask(3), TestTask(4)}), 1);
  EXPECT_EQ(store().tasks.ListTasks({})->at(2).asked_by, "alice");
  EXPECT_EQ(store().tasks.ListTasks({})->at(3).asked_by, "bob");
  EXPECT_EQ(store().tasks.CountOpenTasks("alice")->of_caller, 3);
  EXPECT_EQ(store().tasks.CountOpenTasks("bob")->of_caller, 1);
  EXPECT_EQ(store().tasks.CountOpenTasks("")->of_caller, 0);
  EXPECT_EQ(store().tasks.CountOpenTasks("")->all, 4);
  // All together have a limit too.
  const auto all = OpenFor(store(), By("bob"), {TestTask(5), TestTask(6)});
  ASSERT_FALSE(all);
  EXPECT_THAT(all.error().message,
              AllOf(HasSubstr("2 measurements would be requested and 4 are "
                              "queued already; up to 5"),
                    HasSubstr("max-queued-measurements of")));
  // Who has a task measured leaves room; who takes one does not.
  const auto leased = Lease(store(), 1, 10);
  EXPECT_FALSE(OpenFor(store(), By("alice"), {TestTask(5)}));
  ASSERT_TRUE(store().tasks.CompleteTask(Completion(leased.at(0), {})));
  EXPECT_EQ(OpenFor(store(), By("alice"), {TestTask(5)}), 1);
}

TEST_P(StoreContract, ChargesTheCallerWhoOpensATaskAgain) {
  Enqueue(store(), {TestTask(1), TestTask(2), TestTask(3), TestTask(4)});
  const auto tasks = Lease(store(), 4, 0);
  ASSERT_THAT(tasks, SizeIs(4));
  ASSERT_TRUE(store().tasks.FailTask({.lease = tasks[0].lease(),
                                      .error = "no",
                                      .retryable = false,
                                      .now_ms = 5}));
  const std::array cancelled = {tasks[1].id};
  ASSERT_TRUE(store().tasks.CancelTasks(cancelled, "by carol", 5));
  TaskCompletion done = Completion(tasks[2], {TestPoint(32, "FFT", 5)});
  done.origin.driver = "old";
  ASSERT_TRUE(store().tasks.CompleteTask(done));
  ASSERT_TRUE(store().tasks.CompleteTask(Completion(tasks[3], {})));
  EXPECT_EQ(store().tasks.CountOpenTasks("")->all, 0);

  const std::string& kind = tasks[0].key.kind;
  const std::array of_cancelled = {tasks[1].key};
  const std::array of_done = {tasks[2].key};
  const std::array<std::string, 1> drivers = {"new"};
  NewTask larger = TestTask(4);
  larger.max_workspace = 128_MiB;
  const auto open_all = [&](const Asker& asker) {
    return std::array{
        store().tasks.RetryFailedTasks(kind, asker),
        store().tasks.ReopenCancelledTasks(of_cancelled, asker),
        store().tasks.ReopenStaleTasks(kind, of_done, drivers, asker),
        OpenFor(store(), asker, {larger}),
    };
  };
  const Asker none{.caller = "alice", .max_open_of_caller = 0};
  for (const auto& refused : open_all(none)) {
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::kResourceExhausted);
  }
  EXPECT_EQ(store().tasks.CountOpenTasks("alice")->all, 0);
  for (const auto& opened : open_all({.caller = "alice"})) {
    EXPECT_EQ(opened, 1);
  }
  EXPECT_EQ(store().tasks.CountOpenTasks("alice")->of_caller, 4);
  EXPECT_EQ(store().tasks.CountOpenTasks("")->of_caller, 0);
}

TEST_P(StoreContract, LimitsACallerWhoAsksInManyPlacesAtOnce) {
  const auto other = database_->shared() ? Open() : nullptr;
  const Asker alice{.caller = "alice", .max_open_of_caller = 50};
  std::atomic<int> admitted = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      Store& asked = other != nullptr && t % 2 == 1 ? *other : store();
      for (int request = 0; request < 3; ++request) {
        std::vector<NewTask> tasks;
        for (int i = 0; i < 10; ++i) {
          tasks.push_back(TestTask(i, 1 + t * 3 + request));
        }
        const auto opened = asked.tasks.EnqueueTasks(tasks, alice, 1);
        if (opened) {
          ++admitted;
        } else {
          EXPECT_EQ(opened.error().code, Code::kResourceExhausted);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(admitted, 5);
  EXPECT_EQ(store().tasks.CountOpenTasks("alice")->of_caller, 50);
}

}  // namespace
}  // namespace ucudnn
