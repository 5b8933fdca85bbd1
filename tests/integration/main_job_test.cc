// The main job with real daemons: a network is registered, measured on this
// machine's CPU, planned and shown.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>

#include "tests/integration/cluster.h"
#include "tests/support/paths.h"

namespace ucudnn::test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr const char* kThreeLayers =
    "name,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,groups\n"
    "conv1,3,16,16,8,3,3,1,1,1,1,1\n"
    "conv2,8,16,16,16,3,3,1,1,1,1,1\n"
    "conv3,16,8,8,16,3,3,1,1,1,1,2\n";

// The options of every plan in these tests.
std::vector<std::string> PlanOf(const std::string& command) {
  return {command, "--network",         "tiny", "--batch",
          "8",     "--workspace-limit", "1MiB"};
}

class MainJobTest : public ::testing::Test {
 protected:
  MainJobTest() {
    cluster_.StartCoordinators();
    std::ofstream(cluster_.folder() / "tiny.csv") << kThreeLayers;
    const Finished put = cluster_.Ucudnn(
        {"networks", "put", "tiny", cluster_.folder() / "tiny.csv"});
    EXPECT_EQ(put.status, 0) << put.err;
  }
  // The failure, together with the daemons' logs.
  std::string Story(const Finished& finished) {
    return finished.err + "\nlog:\n" + cluster_.Log();
  }

  Cluster cluster_;
};

TEST_F(MainJobTest, MeasuresAndPlansANetwork) {
  cluster_.StartAgent();
  const Finished finished =
      cluster_.Ucudnn({"plan", "--network", "tiny", "--batch", "8",
                       "--workspace-limit", "1MiB", "-o", "json"});
  ASSERT_EQ(finished.status, 0) << Story(finished);
  const json plan = json::parse(finished.out);
  EXPECT_EQ(plan["request"]["batch"], 8);
  // Falls short only if a division's gain is within the measurements' noise.
  EXPECT_LE(plan["lower_bound_us"], plan["predicted_us"]);
  EXPECT_LE(plan["predicted_us"], plan["undivided_us"]);
  ASSERT_EQ(plan["ranks"].size(), 1U);
  const json& workspace = plan["ranks"][0]["workspace"];
  // Three layers; the first one has no backward_data.
  ASSERT_EQ(workspace["kernels"].size(), 8U);
  double total = 0;
  for (const json& kernel : workspace["kernels"]) {
    std::int64_t images = 0;
    for (const json& micro : kernel["micro_batches"]) {
      images += micro["batch"].get<std::int64_t>() *
                micro["count"].get<std::int64_t>();
      EXPECT_LE(micro["workspace_bytes"], 1 << 20);
    }
    EXPECT_EQ(images, 8);
    EXPECT_LE(kernel["time_us"], kernel["undivided_time_us"]);
    total += kernel["time_us"].get<double>();
  }
  EXPECT_NEAR(plan["predicted_us"].get<double>(), total, 0.01);
}

TEST_F(MainJobTest, GivesTheSamePlanForTheSameRequest) {
  cluster_.StartAgent();
  const json first = cluster_.UcudnnJson(PlanOf("plan"));
  ASSERT_TRUE(first.contains("id")) << cluster_.Log();
  EXPECT_EQ(cluster_.UcudnnJson(PlanOf("plan")), first);
  EXPECT_EQ(cluster_.UcudnnJson(
                {"show", "plan", std::to_string(first["id"].get<int>())}),
            first);
  // A larger limit is another request and needs no new measurements.
  const json status = cluster_.UcudnnJson({"status"});
  auto larger = PlanOf("plan");
  larger.back() = "2MiB";
  EXPECT_NE(cluster_.UcudnnJson(larger)["id"], first["id"]);
  EXPECT_EQ(cluster_.UcudnnJson({"status"})["tasks_done"],
            status["tasks_done"]);
  // So is a limit for all kernels together. They run one after the other, so
  // each may use all of it.
  const json shared =
      cluster_.UcudnnJson({"plan", "--network", "tiny", "--batch", "8",
                           "--total-workspace", "1MiB"});
  EXPECT_EQ(shared["request"]["total_workspace_bytes"], 1 << 20);
  EXPECT_LE(shared["ranks"][0]["workspace"]["total_workspace_bytes"], 1 << 20);
  EXPECT_EQ(shared["predicted_us"], first["predicted_us"]);
  EXPECT_EQ(cluster_.UcudnnJson({"status"})["tasks_done"],
            status["tasks_done"]);
  const Finished both = cluster_.Ucudnn({"plan", "--network", "tiny", "--batch",
                                         "8", "--total-workspace", "1MiB",
                                         "--workspace-limit", "1MiB"});
  EXPECT_EQ(both.status, 2);
  EXPECT_THAT(both.err, HasSubstr("--total-workspace"));
}

