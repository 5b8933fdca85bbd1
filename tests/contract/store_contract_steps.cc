// The steps of frameworks.

#include <gmock/gmock.h>

#include <barrier>
#include <functional>
#include <span>
#include <thread>

#include "tests/contract/store_contract.h"

namespace ucudnn {
namespace {

StepRecord TestStep(const std::string& name, const std::string& hash) {
  return {.name = name,
          .revision = 0,
          .hash = hash,
          .put_by = "job j",
          .updated_ms = 7,
          .outline = std::string("o\0u", 3),
          .content = "{\"" + hash + "\"}"};
}

TEST_P(StoreContract, KeepsTheNewestContentOfAStep) {
  StepRecord stored = TestStep("s", "a");
  stored.revision = 1;
  stored.content.clear();
  EXPECT_EQ(store().steps.PutStep(TestStep("s", "a"), 9), stored);
  const auto put = store().changes.CountChanges().value();
  // The same again changes nothing, not even who put it.
  StepRecord again = TestStep("s", "a");
  again.put_by = "job k";
  EXPECT_EQ(store().steps.PutStep(again, 9), stored);
  EXPECT_EQ(store().changes.CountChanges(), put);
  StepRecord first = TestStep("s", "a");
  first.revision = 1;
  EXPECT_EQ(store().steps.GetStep("s"), first);

  EXPECT_EQ(store().steps.PutStep(TestStep("s", "b"), 9)->revision, 2);
  EXPECT_GT(store().changes.CountChanges()->steps, put.steps);
  StepRecord second = TestStep("s", "b");
  second.revision = 2;
  EXPECT_EQ(store().steps.GetStep("s"), second);
}

// Who puts or registers something first has it, of two that do it at once
// through stores of their own. Returns the errors of the others.
std::vector<Error> OfTwoAtOnce(
    const std::function<Status(int caller, int turn)>& put) {
  constexpr int kTurns = 20;
  std::vector<Error> errors(2 * kTurns, Error{Code::kOk, ""});
  std::barrier together(2);
  std::vector<std::thread> threads;
  for (int caller = 0; caller < 2; ++caller) {
    threads.emplace_back([&, caller] {
      for (int turn = 0; turn < kTurns; ++turn) {
        together.arrive_and_wait();
        const Status status = put(caller, turn);
        if (!status) errors[2 * turn + caller] = status.error();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int turn = 0; turn < kTurns; ++turn) {
    EXPECT_NE(errors[2 * turn].code == Code::kOk,
              errors[2 * turn + 1].code == Code::kOk);
  }
  std::erase_if(errors, [](const Error& e) { return e.code == Code::kOk; });
  return errors;
}

TEST_P(StoreContract, LeavesAStepToWhoPutItFirst) {
  const auto other = database_->shared() ? Open() : nullptr;
  const auto put = [&](int caller, int turn) -> Status {
    StepRecord step = TestStep(fmt::format("s{}", turn), "a");
    step.put_by = fmt::format("job {}", caller);
    Store& asked = caller == 1 && other != nullptr ? *other : store();
    UCUDNN_RETURN_IF_ERROR(asked.steps.PutStep(step, 99, /*own_only=*/true));
    EXPECT_EQ(store().steps.GetStep(step.name)->put_by, step.put_by);
    return {};
  };
  for (const Error& error : OfTwoAtOnce(put)) {
    EXPECT_EQ(error.code, Code::kPermissionDenied);
    EXPECT_THAT(error.message, ::testing::ContainsRegex(
                                   "was put by job .; job . may put another"));
  }
  StepRecord mine = TestStep("s1", "b");
  mine.put_by = store().steps.GetStep("s1")->put_by;
  EXPECT_EQ(store().steps.PutStep(mine, 99, true)->revision, 2);
  EXPECT_EQ(store().steps.PutStep(TestStep("s1", "c"), 99)->revision, 3);
}

TEST_P(StoreContract, LeavesADeviceToTheAgentThatRegisteredItFirst) {
  const auto other = database_->shared() ? Open() : nullptr;
  const auto put = [&](int caller, int turn) {
    AgentRegistration registration;
    registration.agent = TestAgent(fmt::format("agent{}-{}", caller, turn));
    registration.devices = {TestDevice(fmt::format("GPU-{}", turn))};
    registration.own_only = true;
    Store& asked = caller == 1 && other != nullptr ? *other : store();
    return asked.agents.RegisterAgents(std::span(&registration, 1));
  };
  for (const Error& error : OfTwoAtOnce(put)) {
    EXPECT_EQ(error.code, Code::kPermissionDenied);
    EXPECT_THAT(error.message,
                ::testing::ContainsRegex(
                    "device GPU-.* is that of agent agent.*, which is not"));
  }
  EXPECT_EQ(store().agents.ListAgents()->size(), 20U);
  const std::string first = store().agents.GetDevice("GPU-0")->agent;
  const int second = first == "agent0-0" ? 1 : 0;
  ASSERT_TRUE(
      store().agents.SetAgentState(first, AgentState::kGone, "stopped"));
  EXPECT_TRUE(put(second, 0));
  EXPECT_EQ(store().agents.GetDevice("GPU-0")->agent,
            fmt::format("agent{}-0", second));
}

TEST_P(StoreContract, ListsStepsByNameWithoutTheirContent) {
  for (const char* name : {"b", "c", "a"}) {
    ASSERT_TRUE(store().steps.PutStep(TestStep(name, "h"), 9));
  }
  StepRecord listed = TestStep("b", "h");
  listed.revision = 1;
  listed.content.clear();
  EXPECT_EQ(store().steps.ListSteps(1, "a"), std::vector{listed});
  EXPECT_EQ(store().steps.ListSteps(9)->size(), 3U);
  EXPECT_EQ(store().steps.ListSteps(9, "c")->size(), 0U);
}

TEST_P(StoreContract, TakesSoManySteps) {
  ASSERT_TRUE(store().steps.PutStep(TestStep("a", "h"), 1));
  const auto refused = store().steps.PutStep(TestStep("b", "h"), 1);
  EXPECT_EQ(refused.error().code, Code::kResourceExhausted);
  EXPECT_THAT(refused.error().message, ::testing::HasSubstr("there are 1"));
  EXPECT_EQ(store().steps.PutStep(TestStep("a", "i"), 1)->revision, 2);
}

TEST_P(StoreContract, DeletesStepsAndTellsWho) {
  EXPECT_EQ(store().steps.GetStep("s").error().code, Code::kNotFound);
  EXPECT_EQ(store().steps.DeleteStep("s", {}).error().code, Code::kNotFound);
  ASSERT_TRUE(store().steps.PutStep(TestStep("s", "a"), 9));
  const auto put = store().changes.CountChanges().value();
  EXPECT_TRUE(store().steps.DeleteStep("s", {.made_ms = 1,
                                             .who = "me",
                                             .what = "delete",
                                             .object = "step s",
                                             .reason = "",
                                             .outcome = ""}));
  EXPECT_GT(store().changes.CountChanges()->steps, put.steps);
  EXPECT_EQ(store().steps.GetStep("s").error().code, Code::kNotFound);
  EXPECT_EQ(store().actions.ListActions(9, 0)->at(0).object, "step s");
}

}  // namespace
}  // namespace ucudnn
