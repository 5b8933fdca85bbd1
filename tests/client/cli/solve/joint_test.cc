// `ucudnn solve joint`: a mini-batch shared among GPUs of limited memory.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/client/cli/solve/solve_command.h"
#include "tests/support/process.h"

namespace ucudnn {
namespace {

using ::testing::HasSubstr;

class SolveJointTest : public ::testing::Test {
 protected:
  SolveJointTest() {
    std::ofstream(folder_ / "chain.csv")
        << "name,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,groups\n"
           "a,3,64,64,16,3,3,1,1,1,1,1\n"
           "b,16,64,64,16,3,3,1,1,1,1,1\n"
           "c,16,32,32,32,3,3,1,1,1,1,1\n";
  }

  std::vector<std::string> Flags(const std::vector<std::string>& gpus) {
    std::vector<std::string> flags = {"--network", folder_ / "chain.csv",
                                      "--batch", "32"};
    for (const std::string& gpu : gpus) {
      flags.insert(flags.end(), {"--gpu", gpu});
    }
    return flags;
  }

  test::TemporaryFolder folder_;
};

TEST_F(SolveJointTest, SharesTheBatchAndPlansEachShare) {
  const nlohmann::json answer =
      SolveJson("joint", Flags({"K40=8MiB", "K40=8MiB", "P100-NVLINK"}));
  EXPECT_EQ(answer["makespan_us"], answer["lower_bound_us"]);
  ASSERT_EQ(answer["gpus"].size(), 3U);
  ASSERT_LE(answer["plans"].size(), 3U);
  int sum = 0;
  for (const auto& gpu : answer["gpus"]) {
    sum += gpu["batch"].get<int>();
    EXPECT_LE(gpu["time_us"], answer["makespan_us"]);
    EXPECT_NE(gpu["why"], "");
    if (gpu["plan"].is_null()) continue;
    const auto& plan = answer["plans"][gpu["plan"].get<std::size_t>()];
    EXPECT_EQ(plan["batch"], gpu["batch"]);
    EXPECT_EQ(plan["time_us"], gpu["time_us"]);
    EXPECT_LE(plan["peak_bytes"], gpu["budget_bytes"]);
  }
  EXPECT_EQ(sum, 32);
  // Each plan has its graph, so the whole answer can be checked.
  std::ofstream(folder_ / "answer.json") << answer;
  const test::Finished checked = test::Run(
      {test::ProgramPath("ucudnn"), "check", folder_ / "answer.json"});
  EXPECT_EQ(checked.status, 0) << checked.err;
}

TEST_F(SolveJointTest, ExplainsSharesInATable) {
  const test::Finished run = Solve("joint", Flags({"K40=6MiB", "K40"}));
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("would fit whole"));
  EXPECT_THAT(run.out,
              HasSubstr("(optimal); with all of each share in memory"));
}

TEST_F(SolveJointTest, SaysOfWhichGpuAccuracyIsNotMeasured) {
  WriteProfileOfUnlikeErrors(folder_ / "known.csv", 16, true);
  WriteProfileOfUnlikeErrors(folder_ / "unknown.csv", 16, false);
  const std::string unknown = "K40=8MiB," + (folder_ / "unknown.csv");
  std::vector<std::string> flags =
      Flags({"K40," + (folder_ / "known.csv"), unknown});
  flags.insert(flags.end(), {"--step", "16"});
  const nlohmann::json answer = SolveJson("joint", flags);
  EXPECT_EQ(
      answer["notes"],
      nlohmann::json({unknown + ": accuracy not measured: 1 of 1 kernels have "
                                "algorithms of unknown error"}));
  EXPECT_THAT(answer.dump(), HasSubstr("\"EXACT\""));
  EXPECT_THAT(Solve("joint", flags).out, HasSubstr("\n" + unknown + ": acc"));
  flags.insert(flags.end(), {"--max-error", "1e-7"});
  EXPECT_THAT(Solve("joint", flags).err, HasSubstr("max_error 1e-06 admits"));
}

TEST_F(SolveJointTest, NamesWhatItCannotUse) {
  const auto refused = [&](const std::string& gpu, int status) {
    const test::Finished run = Solve("joint", Flags({gpu}));
    EXPECT_EQ(run.status, status) << run.err;
    return run.err;
  };
  EXPECT_THAT(refused("K41", 2), HasSubstr("--gpu: no file 'K41'"));
  EXPECT_THAT(refused("K40=much", 2), HasSubstr("--gpu: 'much' is not a size"));
  EXPECT_THAT(refused("K40=0", 2), HasSubstr("1 byte or more is accepted"));
  EXPECT_THAT(refused("K40=10kB", 3),
              HasSubstr("no GPU has the memory for a share of 1 images"));
  std::vector<std::string> flags = Flags({"K40"});
  flags.insert(flags.end(), {"--policy", "all"});
  EXPECT_THAT(Solve("joint", flags).err, HasSubstr("--policy: "));
}

}  // namespace
}  // namespace ucudnn
