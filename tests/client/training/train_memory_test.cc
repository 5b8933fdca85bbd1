// The program ucudnn-train-memory, on the CPU.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/paths.h"
#include "tests/support/process.h"

namespace ucudnn {
namespace {

using ::testing::HasSubstr;

class TrainMemoryTest : public ::testing::Test {
 protected:
  TrainMemoryTest() {
    std::ofstream(folder_ / "net.csv")
        << "name,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,groups\n"
           "a,3,16,16,8,3,3,1,1,1,1,1\n"
           "b,8,16,16,8,3,3,1,1,1,1,1\n"
           "c,8,8,8,10,1,1,0,0,1,1,1\n";
  }

  std::vector<std::string> Command(std::vector<std::string> more) const {
    std::vector<std::string> command = {
        test::ProgramPath("ucudnn-train-memory"),
        "--device",
        "cpu",
        "--network",
        folder_ / "net.csv",
        "--batch",
        "4"};
    command.insert(command.end(), more.begin(), more.end());
    return command;
  }

  test::TemporaryFolder folder_;
};

TEST_F(TrainMemoryTest, TrainsWithinTheBudget) {
  const auto run = test::Run(Command({"--memory-budget", "1MiB", "--steps", "4",
                                      "--rate", "0.1", "-o", "json"}));
  ASSERT_EQ(run.status, 0) << run.err;
  const auto json = nlohmann::json::parse(run.out);
  EXPECT_LE(json["peak_bytes"], 1 << 20);
  EXPECT_EQ(json["policy"], "best");
  const std::vector<double> losses = json["losses"];
  ASSERT_EQ(losses.size(), 4U);
  EXPECT_LT(losses.back(), losses.front());
  EXPECT_GT(json["step_us"], 0);
}

TEST_F(TrainMemoryTest, ComparesOperatorsWithThePlan) {
  const auto run =
      test::Run(Command({"--memory-budget", "1MiB", "--recompute",
                         "--offload-weights", "--task-times", "--steps", "2"}));
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("convolution backward_filter"));
  EXPECT_THAT(run.out, HasSubstr("), tasks: 3"));
}

// The times that were measured are in the file, so the plan can be checked.
TEST_F(TrainMemoryTest, WritesTheGraphThatItPlanned) {
  const std::string graph = folder_ / "graph.json";
  const auto run =
      test::Run(Command({"--memory-budget", "300KiB", "--steps", "2",
                         "--graph-out", graph, "-o", "json"}));
  ASSERT_EQ(run.status, 0) << run.err;
  const auto trained = nlohmann::json::parse(run.out);
  const auto again =
      test::Run({test::ProgramPath("ucudnn"), "solve", "memory", "--graph",
                 graph, "--budget", "300KiB", "-o", "json"});
  ASSERT_EQ(again.status, 0) << again.err;
  const auto plan = nlohmann::json::parse(again.out);
  EXPECT_EQ(plan["time_us"], trained["predicted_us"]);
  EXPECT_EQ(plan["peak_bytes"], trained["peak_bytes"]);
}

TEST_F(TrainMemoryTest, NamesABudgetThatWouldDo) {
  const auto run = test::Run(
      Command({"--memory-budget", "10KiB", "--memory-policy", "vdnn-all"}));
  EXPECT_EQ(run.status, 3);
  EXPECT_EQ(run.out, "");
  EXPECT_THAT(run.err, HasSubstr("would do"));
}

TEST_F(TrainMemoryTest, TakesSizesForModelsAlone) {
  const auto csv = test::Run(Command({"--input-shape", "3,16,16"}));
  EXPECT_EQ(csv.status, 2);
  EXPECT_THAT(csv.err, HasSubstr("net.csv: it is text"));
  EXPECT_THAT(csv.err, HasSubstr("ONNX models"));
  const auto bad = test::Run(Command({"--input-shape", "3x16"}));
  EXPECT_EQ(bad.status, 2);
  EXPECT_THAT(bad.err, HasSubstr("3,224,224"));
}

TEST_F(TrainMemoryTest, RefusesAnUnknownPolicy) {
  const auto run = test::Run(Command({"--memory-policy", "nearest"}));
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr("'nearest'"));
  EXPECT_THAT(run.err, HasSubstr("undivided"));
}

TEST_F(TrainMemoryTest, StopsAfterTheStepWhenInterrupted) {
  test::Process process(
      Command({"--memory-budget", "1MiB", "--steps", "1000000000"}),
      folder_ / "log");
  // It takes some CPU time until it trains; a signal before that stops it too.
  ASSERT_TRUE(test::WaitUntil([&] {
    return !process.running() ||
           process.CpuTime() > std::chrono::milliseconds(200);
  }));
  process.Signal(SIGINT);
  EXPECT_EQ(process.Wait(), 130) << test::FileText(folder_ / "log");
}

}  // namespace
}  // namespace ucudnn