TEST_F(MainJobTest, PlansForTheLayoutThatTheTensorsHave) {
  cluster_.StartAgent();
  auto request = PlanOf("plan");
  request.insert(request.end(), {"--batch-policy", "undivided"});
  const json usual = cluster_.UcudnnJson(request);
  ASSERT_TRUE(usual.contains("id")) << cluster_.Log();
  EXPECT_EQ(usual["request"]["layout"], "NCHW");
  const auto done = [&] {
    return cluster_.UcudnnJson({"status"})["tasks_done"].get<int>();
  };
  const int before = done();
  request.insert(request.end(), {"--layout", "NHWC"});
  const json other = cluster_.UcudnnJson(request);
  ASSERT_TRUE(other.contains("id")) << cluster_.Log();
  EXPECT_EQ(other["request"]["layout"], "NHWC");
  for (const json& kernel : other["ranks"][0]["workspace"]["kernels"]) {
    EXPECT_EQ(kernel["layout"], "NHWC");
  }
  // Measurements in one layout do not serve the other.
  EXPECT_EQ(done(), 2 * before);
  EXPECT_THAT(cluster_.Ucudnn({"plans"}).out, HasSubstr("NHWC"));
}

TEST_F(MainJobTest, MeasuresAdaptivelyOnSeveralDevices) {
  cluster_.StartAgent({"--cpu-devices", "2", "--cpu-threads", "1"});
  auto adaptive = PlanOf("plan");
  adaptive.insert(adaptive.end(), {"--batch-policy", "adaptive"});
  const json plan = cluster_.UcudnnJson(adaptive);
  ASSERT_TRUE(plan.contains("id")) << cluster_.Log();
  EXPECT_EQ(plan["request"]["batch_policy"], "adaptive");
  EXPECT_LE(plan["predicted_us"], plan["undivided_us"]);
  // One task for each of the eight problems; both devices had some.
  EXPECT_EQ(cluster_.UcudnnJson({"status"})["tasks_done"], 8);
  const std::string log = cluster_.Log();
  for (const char* device : {"-0 problem=", "-1 problem="}) {
    EXPECT_THAT(log, HasSubstr(device));
  }
  // Nothing is measured twice.
  EXPECT_EQ(cluster_.UcudnnJson(adaptive)["id"], plan["id"]);
  // Another limit is another question, for which much is known already.
  adaptive[6] = "512KiB";
  EXPECT_TRUE(cluster_.UcudnnJson(adaptive).contains("id"));
  EXPECT_EQ(cluster_.UcudnnJson({"status"})["tasks_done"], 16);
}

TEST_F(MainJobTest, MovesProfilesToAnotherCoordinator) {
  cluster_.StartAgent();
  ASSERT_TRUE(cluster_.UcudnnJson(PlanOf("plan")).contains("id"))
      << cluster_.Log();
  const std::string file = cluster_.folder() / "profile.csv";
  const Finished exported = cluster_.Ucudnn({"profiles", "export", file});
  ASSERT_EQ(exported.status, 0) << exported.err;
  const json here = cluster_.UcudnnJson({"profiles"});
  EXPECT_EQ(here[0]["stale_points"], 0);
  EXPECT_EQ(cluster_.agent().Stop(), 0) << cluster_.Log();

  Cluster other;
  other.StartCoordinators();
  const Finished imported = other.Ucudnn({"profiles", "import", file});
  ASSERT_EQ(imported.status, 0) << imported.err;
  const json there = other.UcudnnJson({"profiles"});
  EXPECT_EQ(there[0]["points"], here[0]["points"]);
  EXPECT_EQ(there[0]["drivers"], here[0]["drivers"]);
  // Planning needs no device there.
  ASSERT_EQ(
      other.Ucudnn({"networks", "put", "tiny", cluster_.folder() / "tiny.csv"})
          .status,
      0);
  auto plan = PlanOf("plan");
  plan.insert(plan.end(), {"--device-kind", there[0]["id"].get<std::string>()});
  EXPECT_TRUE(other.UcudnnJson(plan).contains("id")) << other.Log();
  const Finished bad =
      other.Ucudnn({"profiles", "import", cluster_.folder() / "tiny.csv"});
  EXPECT_EQ(bad.status, 2);
  EXPECT_THAT(bad.err, HasSubstr("tiny.csv"));
}

