#include "base/goal.h"

#include <gtest/gtest.h>

namespace ucudnn {
namespace {

TEST(TaskGoalTest, ReadsBackWhatItWrites) {
  for (const TaskGoal& goal :
       {TaskGoal{}, TaskGoal{true, {}}, TaskGoal{true, Bytes(0)},
        TaskGoal{true, 64_MiB}, TaskGoal{true, 64_MiB, 1e-5},
        TaskGoal{true, {}, 0.125}}) {
    EXPECT_EQ(ParseTaskGoal(ToString(goal)).value(), goal);
  }
  EXPECT_EQ(ToString(TaskGoal{true, 64_MiB}), "adaptive-67108864");
  EXPECT_EQ(ToString(TaskGoal{true, 64_MiB, 1e-3}),
            "adaptive-67108864-within-0.001");
}

TEST(TaskGoalTest, RefusesOtherTexts) {
  for (const char* text :
       {"all", "adaptive-", "adaptive-07", "adaptive--1", "adaptive 7",
        "adaptive-1MiB", "adaptive-within-1", "adaptive-7-within-",
        "adaptive-7-within-1e-3", "-within-0.001"}) {
    EXPECT_EQ(ParseTaskGoal(text).error().code, Code::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace ucudnn
