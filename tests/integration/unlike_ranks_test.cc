// Two ranks of different speed, one thread of this CPU and two, with the real
// daemons: measured, given unequal batches, and trained.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "tests/integration/cluster.h"
#include "tests/support/mpirun.h"
#include "tests/support/paths.h"

namespace ucudnn::test {
namespace {

using nlohmann::json;

constexpr const char* kNetwork =
    "name,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,groups\n"
    "conv1,8,12,12,16,3,3,1,1,1,1,1\n";

class UnlikeRanksTest : public ::testing::Test {
 protected:
  UnlikeRanksTest() {
    // Threads that spin at barriers slow machines with few cores down.
    setenv("OMP_WAIT_POLICY", "passive", 1);
    cluster_.StartCoordinators();
    std::ofstream(Csv()) << kNetwork;
    EXPECT_EQ(cluster_.Ucudnn({"networks", "put", "tiny", Csv()}).status, 0);
  }

  std::string Csv() const { return cluster_.folder() / "tiny.csv"; }

  // Measures this many threads as a device; returns its kind.
  std::string MeasureThreads(int threads) {
    cluster_.StartAgent(
        {"--cpu-devices", "1", "--cpu-threads", std::to_string(threads)});
    const json devices = cluster_.UcudnnJson({"devices"});
    const std::string kind = devices.at(0).at("kind");
    const Finished measured = cluster_.Ucudnn(With("measure", 4, {kind}));
    EXPECT_EQ(measured.status, 0) << measured.err << cluster_.Log();
    EXPECT_TRUE(WaitUntil([&] {
      const json profile = cluster_.UcudnnJson({"show", "profile", kind});
      return profile.contains("device_model") &&
             profile["device_model"].is_object();
    })) << cluster_.Log();
    cluster_.agent().Stop();
    return kind;
  }

  // Measure every batch, so that any assignment can be planned.
  static std::vector<std::string> With(const std::string& command, int batch,
                                       const std::vector<std::string>& kinds) {
    std::vector<std::string> words = {command,
                                      "--network",
                                      "tiny",
                                      "--batch",
                                      std::to_string(batch),
                                      "--workspace-limit",
                                      "4MiB",
                                      "--batch-policy",
                                      "all",
                                      "--ranks",
                                      std::to_string(kinds.size())};
    for (const std::string& kind : kinds) {
      words.insert(words.end(), {"--device-kind", kind});
    }
    return words;
  }

  double Predicted(int batch, const std::vector<std::string>& kinds) {
    const json plan = cluster_.UcudnnJson(With("plan", batch, kinds));
    EXPECT_TRUE(plan.contains("predicted_us")) << cluster_.Log();
    return plan.value("predicted_us", 0.0);
  }

  // Trains 3 steps within the coordinator's plan: a rank with this many
  // threads, and before it, others with what mpirun needs to start them.
  json Train(std::vector<std::string> others, const std::string& threads) {
    const std::string out = cluster_.folder() / "out.json";
    const std::vector<std::string> train = {test::ProgramPath("ucudnn-train"),
                                            "--network",
                                            Csv(),
                                            "--batch",
                                            "4",
                                            "--memory-budget",
                                            "1MiB",
                                            "--steps",
                                            "3",
                                            "-o",
                                            "json",
                                            "--threads"};
    std::vector<std::string> command = {"sh", "-c", "exec \"$@\" >" + out,
                                        "sh"};
    command.insert(command.end(), train.begin(), train.end());
    if (!others.empty()) {
      command.insert(command.end(), others.begin(), others.end());
      command.insert(command.end(), train.begin(), train.end());
    }
    command.push_back(threads);
    std::vector<std::string> variables = {
        "OMP_WAIT_POLICY=passive",
        "UCUDNN_CACHE_DIR=" + (cluster_.folder() / "cache"),
        "UCUDNN_PLAN_FILE=", "CUDA_VISIBLE_DEVICES="};
    for (const auto& [name, value] : cluster_.JobEnvironment()) {
      variables.push_back(name + "=" + value);
    }
    const RankedRun run =
        RunRanks(1, command, variables, cluster_.folder() / "train.log");
    EXPECT_EQ(run.exit_status, 0) << run.output << cluster_.Log();
    return json::parse(FileText(out), nullptr, false);
  }

