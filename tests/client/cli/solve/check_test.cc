// `ucudnn check`: memory plans from files against the rules.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/client/cli/solve/solve_command.h"
#include "tests/support/process.h"

namespace ucudnn {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::HasSubstr;

class CheckTest : public ::testing::Test {
 protected:
  CheckTest() {
    std::ofstream(folder_ / "chain.csv")
        << "name,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,groups\n"
           "a,3,64,64,16,3,3,1,1,1,1,1\n"
           "b,16,64,64,16,3,3,1,1,1,1,1\n"
           "c,16,32,32,32,3,3,1,1,1,1,1\n";
  }

  // What the command prints of a plan; --graph-out goes to graph.json.
  Json PlanOf(const std::string& policy) {
    return Json(SolveJson(
        "memory", {"--network", folder_ / "chain.csv", "--batch", "32",
                   "--device-model", "K40", "--budget", "64MiB", "--policy",
                   policy, "--graph-out", folder_ / "graph.json"}));
  }

  test::Finished Check(const Json& plan, std::vector<std::string> flags = {}) {
    std::ofstream(folder_ / "plan.json") << plan;
    flags.insert(flags.begin(),
                 {test::ProgramPath("ucudnn"), "check", folder_ / "plan.json"});
    return test::Run(flags);
  }

  test::TemporaryFolder folder_;
};

TEST_F(CheckTest, AcceptsWhatTheSolverPrints) {
  const Json plan = PlanOf("vdnn-all");
  const test::Finished run = Check(plan, {"-o", "json"});
  ASSERT_EQ(run.status, 0) << run.err;
  const Json checked = Json::parse(run.out)["plans"];
  ASSERT_EQ(checked.size(), 1U);
  EXPECT_EQ(checked[0]["policy"], "vdnn-all");
  EXPECT_EQ(checked[0]["time_us"], plan["time_us"]);
  EXPECT_EQ(checked[0]["peak_bytes"], plan["peak_bytes"]);
}

TEST_F(CheckTest, ChecksEveryPlanOfAllPolicies) {
  const Json answer = PlanOf("all");
  const test::Finished run = Check(answer, {"-o", "json"});
  ASSERT_EQ(run.status, 0) << run.err;
  std::size_t feasible = 0;
  for (const Json& plan : answer["plans"]) feasible += plan["feasible"] ? 1 : 0;
  EXPECT_GT(feasible, 3U);
  EXPECT_EQ(Json::parse(run.out)["plans"].size(), feasible);
}

TEST_F(CheckTest, ReadsTheGraphFromAFileOfItsOwn) {
  Json plan = PlanOf("hmms");
  plan.erase("graph");
  EXPECT_EQ(Check(plan, {"--graph", folder_ / "graph.json"}).status, 0);
  const test::Finished run = Check(plan);
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr("plan.json: graph is missing; the plan's "
                                 "training graph, in this field or in an "
                                 "input of its own, is accepted"));
}

TEST_F(CheckTest, SaysThatAPlanOfWorkspacesIsNone) {
  const test::Finished run = Check({{"kernels", Json::array()}});
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr("plan.json: it is a plan of workspaces"));
}

TEST_F(CheckTest, NamesTheRuleThatAPlanBreaks) {
  const Json good = PlanOf("vdnn-all");
  const auto refused = [&](const std::function<void(Json&)>& change) {
    Json bad = good;
    change(bad);
    const test::Finished run = Check(bad);
    EXPECT_EQ(run.status, 2);
    return run.err;
  };
  EXPECT_THAT(refused([](Json& p) { p["stall_us"] = 7; }),
              HasSubstr("plan.json: R23 plan: stall is 7000"));
  EXPECT_THAT(refused([](Json& p) { p["budget_bytes"] = 1 << 20; }),
              HasSubstr("R12 "));
  EXPECT_THAT(refused([](Json& p) {
                for (Json& e : p["rounds"][0]["events"]) e.erase("after");
              }),
              HasSubstr("R4 event"));
  EXPECT_THAT(refused([](Json& p) { p["graph"]["batch"] = 16; }),
              HasSubstr("batch is 32; 16, the graph's, is accepted"));
  EXPECT_THAT(refused([](Json& p) { p["graph"]["tasks"][0]["reads"][0] = 1; }),
              HasSubstr("plan.json: graph.tasks[0].reads[0] is 1; the name"));
  Json all = {{"plans", {good, good}}, {"graph", good["graph"]}};
  all["plans"][1]["peak_bytes"] = 1;
  EXPECT_THAT(Check(all).err, HasSubstr("plans[1]: R23 plan: peak is 1,"));
}

TEST_F(CheckTest, RefusesWhatIsNoPlan) {
  EXPECT_THAT(Check(Json(3)).err, HasSubstr("the document is 3; an object"));
  const test::Finished run = test::Run(
      {test::ProgramPath("ucudnn"), "check", folder_ / "nowhere.json"});
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr("nowhere.json"));
}

}  // namespace
}  // namespace ucudnn
