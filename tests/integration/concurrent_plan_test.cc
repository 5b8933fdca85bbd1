// A total workspace divided among the kernels of GoogLeNet that may run at
// once: from an imported profile to the plan, by the command, REST and
// `ucudnn explain`.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/onnx/network_file.h"
#include "base/plan/concurrency.h"
#include "base/plan/plan_json.h"
#include "client/dropin/planner/plan_file_kernels.h"
#include "tests/integration/cluster.h"
#include "tests/integration/http.h"
#include "tests/support/drawn_points.h"
#include "tests/support/paths.h"

namespace ucudnn::test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr const char* kGpu = "Drawn/1u/1GiB/none-1.0";

std::string ModelFile(const std::string& name) {
  return DataPath("onnx/" + name + ".onnx");
}

// Measurements of all kernels of these models, as a file.
std::string ProfileOf(const std::vector<std::string>& models) {
  Profile profile;
  for (const std::string& model : models) {
    const Graph graph = ReadGraphFile(ModelFile(model), BatchSize(1)).value();
    for (const Kernel& kernel :
         KernelsOf(NetworkOf(graph), Precision::kFp32, Layout::kNchw)) {
      KernelProfile& measured = profile.kernels.emplace_back();
      measured.id = {
          kGpu,         model, kernel.layer, kernel.op, Precision::kFp32,
          Layout::kNchw};
      measured.problem = kernel.problem;
      measured.points = DrawnPoints(kernel.problem, 16);
    }
  }
  return ToCsv(profile);
}

class ConcurrentPlanTest : public ::testing::Test {
 protected:
  ConcurrentPlanTest() {
    cluster_.StartCoordinators();
    std::ofstream(folder_ / "drawn.csv") << ProfileOf({"googlenet", "alexnet"});
    const Finished imported =
        cluster_.Ucudnn({"profiles", "import", folder_ / "drawn.csv",
                         "--complete-up-to", "1GiB"});
    EXPECT_EQ(imported.status, 0) << imported.err;
    for (const std::string name : {"googlenet", "alexnet"}) {
      const Finished put =
          cluster_.Ucudnn({"networks", "put", name, ModelFile(name)});
      EXPECT_EQ(put.status, 0) << put.err;
    }
  }

  static std::vector<std::string> Plan(const std::string& network,
                                       bool concurrent = true) {
    std::vector<std::string> command = {
        "plan", "--network",         network, "--device-kind", kGpu, "--batch",
        "16",   "--total-workspace", "6MiB"};
    if (concurrent) command.emplace_back("--concurrent");
    return command;
  }

  Cluster cluster_;
  TemporaryFolder folder_;
};

TEST_F(ConcurrentPlanTest, GivesKernelsThatMayRunAtOnceSegments) {
  std::vector<std::string> command = Plan("googlenet");
  command.insert(command.end(),
                 {"--save", folder_ / "plan.json", "-o", "json"});
  const Finished made = cluster_.Ucudnn(command);
  ASSERT_EQ(made.status, 0) << made.err;
  // Reading it checks the segments.
  const auto plan = ParseJobPlan(made.out, "plan");
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_TRUE(plan->request.concurrent);
  const WorkspacePlan& workspace = plan->ranks[0].workspace;
  const std::size_t kernels = workspace.kernels.size();
  ASSERT_EQ(kernels, 3U * 57 - 1);
  const auto concurrency = ParseConcurrency(workspace.concurrency, kernels);
  ASSERT_TRUE(concurrency) << concurrency.error().message;
  int side_by_side = 0;
  for (const auto& [a, b] : ConcurrentPairs(*concurrency)) {
    const KernelPlan& one = workspace.kernels[a];
    const KernelPlan& other = workspace.kernels[b];
    ASSERT_TRUE(*one.offset + one.workspace <= *other.offset ||
                *other.offset + other.workspace <= *one.offset)
        << KernelName(one) << " and " << KernelName(other);
    if (one.workspace > 0_B && other.workspace > 0_B) ++side_by_side;
  }
  EXPECT_GT(side_by_side, 50);
  EXPECT_LE(workspace.total_workspace, 6_MiB);
  EXPECT_TRUE(plan->optimal);
  // The drop-in libraries take the file.
  const auto for_dropin = ReadKernelPlans(folder_ / "plan.json", kGpu);
  ASSERT_TRUE(for_dropin) << for_dropin.error().message;
  EXPECT_EQ(for_dropin->size(), kernels);

  const auto answer =
      HttpOf(cluster_).Get("/v1/plans/" + std::to_string(plan->id));
  ASSERT_TRUE(answer);
  EXPECT_EQ(json::parse(answer->body), json::parse(made.out));

  // One arena for kernels that run one after another is faster.
  const json shared = cluster_.UcudnnJson(Plan("googlenet", false));
  ASSERT_TRUE(shared.is_object());
  EXPECT_LT(shared["predicted_us"], Microseconds(plan->predicted));
  EXPECT_EQ(shared["ranks"][0]["workspace"]["concurrency"], "");
}

TEST_F(ConcurrentPlanTest, IsShownAndExplained) {
  const Finished table = cluster_.Ucudnn(Plan("googlenet"));
  ASSERT_EQ(table.status, 0) << table.err;
  EXPECT_THAT(table.out, HasSubstr("googlenet at batch 16, 6.00 MiB in total, "
                                   "divided"));
  EXPECT_THAT(table.out, HasSubstr("OFFSET"));
  const Finished explained = cluster_.Ucudnn({"explain", "1"});
  ASSERT_EQ(explained.status, 0) << explained.err;
  EXPECT_THAT(explained.out, HasSubstr("6.00 MiB divided among kernels"));
  EXPECT_THAT(explained.out, HasSubstr("MAY RUN BESIDE"));
  const json reasons = cluster_.UcudnnJson({"explain", "1"});
  const json& kernels = reasons["ranks"][0]["kernels"];
  EXPECT_EQ(kernels[0]["segment"], nullptr);  // the stem is alone
  std::size_t segments = 0;
  for (const json& kernel : kernels) {
    if (kernel["segment"].is_null()) continue;
    ++segments;
    EXPECT_FALSE(kernel["segment"]["beside"].empty());
  }
  EXPECT_EQ(segments, 3U * 9 * 6);  // of nine modules
}

TEST_F(ConcurrentPlanTest, IsThatOfOneArenaOnAChain) {
  json divided = cluster_.UcudnnJson(Plan("alexnet"));
  json shared = cluster_.UcudnnJson(Plan("alexnet", false));
  ASSERT_TRUE(divided.is_object() && shared.is_object());
  EXPECT_EQ(divided["request"]["concurrent"], true);
  EXPECT_EQ(shared["request"]["concurrent"], false);
  for (const char* member : {"id", "request", "created_ms"}) {
    divided.erase(member);
    shared.erase(member);
  }
  EXPECT_EQ(divided, shared);
}

TEST_F(ConcurrentPlanTest, IsRefusedWhereTheGraphIsNotKnown) {
  const Finished put = cluster_.Ucudnn(
      {"networks", "put", "list", DataPath("networks/inception_v1.csv")});
  ASSERT_EQ(put.status, 0) << put.err;
  const Finished refused = cluster_.Ucudnn(Plan("list"));
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("network 'list' is known by its "
                                     "convolutions alone"));
  std::vector<std::string> without = Plan("googlenet");
  without[7] = "--workspace-limit";
  EXPECT_EQ(cluster_.Ucudnn(without).status, 2);
}

}  // namespace
}  // namespace ucudnn::test
