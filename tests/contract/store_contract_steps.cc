// The steps of frameworks.

#include <gmock/gmock.h>

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
