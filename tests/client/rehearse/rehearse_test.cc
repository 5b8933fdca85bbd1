// The rehearsal as a user runs it: real ranks with the CPU as their devices,
// and a real gRPC server with scripted plans.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "client/executor/undivided.h"
#include "device/onednn/onednn_device.h"
#include "proto/convert_plan.h"
#include "tests/client/tiny_network.h"
#include "tests/support/mpirun.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"
#include "tests/support/scripted_coordinator.h"

namespace ucudnn {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Micro-batches of two images by oneDNN's first algorithm.
WorkspacePlan InPairs(Device& device, std::int64_t share) {
  const auto kernels =
      KernelsOf(TinyNetwork(), Precision::kFp32, Layout::kNchw);
  if (share == 0) return {};
  WorkspacePlan plan =
      UndividedPlan(device, kernels, BatchSize(2), 64_MiB).value();
  plan.batch = BatchSize(share);
  plan.total_time = Nanoseconds(1'000'000);
  plan.undivided_time = Nanoseconds(2'000'000);
  for (KernelPlan& kernel : plan.kernels) {
    kernel.micro_batches[0].count = share / 2;
  }
  return plan;
}

class RehearseTest : public ::testing::Test {
 protected:
  RehearseTest() {
    std::ofstream(folder_ / "tiny.csv") << ToCsv(TinyNetwork());
  }

  // Standard output is only the JSON; diagnostics go to standard error.
  RankedRun Rehearse(int ranks, const std::vector<std::string>& arguments) {
    const std::string out = folder_ / "out.json";
    fs::remove(out);
    std::vector<std::string> command = {"sh",
                                        "-c",
                                        "exec \"$@\" >>" + out,
                                        "sh",
                                        test::ProgramPath("ucudnn-rehearse"),
                                        "--threads",
                                        "1"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    const RankedRun run = RunRanks(
        ranks, command,
        {"UCUDNN_CACHE_DIR=" + (folder_ / "cache").string(),
         "UCUDNN_COORDINATOR=", "UCUDNN_PLAN_FILE=", "CUDA_VISIBLE_DEVICES="},
        folder_ / "log");
    std::ifstream file(out);
    const std::string text(std::istreambuf_iterator<char>(file), {});
    json_ = Json::parse(text, nullptr, false);
    out_ = text;
    return run;
  }

  std::string Csv() const { return folder_ / "tiny.csv"; }

  const test::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
  Json json_;
  std::string out_;
};

TEST_F(RehearseTest, ChecksAndMeasuresThePlanOfTheCoordinator) {
  auto device = OpenOneDnnDevice({.threads = 1});
  ASSERT_TRUE(device) << device.error().message;
  ScriptedCoordinator coordinator;
  coordinator.put_network = [](const v1::PutNetworkRequest& request) {
    v1::Network network;
    network.set_name(request.name());
    return network;
  };
  coordinator.create_plan =
      [&](const v1::PlanRequest& message) -> Result<v1::Plan> {
    UCUDNN_ASSIGN_OR_RETURN(const JobRequest request, FromProto(message));
    JobPlan plan = TinyPlan(request, {6, 0, 2});
    for (RankPlan& rank : plan.ranks) {
      rank.workspace = InPairs(**device, rank.batch.count());
    }
    return ToProto(plan);
  };
  const RankedRun run =
      Rehearse(3, {"--coordinator", coordinator.address(), "--network-file",
                   Csv(), "--batch", "8", "--iterations", "3", "--check",
                   "--compare-undivided", "-o", "json"});
  ASSERT_EQ(run.exit_status, 0) << run.output;
  ASSERT_TRUE(json_.is_object()) << out_;
  EXPECT_EQ(json_["source"], "coordinator") << json_["reason"];
  EXPECT_EQ(json_["network"], "tiny");
  EXPECT_EQ(json_["plan"], 7);
  EXPECT_EQ(json_["checked"], true);
  EXPECT_EQ(json_["passed"], true);
  EXPECT_EQ(json_["predicted_us"], 1000.0);
  EXPECT_GT(json_["measured_us"], 0.0);
  EXPECT_GT(json_["undivided_measured_us"], 0.0);
  ASSERT_EQ(json_["ranks"].size(), 3U);
  EXPECT_EQ(json_["ranks"][0]["batch"], 6);
  EXPECT_LT(json_["ranks"][0]["relative_errors"]["backward_filter"], 1e-4);
  EXPECT_TRUE(json_["ranks"][1]["measured"].is_null());
  EXPECT_EQ(json_["ranks"][2]["measured"]["iterations"], 3);
  EXPECT_THAT(json_["ranks"][0]["fallbacks"], ::testing::IsEmpty());
}

TEST_F(RehearseTest, RunsUndividedWithoutACoordinator) {
  const RankedRun run = Rehearse(2, {"--network-file", Csv(), "--batch", "5",
                                     "--check", "--iterations", "2"});
  ASSERT_EQ(run.exit_status, 0) << run.output;
  EXPECT_THAT(out_,
              AllOf(HasSubstr("tiny, batch 5 over 2 ranks"),
                    HasSubstr("no coordinator is named"), HasSubstr("passed")));
  EXPECT_THAT(run.output, HasSubstr("kernels checked"));
}

TEST_F(RehearseTest, ExitsWithTheStatusOfTheContract) {
  EXPECT_EQ(Rehearse(2, {"--network-file", Csv()}).exit_status, 2);
  EXPECT_EQ(Rehearse(2, {"--batch", "4"}).exit_status, 2);
  const RankedRun none =
      Rehearse(2, {"--network-file", "/nowhere.csv", "--batch", "4"});
  EXPECT_NE(none.exit_status, 0);
  EXPECT_THAT(none.output, HasSubstr("ucudnn-rehearse: rank 0: /nowhere.csv"));
  std::string dead;
  {
    ScriptedCoordinator gone;
    dead = gone.address();
  }
  const RankedRun away =
      Rehearse(2, {"--coordinator", dead, "--network", "tiny", "--batch", "4"});
  EXPECT_EQ(away.exit_status, 4) << away.output;
  EXPECT_THAT(away.output, HasSubstr("there is nothing to run"));
}

}  // namespace
}  // namespace ucudnn
