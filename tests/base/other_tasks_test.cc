#include "base/other_tasks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace ucudnn {
namespace {

using ::testing::HasSubstr;

OtherTasks SomeTasks() {
  return {.network = std::string(60, '0') + "19af",
          .precision = Precision::kFp32,
          .momentum = false};
}

TEST(OtherTasksTest, ReadsBackWhatItWrites) {
  OtherTasks tasks = SomeTasks();
  EXPECT_EQ(ToString(tasks),
            "tasks-" + std::string(60, '0') + "19af-FP32-NCHW");
  EXPECT_EQ(ParseOtherTasks(ToString(tasks)), tasks);
  tasks.precision = Precision::kTrueHalf;
  tasks.momentum = true;
  EXPECT_EQ(ParseOtherTasks(ToString(tasks)), tasks);
}

TEST(OtherTasksTest, RefusesAnythingElse) {
  const std::string good = ToString(SomeTasks());
  for (std::string bad :
       {std::string("tasks-"), good + "x", good.substr(0, good.size() - 1),
        "tasks-" + good, "tasks-0" + good.substr(6), "tasks-G" + good.substr(7),
        good.substr(0, good.size() - 4) + "NHWC",
        std::string("forward-c1-h4w4-k1-r1s1-pad0x0-str1x1-dil1x1-g1-FP32-"
                    "NCHW")}) {
    const auto parsed = ParseOtherTasks(bad);
    ASSERT_FALSE(parsed) << bad;
    EXPECT_EQ(parsed.error().code, Code::kInvalidArgument);
  }
}

TEST(OtherTasksTest, AreAProblemBesideConvolutions) {
  EXPECT_TRUE(CheckProblem(ToString(SomeTasks())));
  EXPECT_TRUE(CheckProblem(
      "forward-c1-h4w4-k1-r1s1-pad0x0-str1x1-dil1x1-g1-FP32-NCHW"));
  EXPECT_THAT(CheckProblem("tasks-1").error().message, HasSubstr("'tasks-1'"));
  EXPECT_FALSE(CheckProblem("forward"));
}

}  // namespace
}  // namespace ucudnn
