// `ucudnn solve split` as its users run it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/client/cli/solve/solve_command.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"

namespace ucudnn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<std::string> SplitFlags(const std::string& budget,
                                    const std::string& policy = "hmms") {
  return {"--network",      test::DataPath("networks/vgg19.csv"),
          "--batch",        "256",
          "--device-model", "P100-NVLINK",
          "--policy",       policy,
          "--budget",       budget};
}

std::vector<std::string> With(std::vector<std::string> flags,
                              const std::vector<std::string>& more) {
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

TEST(SolveSplitTest, FindsTheLeastSplitAndItsPlan) {
  const test::TemporaryFolder folder;
  const nlohmann::json answer = SolveJson(
      "split", With(SplitFlags("8GB"), {"--graph-out", folder / "graph.json",
                                        "--timeline", folder / "trace.json"}));
  const nlohmann::json& split = answer["split"];
  EXPECT_EQ(split["convolutions"], 3);
  EXPECT_EQ(split["all_convolutions"], 16);
  EXPECT_EQ(split["depth"], 0.18);
  EXPECT_EQ(split["last_node"], "conv2_1");
  EXPECT_EQ(split["height_parts"].get<int>() * split["width_parts"].get<int>(),
            4);
  EXPECT_EQ(split["stochastic"], false);
  EXPECT_EQ(answer["network"],
            "vgg19 (split " + split["split"].get<std::string>() + ")");
  EXPECT_LE(answer["peak_bytes"], 8'000'000'000);
  const nlohmann::json& whole = answer["whole"];
  EXPECT_EQ(whole["fits"], false);
  EXPECT_GT(whole["budget_bytes"], 8'000'000'000);
  EXPECT_GT(whole["peak_bytes"], 8'000'000'000);
  EXPECT_FALSE(whole.contains("rounds"));
  EXPECT_EQ(answer["searched"]["cut_off"], false);
  // The plan is the one of `solve memory`, and checked as others are.
  const nlohmann::json plan =
      SolveJson("memory", With(SplitFlags("8GB"), {"--split", split["split"]}));
  EXPECT_EQ(plan["rounds"], answer["rounds"]);
  std::ofstream(folder / "plan.json") << answer.dump();
  const test::Finished check =
      test::Run({test::ProgramPath("ucudnn"), "check", folder / "plan.json"});
  EXPECT_EQ(check.status, 0) << check.err;
  std::ifstream graph(folder / "graph.json");
  EXPECT_EQ(nlohmann::json::parse(graph)["network"], answer["network"]);
  std::ifstream trace(folder / "trace.json");
  EXPECT_FALSE(nlohmann::json::parse(trace)["traceEvents"].empty());
}

TEST(SolveSplitTest, ShowsTheSplitBesideTheWholeNetwork) {
  const test::Finished run = Solve("split", SplitFlags("8GB"));
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("3 of 16"), HasSubstr("conv2_1"),
                             HasSubstr("\nwhole"), HasSubstr("7.45 GiB"),
                             HasSubstr(" of 785 splits searched")));
  // Progress, of which a pipe gets a line for every tenth.
  EXPECT_THAT(run.err, HasSubstr("0 of 785 splits searched"));
}

TEST(SolveSplitTest, SaysThatNothingNeedsToBeSplit) {
  const test::Finished run = Solve("split", SplitFlags("16GB"));
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("the whole network fits"));
  const nlohmann::json answer = SolveJson("split", SplitFlags("16GB"));
  EXPECT_TRUE(answer["split"].is_null());
  EXPECT_EQ(answer["network"], "vgg19");
  EXPECT_EQ(answer["whole"]["fits"], true);
}

TEST(SolveSplitTest, NamesTheLeastBudgetThatASplitReaches) {
  const test::Finished run =
      Solve("split", With(SplitFlags("600MB"), {"--max-parts", "4"}));
  EXPECT_EQ(run.status, 3) << run.out;
  EXPECT_THAT(run.err,
              AllOf(HasSubstr("no split fits into 572 MiB"),
                    HasSubstr("113 of 113 splits searched"),
                    HasSubstr("the least budget that a split reaches is "),
                    HasSubstr("the whole network needs 12.3 GiB")));
  // What it names would do.
  const std::size_t at = run.err.find(" bytes), by ");
  ASSERT_NE(at, std::string::npos);
  const std::size_t open = run.err.rfind('(', at);
  const std::string least = run.err.substr(open + 1, at - open - 1);
  const test::Finished enough =
      Solve("split", With(SplitFlags(least), {"--max-parts", "4"}));
  EXPECT_EQ(enough.status, 0) << enough.err;
}

TEST(SolveSplitTest, RefusesWhatItDoesNotKnow) {
  const auto error = [](const std::vector<std::string>& flags) {
    const test::Finished run = Solve("split", With(SplitFlags("8GB"), flags));
    EXPECT_EQ(run.status, 2) << run.out;
    return run.err;
  };
  EXPECT_THAT(error({"--max-parts", "1"}),
              AllOf(HasSubstr("--max-parts"), HasSubstr("64")));
  EXPECT_THAT(error({"--max-parts", "65"}), HasSubstr("--max-parts"));
  EXPECT_THAT(error({"--split", "0.5,2,2"}), HasSubstr("--split"));
  EXPECT_THAT(error({"--gpus", "2"}), HasSubstr("--gpus"));
  std::vector<std::string> flags = SplitFlags("8GB", "all");
  EXPECT_THAT(Solve("split", flags).err,
              AllOf(HasSubstr("--policy"), HasSubstr("'all'")));
  flags = SplitFlags("8GB");
  flags.erase(flags.begin() + 4, flags.begin() + 6);
  EXPECT_THAT(Solve("split", flags).err,
              HasSubstr("--device-model is required"));
}

// Of two convolutions; the profile has both, and of the splits those whose
// halves it has too.
TEST(SolveSplitTest, SearchesWhatTheProfileHasMeasured) {
  const test::TemporaryFolder folder;
  const std::string network = folder / "net.csv";
  std::ofstream(network)
      << "name,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,groups\n"
         "a,32,64,64,32,3,3,1,1,1,1,1\nb,32,64,64,32,3,3,1,1,1,1,1\n";
  std::string rows(kProfileHeader);
  rows.insert(rows.size() - 1, ",problem");
  const auto add = [&](const std::string& layer, const std::string& shape) {
    for (const std::string op :
         {"forward", "backward_filter", "backward_data"}) {
      rows += "d,net," + layer + "," + op + ",FP32,NCHW,64,GEMM,FMA,0,900," +
              op + "-c32-" + shape +
              "-k32-r3s3-pad1x1-str1x1-dil1x1-g1-FP32-NCHW\n";
    }
  };
  add("a", "h64w64");
  add("b", "h64w64");
  std::ofstream(folder / "whole.csv") << rows;
  add("halves", "h32w64");
  std::ofstream(folder / "halves.csv") << rows;
  const auto flags = [&](const std::string& profile) {
    return std::vector<std::string>{
        "--network",      network,       "--batch",   "64",
        "--device-model", "P100-NVLINK", "--policy",  "hmms",
        "--budget",       "100MiB",      "--profile", folder / profile};
  };
  const nlohmann::json answer = SolveJson("split", flags("halves.csv"));
  EXPECT_THAT(answer["split"]["split"].get<std::string>(), HasSubstr(",2,1"));
  EXPECT_GT(answer["searched"]["unmeasured"], 0);
  const test::Finished none = Solve("split", flags("whole.csv"));
  EXPECT_EQ(none.status, 3) << none.out;
  EXPECT_THAT(none.err, HasSubstr(" not measured (the first: "));
}

TEST(SolveSplitTest, SaysWhatIsKnownOnCtrlC) {
  const test::TemporaryFolder folder;
  std::vector<std::string> flags =
      With(SplitFlags("600MB"), {"--max-parts", "64", "--time-limit", "3600"});
  flags.insert(flags.begin(), {test::ProgramPath("ucudnn"), "solve", "split"});
  test::Process solve(flags, folder / "log");
  ASSERT_TRUE(test::WaitUntil(
      [&] { return solve.CpuTime() > std::chrono::milliseconds(1000); }));
  solve.Signal(SIGINT);
  EXPECT_EQ(solve.Wait(), 130) << test::FileText(folder / "log");
  EXPECT_THAT(test::FileText(folder / "log"),
              HasSubstr("the search was stopped before it found a split that "
                        "fits into 572 MiB"));
}

}  // namespace
}  // namespace ucudnn