TEST_F(MainJobTest, MeasuresTheDeviceModelOfEachKindOnce) {
  cluster_.StartAgent({"--cpu-devices", "2", "--cpu-threads", "1"});
  const std::string kind =
      cluster_.UcudnnJson({"devices"})[0]["kind"].get<std::string>();
  json profile;
  ASSERT_TRUE(WaitUntil([&] {
    profile = cluster_.UcudnnJson({"show", "profile", kind});
    return profile.contains("device_model");
  })) << cluster_.Log();
  const json& measured = profile["device_model"];
  EXPECT_EQ(measured["model"]["name"], kind);
  EXPECT_GT(measured["model"]["memory_gb_per_s"], 0);
  EXPECT_THAT(cluster_.Ucudnn({"show", "profile", kind}).out,
              HasSubstr("GB/s to the host"));
  // Both devices have taken it, and neither measures again after a restart.
  EXPECT_EQ(cluster_.agent().Stop(), 0) << cluster_.Log();
  cluster_.StartAgent({"--cpu-devices", "2", "--cpu-threads", "1"});
  ASSERT_TRUE(cluster_.UcudnnJson(PlanOf("plan")).contains("id"));
  EXPECT_EQ(cluster_.UcudnnJson({"show", "profile", kind})["device_model"],
            measured);

  // From the coordinator, and from a file.
  const std::string file = cluster_.folder() / "model.json";
  const Finished exported = cluster_.Ucudnn(
      {"profiles", "export", "--device-model", "--kind", kind, file});
  ASSERT_EQ(exported.status, 0) << exported.err;
  const auto solve = [&](const Cluster& cluster, const std::string& model) {
    return cluster.UcudnnJson({"solve", "memory", "--network",
                               cluster_.folder() / "chain.csv", "--batch", "4",
                               "--budget", "1GB", "--device-model", model});
  };
  std::ofstream(cluster_.folder() / "chain.csv")
      << "name,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,groups\n"
         "conv1,3,16,16,8,3,3,1,1,1,1,1\n";
  const json plan = solve(cluster_, kind);
  ASSERT_TRUE(plan.contains("time_us")) << cluster_.Log();
  EXPECT_EQ(solve(cluster_, file), plan);

  Cluster other;
  other.StartCoordinators();
  const Finished imported = other.Ucudnn({"profiles", "import", file});
  ASSERT_EQ(imported.status, 0) << imported.err;
  EXPECT_EQ(solve(other, kind), plan);
}

TEST_F(MainJobTest, PlansMemoryFromStoredMeasurements) {
  cluster_.StartAgent();
  std::ofstream(cluster_.folder() / "chain.csv")
      << "name,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,groups\n"
         "conv1,3,16,16,8,3,3,1,1,1,1,1\n"
         "conv2,8,16,16,16,3,3,1,1,1,1,1\n";
  ASSERT_EQ(
      cluster_
          .Ucudnn({"networks", "put", "chain", cluster_.folder() / "chain.csv"})
          .status,
      0);
  const std::string file = cluster_.folder() / "plan.json";
  std::vector<std::string> ask = {
      "plan",   "--network", "chain",           "--batch", "8",
      "--save", file,        "--memory-budget", "400KiB"};
  const json plan = cluster_.UcudnnJson(ask);
  ASSERT_TRUE(plan.contains("id")) << cluster_.Log();
  EXPECT_EQ(plan["request"]["memory"]["budget_bytes"], 400 << 10);
  ASSERT_EQ(plan["memory_plans"].size(), 1U);
  const json& memory = plan["memory_plans"][0]["plan"];
  EXPECT_TRUE(memory["feasible"]);
  EXPECT_LE(memory["peak_bytes"], 400 << 10);
  EXPECT_EQ(memory["time_us"], plan["predicted_us"]);
  EXPECT_FALSE(memory["rounds"][0]["events"].empty());
  EXPECT_EQ(json::parse(FileText(file)), plan);
  const std::string alone = cluster_.folder() / "memory.json";
  std::ofstream(alone) << memory.dump();
  const Finished checked = cluster_.Ucudnn({"check", alone});
  EXPECT_EQ(checked.status, 0) << checked.err;
  // Immutable, and the same for the same request, also after a restart.
  cluster_.KillCoordinators();
  cluster_.StartCoordinators();
  EXPECT_EQ(cluster_.UcudnnJson(ask), plan);
  const std::string id = std::to_string(plan["id"].get<int>());
  EXPECT_EQ(cluster_.UcudnnJson({"show", "plan", id}), plan);
  EXPECT_THAT(cluster_.Ucudnn({"show", "plan", id}).out,
              HasSubstr("of 400 KiB"));
  EXPECT_TRUE(cluster_.UcudnnJson({"plans"})[0]["memory_plans"].empty());
  // Another budget is another plan; one that is too small ends with 3.
  ask.back() = "4MiB";
  EXPECT_NE(cluster_.UcudnnJson(ask)["id"], plan["id"]);
  ask.back() = "1KiB";
  const Finished small = cluster_.Ucudnn(ask);
  EXPECT_EQ(small.status, 3);
  EXPECT_THAT(small.err, HasSubstr("KiB"));
}

