// `ucudnn solve memory` as its users run it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/client/cli/solve/solve_command.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"

namespace ucudnn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// A chain of three convolutions and one pooling.
std::string NetworkFile() {
  const std::string path = ::testing::TempDir() + "memory_chain.csv";
  std::ofstream(path)
      << "name,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,groups\n"
         "a,3,64,64,16,3,3,1,1,1,1,1\n"
         "b,16,64,64,16,3,3,1,1,1,1,1\n"
         "c,16,32,32,32,3,3,1,1,1,1,1\n";
  return path;
}

std::vector<std::string> Flags(const std::string& policy,
                               const std::string& budget) {
  return {"--network", NetworkFile(), "--batch", "32",       "--device-model",
          "K40",       "--policy",    policy,    "--budget", budget};
}

TEST(SolveMemoryTest, PrintsAPlanWithItsGraphAndTimeline) {
  const std::string graph = ::testing::TempDir() + "memory_graph.json";
  const std::string trace = ::testing::TempDir() + "memory_trace.json";
  std::vector<std::string> flags = Flags("vdnn-all", "64MiB");
  flags.insert(flags.end(), {"--graph-out", graph, "--timeline", trace});
  const nlohmann::json plan = SolveJson("memory", flags);
  EXPECT_EQ(plan["policy"], "vdnn-all");
  EXPECT_EQ(plan["feasible"], true);
  EXPECT_EQ(plan["batch"], 32);
  EXPECT_LE(plan["peak_bytes"], plan["budget_bytes"]);
  EXPECT_GE(plan["time_us"], plan["lower_bound_us"]);
  EXPECT_GT(plan["offloaded_bytes"], 0);
  EXPECT_FALSE(plan["rounds"][0]["events"].empty());
  std::ifstream graph_file(graph);
  EXPECT_EQ(nlohmann::json::parse(graph_file)["tasks"][0]["name"], "a.forward");
  std::ifstream trace_file(trace);
  EXPECT_FALSE(nlohmann::json::parse(trace_file)["traceEvents"].empty());
}

TEST(SolveMemoryTest, PlansAGraphAsTheNetworkThatItCameFrom) {
  const std::string graph = ::testing::TempDir() + "memory_again.json";
  std::vector<std::string> flags = Flags("vdnn-all", "64MiB");
  flags.insert(flags.end(), {"--graph-out", graph});
  const nlohmann::json plan = SolveJson("memory", flags);
  const nlohmann::json again = SolveJson(
      "memory",
      {"--graph", graph, "--policy", "vdnn-all", "--budget", "64MiB"});
  EXPECT_EQ(again["rounds"], plan["rounds"]);
  EXPECT_EQ(again["graph"], plan["graph"]);
}

TEST(SolveMemoryTest, TakesEitherANetworkOrAGraph) {
  const test::Finished neither = Solve("memory", {"--batch", "4"});
  EXPECT_EQ(neither.status, 2);
  EXPECT_THAT(neither.err, HasSubstr("--network is required, or --graph"));
  std::vector<std::string> flags = Flags("vdnn-all", "64MiB");
  flags.insert(flags.end(), {"--graph", "graph.json"});
  const test::Finished both = Solve("memory", flags);
  EXPECT_EQ(both.status, 2);
  EXPECT_THAT(both.err, HasSubstr("excludes"));
}

TEST(SolveMemoryTest, SaysThatAccuracyIsNotMeasured) {
  const test::TemporaryFolder folder;
  WriteProfileOfUnlikeErrors(folder / "known.csv", 32, true);
  WriteProfileOfUnlikeErrors(folder / "unknown.csv", 32, false);
  for (const std::string policy : {"vdnn-all", "all"}) {
    std::vector<std::string> flags = Flags(policy, "1GiB");
    flags.insert(flags.end(), {"--profile", folder / "known.csv"});
    EXPECT_FALSE(SolveJson("memory", flags).contains("notes"));
    EXPECT_THAT(Solve("memory", flags).out, Not(HasSubstr("accuracy")));
    flags.back() = folder / "unknown.csv";
    EXPECT_THAT(SolveJson("memory", flags)["notes"],
                ElementsAre(StartsWith("accuracy not measured: 1 of 1 ")));
    EXPECT_THAT(Solve("memory", flags).out,
                HasSubstr("\naccuracy not measured: 1 of 1 kernels"));
  }
}