  Cluster cluster_;
};

TEST_F(UnlikeRanksTest, TrainThePlannedShares) {
  const std::string one = MeasureThreads(1);
  const std::string two = MeasureThreads(2);
  ASSERT_NE(one, two);
  // The planned shares are never slower than even ones.
  const double planned = Predicted(4, {one, two});
  EXPECT_LE(planned, std::max(Predicted(2, {one}), Predicted(2, {two})));

  const json together = Train({"1", ":", "-n", "1"}, "2");
  EXPECT_EQ(together["source"], "coordinator") << together["reason"];
  EXPECT_EQ(together["ranks"][0]["device_kind"], one);
  EXPECT_EQ(together["ranks"][1]["device_kind"], two);
  int images = 0;
  double weights = 0;
  for (const json& rank : together["ranks"]) {
    images += rank["batch"].get<int>();
    weights += rank["weight"].get<double>();
    if (rank["batch"] == 0) continue;
    EXPECT_LE(rank["peak_bytes"], rank["budget_bytes"]);
  }
  EXPECT_EQ(images, 4);
  EXPECT_NEAR(weights, 1, 1e-9);
  // They learn what one of them learns.
  const json alone = Train({}, "1");
  for (std::size_t i = 0; i < 3; ++i) {
    const double loss = alone["losses"][i];
    EXPECT_NEAR(together["losses"][i], loss, 1e-5 * loss);
  }
}

TEST_F(UnlikeRanksTest, GetSharesThatFitTheirBudgets) {
  const std::string one = MeasureThreads(1);
  const std::string two = MeasureThreads(2);
  const auto ask = [&](const std::string& budgets) {
    return std::vector<std::string>{
        "plan",  "--network",      "tiny", "--batch",
        "4",     "--batch-policy", "all",  "--memory-budget",
        budgets, "--device-kind",  one,    "--device-kind",
        two};
  };
  const json plan = cluster_.UcudnnJson(ask("1MiB,200KiB"));
  ASSERT_TRUE(plan.contains("id")) << cluster_.Log();
  EXPECT_EQ(plan["request"]["memory"]["rank_budget_bytes"],
            json::array({1 << 20, 200 << 10}));
  double slowest = 0;
  int images = 0;
  for (const json& rank : plan["ranks"]) {
    images += rank["batch"].get<int>();
    if (rank["batch"] == 0) continue;
    EXPECT_LE(rank["memory"]["peak_bytes"], rank["memory"]["budget_bytes"]);
    slowest =
        std::max(slowest, rank["workspace"]["total_time_us"].get<double>());
  }
  EXPECT_EQ(images, 4);
  EXPECT_EQ(plan["predicted_us"], slowest);
  for (const json& memory : plan["memory_plans"]) {
    const std::string file = cluster_.folder() / "memory.json";
    std::ofstream(file) << memory["plan"].dump();
    EXPECT_EQ(cluster_.Ucudnn({"check", file}).status, 0);
  }
  const std::string id = std::to_string(plan["id"].get<int>());
  const json why = cluster_.UcudnnJson({"explain", id});
  EXPECT_EQ(why["ranks"].size(), 2U) << why.dump();
  EXPECT_THAT(cluster_.Ucudnn({"explain", id}).out,
              testing::HasSubstr("COMPUTED AGAIN"));
  // A rank without room gets nothing, and the other one all.
  const json alone = cluster_.UcudnnJson(ask("1MiB,1KiB"));
  EXPECT_EQ(alone["ranks"][0]["batch"], 4) << alone.dump();
  EXPECT_TRUE(alone["ranks"][1]["memory"].is_null());
  const Finished three = cluster_.Ucudnn(ask("1MiB,1MiB,1MiB"));
  EXPECT_EQ(three.status, 2);
  EXPECT_THAT(three.err, testing::HasSubstr("one kind, or one for each rank"));
  const Finished none = cluster_.Ucudnn(ask("1KiB,1KiB"));
  EXPECT_EQ(none.status, 3);
  EXPECT_THAT(none.err, testing::HasSubstr("would do"));
}

}  // namespace
}  // namespace ucudnn::test
