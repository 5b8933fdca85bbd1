// Several agents with one device kind, with real daemons: they are
// distinguished, and a device that deviates from the others is found.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/integration/cluster.h"
#include "tests/integration/http.h"
#include "tests/support/paths.h"

namespace ucudnn::test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kTinyLayers =
    "name,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,groups\n"
    "conv1,3,8,8,8,3,3,1,1,1,1,1\n"
    "conv2,8,8,8,8,3,3,1,1,1,1,1\n";

class SharingTest : public ::testing::Test {
 protected:
  SharingTest() {
    cluster_.StartCoordinators();
    std::ofstream(Csv()) << kTinyLayers;
    EXPECT_EQ(cluster_.Ucudnn({"networks", "put", "tiny", Csv()}).status, 0);
    std::ofstream profile(cluster_.folder() / "profile.csv");
    profile << "device,network,layer,op,precision,layout,batch,algorithm,math,"
               "workspace_bytes,time_us\n";
    for (const char* layer : {"conv1", "conv2"}) {
      for (const char* op : {"forward", "backward_data", "backward_filter"}) {
        for (int batch = 1; batch <= 8; ++batch) {
          profile << "gpu,tiny," << layer << ',' << op << ",FP32,NCHW," << batch
                  << ",GEMM,FMA,0," << 50 + 90 * batch << '\n'
                  << "gpu,tiny," << layer << ',' << op << ",FP32,NCHW," << batch
                  << ",FFT,FMA," << 4096 * batch << ',' << 60 + 40 * batch
                  << '\n';
        }
      }
    }
  }

  std::string Csv() const { return cluster_.folder() / "tiny.csv"; }

  Process Replay(const std::string& id, const std::string& slower,
                 const std::string& units = "1") const {
    return Process({test::ProgramPath("recorded_agent"), "--coordinator",
                    cluster_.address(), "--id", id, "--profile",
                    cluster_.folder() / "profile.csv", "--network", Csv(),
                    "--slower", slower, "--noise", "0.01", "--units", units},
                   cluster_.folder() / "log", Cluster::AgentEnvironment(id));
  }

  // The devices by id, once there are this many.
  std::map<std::string, json> Devices(std::size_t count) const {
    std::map<std::string, json> devices;
    EXPECT_TRUE(WaitUntil([&] {
      devices.clear();
      for (const json& device : cluster_.UcudnnJson({"devices"})) {
        if (device["state"] == "idle") devices[device["id"]] = device;
      }
      return devices.size() == count;
    })) << cluster_.Log();
    return devices;
  }

  json Plan(const std::string& limit, const std::string& policy) const {
    return cluster_.UcudnnJson({"plan", "--network", "tiny", "--batch", "8",
                                "--workspace-limit", limit, "--batch-policy",
                                policy});
  }

  Cluster cluster_;
};

TEST_F(SharingTest, AgentsOfOneHostAreDistinguished) {
  if (Cluster::tls()) GTEST_SKIP() << "certificates name agents there";
  const std::vector<std::string> command = {test::ProgramPath("ucudnn-agent"),
                                            "--coordinator",
                                            cluster_.address(),
                                            "--cpu-devices",
                                            "1",
                                            "--cpu-threads",
                                            "1"};
  const Process first(command, cluster_.folder() / "log");
  const Process second(command, cluster_.folder() / "log");
  std::set<std::string> agents;
  for (const auto& [id, device] : Devices(2)) {
    agents.insert(device["agent_id"]);
    EXPECT_EQ(id, "cpu-" + device["agent_id"].get<std::string>() + "-0");
  }
  EXPECT_EQ(agents.size(), 2U);
}

// The shares of the batch only become known once the rest is measured.
TEST_F(SharingTest, DifferentKindsAreMeasuredAtTheirShares) {
  const Process slow = Replay("slow", "3");
  const Process fast = Replay("fast", "1", "2");
  Devices(2);
  const json plan = cluster_.UcudnnJson(
      {"plan", "--network", "tiny", "--batch", "8", "--ranks", "2",
       "--device-kind", "device/1u,device/2u", "--workspace-limit", "0"});
  ASSERT_TRUE(plan.contains("ranks")) << cluster_.Log();
  const json& ranks = plan["ranks"];
  EXPECT_EQ(ranks[0]["batch"].get<int>() + ranks[1]["batch"].get<int>(), 8);
  // Not a power of two, so it was not requested at first.
  EXPECT_EQ(ranks[1]["batch"], 6);
  const std::string micro =
      ranks[1]["workspace"]["kernels"][0]["micro_batches"].dump();
  EXPECT_THAT(micro, HasSubstr("\"batch\":6"));
}

TEST_F(SharingTest, ADeviceUnlikeTheOthersOfItsKindIsReported) {
  const Process slow = Replay("slow", "1.25");
  Devices(1);
  ASSERT_TRUE(Plan("0", "undivided").contains("id")) << cluster_.Log();
  const Process fast = Replay("fast", "1");
  Devices(2);
  ASSERT_TRUE(Plan("1MiB", "powerOfTwo").contains("id")) << cluster_.Log();

  const auto deviates = [&](const std::string& id) {
    const json comparison = Devices(2)["recorded-" + id]["comparison"];
    return comparison.is_object() && comparison["deviates"] == true;
  };
  ASSERT_TRUE(WaitUntil([&] { return deviates("slow"); })) << cluster_.Log();
  EXPECT_FALSE(deviates("fast"));
  const json comparison = Devices(2)["recorded-slow"]["comparison"];
  EXPECT_NEAR(comparison["relative_time"].get<double>(), 1.25, 0.04);
  EXPECT_GE(comparison["points"], 3);
  EXPECT_EQ(comparison["precision"], "FP32");

  // The command, REST and the log agree.
  const std::string text = comparison["text"];
  EXPECT_THAT(text, HasSubstr("% longer than others of its kind"));
  EXPECT_THAT(cluster_.Ucudnn({"devices"}).out, HasSubstr(text));
  const auto rest = HttpOf(cluster_).Get("/v1/devices/recorded-slow");
  ASSERT_TRUE(rest);
  EXPECT_EQ(json::parse(rest->body)["comparison"], comparison);
  EXPECT_THAT(cluster_.Log(),
              HasSubstr("event=device_deviates device=recorded-slow"));
  EXPECT_THAT(cluster_.Log(),
              Not(HasSubstr("event=device_deviates device=recorded-fast")));

  // A plan based on its measurements says so.
  const json plan = Plan("16KiB", "powerOfTwo");
  ASSERT_TRUE(plan.contains("reasons")) << cluster_.Log();
  EXPECT_THAT(plan["reasons"].dump(), HasSubstr("recorded-slow"));
}

}  // namespace
}  // namespace ucudnn::test