TEST(SolveMemoryTest, BoundsTheErrorsOfAlgorithms) {
  const test::TemporaryFolder folder;
  WriteProfileOfUnlikeErrors(folder / "p.csv", 32, true);
  std::vector<std::string> flags = Flags("baseline", "1GiB");
  flags.insert(flags.end(), {"--profile", folder / "p.csv"});
  EXPECT_THAT(SolveJson("memory", flags).dump(), HasSubstr("\"EXACT\""));
  flags.insert(flags.end(), {"--max-error", "0.1"});
  EXPECT_THAT(SolveJson("memory", flags).dump(), HasSubstr("\"FAST\""));
  // The errors of a graph's costs are not known.
  EXPECT_THAT(Solve("memory", {"--graph", "g.json", "--max-error", "0.1"}).err,
              HasSubstr("excludes"));
}

TEST(SolveMemoryTest, ComparesAllPolicies) {
  const nlohmann::json answer = SolveJson("memory", Flags("all", "1GiB"));
  ASSERT_GE(answer["plans"].size(), 5u);
  for (const auto& plan : answer["plans"]) EXPECT_EQ(plan["feasible"], true);
}

TEST(SolveMemoryTest, SearchesForTheBestPlanUnlessAPolicyIsNamed) {
  std::vector<std::string> flags = Flags("", "24MiB");
  flags.erase(flags.begin() + 6, flags.begin() + 8);
  const nlohmann::json best = SolveJson("memory", flags);
  EXPECT_EQ(best["policy"], "best");
  const nlohmann::json answer = SolveJson("memory", Flags("all", "24MiB"));
  for (const auto& plan : answer["plans"]) {
    if (!plan["feasible"]) continue;
    EXPECT_LE(best["time_us"], plan["time_us"]) << plan["policy"];
  }
}

TEST(SolveMemoryTest, ComputesAgainAndHostsWeightsIfAllowed) {
  std::vector<std::string> flags = Flags("best", "21MiB");
  flags.insert(flags.end(), {"--sub-batch", "32"});
  const nlohmann::json moved = SolveJson("memory", flags);
  flags.insert(flags.end(), {"--recompute", "--offload-weights"});
  const nlohmann::json free = SolveJson("memory", flags);
  EXPECT_LE(free["time_us"], moved["time_us"]);
  EXPECT_LE(free["lower_bound_us"], free["time_us"]);
}

TEST(SolveMemoryTest, NamesABudgetThatWouldDo) {
  const test::Finished run = Solve("memory", Flags("vdnn-all", "8MiB"));
  EXPECT_EQ(run.status, 3);
  EXPECT_THAT(run.err, HasSubstr("would do"));
}

TEST(SolveMemoryTest, PlansTheNetworkInPartsOfTheImage) {
  const std::string graph = ::testing::TempDir() + "memory_split.json";
  std::vector<std::string> flags = Flags("hmms", "1GiB");
  flags.insert(flags.end(), {"--split", "0.6,2,2", "--graph-out", graph});
  const nlohmann::json plan = SolveJson("memory", flags);
  EXPECT_EQ(plan["network"], "memory_chain (split 0.6,2,2)");
  std::ifstream file(graph);
  const nlohmann::json tasks = nlohmann::json::parse(file)["tasks"];
  EXPECT_EQ(tasks[0]["name"], "a.h0w0.forward");
}