TEST_F(MainJobTest, SaysWhatKeepsAPlanFromBeingMade) {
  const Finished unknown = cluster_.Ucudnn(
      {"plan", "--network", "nosuch", "--batch", "8", "--workspace-limit",
       "1MiB", "--device-kind", "K/1u/1GiB/k-1"});
  EXPECT_EQ(unknown.status, 1);
  EXPECT_THAT(unknown.err, HasSubstr("nosuch"));
  const Finished no_device = cluster_.Ucudnn(PlanOf("plan"));
  EXPECT_EQ(no_device.status, 3);
  EXPECT_THAT(no_device.err, HasSubstr("no device is online"));
  const Finished bad_size =
      cluster_.Ucudnn({"plan", "--network", "tiny", "--batch", "8",
                       "--workspace-limit", "1M"});
  EXPECT_EQ(bad_size.status, 2);
  EXPECT_THAT(bad_size.err, HasSubstr("1M"));
  cluster_.KillCoordinators();
  const Finished away = cluster_.Ucudnn({"status"});
  EXPECT_EQ(away.status, 4);
  EXPECT_THAT(away.err, HasSubstr(cluster_.addresses().front()));
}

TEST_F(MainJobTest, UsesTheOnlyKindWhileItsAgentIsAway) {
  cluster_.StartAgent();
  const json before = cluster_.UcudnnJson(PlanOf("plan"));
  ASSERT_TRUE(before.contains("id")) << cluster_.Log();
  EXPECT_EQ(cluster_.agent().Stop(), 0);
  EXPECT_EQ(cluster_.UcudnnJson(PlanOf("plan")), before);
}

TEST_F(MainJobTest, NoticesASilentAgent) {
  cluster_.StartAgent();
  const auto state = [&] {
    const json nodes = cluster_.UcudnnJson({"nodes"});
    return nodes.size() == 1 ? nodes[0]["state"].get<std::string>() : "";
  };
  ASSERT_TRUE(WaitUntil([&] { return state() == "online"; })) << cluster_.Log();
  cluster_.agent().Signal(SIGSTOP);
  EXPECT_TRUE(WaitUntil([&] { return state() == "gone"; }));
  cluster_.agent().Signal(SIGCONT);
  EXPECT_TRUE(WaitUntil([&] { return state() == "online"; }));
  EXPECT_EQ(cluster_.agent().Stop(), 0) << cluster_.Log();
  EXPECT_EQ(state(), "gone");
  EXPECT_EQ(cluster_.StopCoordinators(), 0) << cluster_.Log();
}

// oneDNN's reference implementation, the only one that needs no workspace,
// takes half a minute or more on one core.
TEST(AgentTest, StopsWithinFiveSecondsInTheMiddleOfALongRun) {
  Cluster cluster;
  cluster.StartCoordinators();
  const std::string network = cluster.folder() / "slow.csv";
  std::ofstream(network)
      << "name,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,groups\n"
         "conv1,64,512,512,1,13,13,6,6,1,1,1\n";
  const Finished put = cluster.Ucudnn({"networks", "put", "slow", network});
  ASSERT_EQ(put.status, 0) << put.err;
  cluster.StartAgent();
  const Process measure(
      {test::ProgramPath("ucudnn"), "--coordinator", cluster.address(),
       "measure", "--network", "slow", "--batch", "1", "--workspace-limit", "0",
       "--batch-policy", "adaptive"},
      cluster.folder() / "measure.log");
  // At most a part of it is spent preparing operands.
  ASSERT_TRUE(WaitUntil([&] {
    return cluster.agent().CpuTime() > std::chrono::seconds(4);
  })) << cluster.Log();
  EXPECT_EQ(cluster.agent().Stop(std::chrono::seconds(5)), 0) << cluster.Log();
  EXPECT_THAT(cluster.Log(), HasSubstr("event=run_abandoned"));
  EXPECT_EQ(cluster.UcudnnJson({"nodes"})[0]["state"], "gone");
}

}  // namespace
}  // namespace ucudnn::test
