#include "base/goal.h"

#include <gtest/gtest.h>

namespace ucudnn {
namespace {

TEST(TaskGoalTest, ReadsBackWhatItWrites) {
  for (const TaskGoal& goal :
       {TaskGoal{}, TaskGoal{true, {}}, TaskGoal{true, Bytes(0)},
        TaskGoal{true, 64_MiB}}) {
    EXPECT_EQ(ParseTaskGoal(ToString(goal)).value(), goal);
  }
  EXPECT_EQ(ToString(TaskGoal{true, 64_MiB}), "adaptive-67108864");
}

TEST(TaskGoalTest, RefusesOtherTexts) {
  for (const char* text : {"all", "adaptive-", "adaptive-07", "adaptive--1",
                           "adaptive 7", "adaptive-1MiB"}) {
    EXPECT_EQ(ParseTaskGoal(text).error().code, Code::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace ucudnn