TEST(SolveMemoryTest, NamesWhatCannotBeSplit) {
  const auto run = [](const std::string& split) {
    std::vector<std::string> flags = Flags("hmms", "1GiB");
    flags.insert(flags.end(), {"--split", split});
    return Solve("memory", flags);
  };
  EXPECT_EQ(run("2,2,2").status, 2);
  EXPECT_THAT(run("2,2,2").err, HasSubstr("--split: depth '2'"));
  EXPECT_EQ(run("1,64,1").status, 2);
  EXPECT_THAT(run("1,64,1").err,
              HasSubstr("--split: 64 parts of the height of tensor 'c', which "
                        "is 32; 1 to 32 are accepted"));
}

TEST(SolveMemoryTest, PlansForOneOfSeveralGpus) {
  std::vector<std::string> flags = Flags("modnn", "64MiB");
  flags.insert(flags.end(), {"--gpus", "4"});
  const nlohmann::json plan = SolveJson("memory", flags);
  EXPECT_EQ(plan["gpus"], 4);
  EXPECT_EQ(plan["batch"], 8);
  // Every weight returns from the host.
  EXPECT_GT(plan["prefetched_bytes"], 0);
  flags = Flags("all", "64MiB");
  flags.insert(flags.end(), {"--gpus", "4"});
  EXPECT_EQ(SolveJson("memory", flags)["plans"].size(), 1u);
}

TEST(SolveMemoryTest, RefusesGpusThatNobodyPlansFor) {
  const auto refused = [](const std::string& policy, const std::string& gpus) {
    std::vector<std::string> flags = Flags(policy, "64MiB");
    flags.insert(flags.end(), {"--gpus", gpus});
    const test::Finished run = Solve("memory", flags);
    EXPECT_EQ(run.status, 2);
    return run.err;
  };
  EXPECT_THAT(refused("vdnn-all", "2"), HasSubstr("modnn is accepted"));
  EXPECT_THAT(refused("modnn", "5"), HasSubstr("--gpus"));
  EXPECT_THAT(refused("modnn", "0"), HasSubstr("--gpus"));
}

TEST(SolveMemoryTest, RefusesWhatItDoesNotKnow) {
  EXPECT_EQ(Solve("memory", Flags("magic", "1GiB")).status, 2);
  std::vector<std::string> flags = Flags("vdnn-all", "1GiB");
  flags[5] = "K41";
  const test::Finished run = Solve("memory", flags);
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr("K40"));
}

TEST(SolveMemoryTest, NamesABrokenModelOnce) {
  const std::string path = ::testing::TempDir() + "memory_broken.onnx";
  std::ofstream(path) << '\x01';
  std::vector<std::string> flags = Flags("hmms", "1GiB");
  flags[1] = path;
  const test::Finished run = Solve("memory", flags);
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr("ucudnn: " + path + ": its 1 bytes are not"));
}

// 150 layers keep the search busy for longer than the test waits.
TEST(SolveMemoryTest, PrintsTheBestPlanFoundUntilCtrlC) {
  const test::TemporaryFolder folder;
  const std::string network = folder / "deep.csv";
  {
    std::ofstream file(network);
    file << "name,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,groups\n";
    for (int i = 0; i < 150; ++i) {
      file << "c" << i << ",16,64,64,16,3,3,1,1,1,1,1\n";
    }
  }
  test::Process solve(
      {test::ProgramPath("ucudnn"), "solve", "memory", "--network", network,
       "--batch", "32", "--device-model", "K40", "--budget", "12MB",
       "--recompute", "--offload-weights", "--time-limit", "3600", "-o",
       "json"},
      folder / "log");
  // Reading takes milliseconds, so the search has begun by then.
  ASSERT_TRUE(test::WaitUntil(
      [&] { return solve.CpuTime() > std::chrono::milliseconds(1500); }));
  solve.Signal(SIGINT);
  EXPECT_EQ(solve.Wait(), 0) << test::FileText(folder / "log");
  EXPECT_THAT(test::FileText(folder / "log"),
              HasSubstr("\"policy\": \"best\""));
}

}  // namespace
}  // namespace ucudnn
