
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "base/files/file.h"
#include "base/plan/plan_json.h"
#include "proto/convert_plan.h"
#include "tests/support/process.h"

namespace ucudnn {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::StartsWith;

JobPlan SomeJobPlan() {
  JobPlan plan;
  plan.id = 7;
  plan.revision = 2;
  plan.request.network = "tiny";
  plan.request.batch = BatchSize(6);
  plan.request.device_kinds = {"A/1u/1GiB/x-1", "B \"b\"/2u/2GiB/x-1"};
  plan.request.workspace_limit = 64_MiB;
  plan.request.policy = BatchPolicy::kAll;
  plan.request.layout = Layout::kNhwc;
  plan.network_revision = 3;
  plan.predicted = Nanoseconds(1'234'567);
  plan.lower_bound = Nanoseconds(1'234'567);
  plan.optimal = true;
  plan.cut_off = true;
  plan.undivided = Nanoseconds(2'000'001);
  plan.ranks.resize(2);
  plan.ranks[0].device_kind = plan.request.device_kinds[0];
  plan.ranks[0].batch = BatchSize(6);
  plan.ranks[0].weight = 1;
  WorkspacePlan& workspace = plan.ranks[0].workspace.Own();
  workspace.batch = BatchSize(6);
  workspace.workspace_limit = 64_MiB;
  workspace.total_time = Nanoseconds(1'234'567);
  KernelPlan kernel;
  kernel.layer = "conv1";
  kernel.problem = ConvProblem{};
  kernel.workspace = 3_MiB;
  kernel.offset = 256_B;
  kernel.micro_batches = {{BatchSize(2),
                           3,
                           {"FFT", "FMA", Precision::kFp32},
                           Nanoseconds(411'522),
                           3_MiB}};
  workspace.kernels = {kernel};
  plan.ranks[1].device_kind = plan.request.device_kinds[1];
  plan.ranks[1].reason = "too slow";
  plan.reasons = {"because"};
  plan.created_ms = 1'700'000'000'123;
  return plan;
}

class PlanFileTest : public ::testing::Test {
 protected:
  const test::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

TEST_F(PlanFileTest, ReadsBackWhatItWrites) {
  const std::string path = folder_ / "deep" / "er" / "plan.json";
  ASSERT_TRUE(ReplaceFile(path, ToJsonText(SomeJobPlan())));
  const auto plan = ReadPlanFile(path);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(*plan, SomeJobPlan());
}

TEST(ParseJobPlanTest, ReadsOnceWhatRanksShare) {
  JobPlan plan = SomeJobPlan();
  plan.request.device_kinds.push_back("A/1u/1GiB/x-1");
  plan.ranks.push_back(plan.ranks[0]);
  const std::string text = ToJsonText(plan);
  EXPECT_THAT(text, HasSubstr("\"workspace_of_rank\": 0"));
  EXPECT_EQ(text.find("\"conv1\""), text.rfind("\"conv1\""));
  const auto back = ParseJobPlan(text, "p.json");
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(*back, plan);
  EXPECT_EQ(&*back->ranks[2].workspace, &*back->ranks[0].workspace);
  std::string wrong = text;
  wrong.replace(text.find("\"workspace_of_rank\": 0") + 21, 1, "2");
  EXPECT_THAT(ParseJobPlan(wrong, "p.json").error().message,
              HasSubstr("ranks[2].workspace_of_rank is 2; a whole number from "
                        "0 to 1"));
}

TEST_F(PlanFileTest, SaysWhyAFileCannotBeRead) {
  const std::string missing = folder_ / "none.json";
  EXPECT_EQ(ReadPlanFile(missing).error().code, Code::kNotFound);
  EXPECT_THAT(ReadPlanFile(missing).error().message, HasSubstr(missing));
  EXPECT_THAT(ReadPlanFile(folder_).error().message, HasSubstr(folder_));
}

TEST(ParseJobPlanTest, NamesThePlaceOfAnError) {
  const std::string good = ToJsonText(SomeJobPlan());
  ASSERT_TRUE(ParseJobPlan(good, "p.json"));
  for (const auto& [from, to, why] : {
           std::tuple{"{", "[", "not JSON: parse error at line 2"},
           std::tuple{"\"ranks\"", "\"rank\"", "ranks is missing; an array"},
           std::tuple{"\"batch\": 6", "\"batch\": 0",
                      "request.batch is 0; 1 to"},
           std::tuple{"\"batch\": 6", "\"batch\": \"6\"",
                      "request.batch is \"6\""},
           std::tuple{"\"rank\": 1", "\"rank\": 0", "ranks[1].rank is 0"},
           std::tuple{"\"weight\": 1", "\"weight\": 7", "ranks[0].weight is 7"},
           std::tuple{"\"reasons\": [", "\"reasons\": [7,",
                      "reasons[0] is 7; text"},
           std::tuple{"\"all\"", "\"most\"", "request.batch_policy: "},
           std::tuple{"\"op\": \"forward\"", "\"op\": \"sideways\"",
                      "ranks[0].workspace.kernels[0].op: "},
       }) {
    std::string text = good;
    ASSERT_NE(text.find(from), std::string::npos) << from;
    text.replace(text.find(from), std::string(from).size(), to);
    const auto plan = ParseJobPlan(text, "p.json");
    ASSERT_FALSE(plan) << to;
    EXPECT_EQ(plan.error().code, Code::kInvalidArgument);
    EXPECT_THAT(plan.error().message, StartsWith("p.json: "));
    EXPECT_THAT(plan.error().message, HasSubstr(why));
  }
  EXPECT_FALSE(ParseJobPlan("", "p.json"));
  EXPECT_FALSE(ParseJobPlan("7", "p.json"));
  for (std::size_t n = 0; n < good.size() - 1; n += 7) {
    EXPECT_FALSE(ParseJobPlan(good.substr(0, n), "p.json"));
  }
}

TEST(ParseJobPlanTest, FillsInWhatMayBeLeftOut) {
  const auto plan = ParseJobPlan(
      R"({"request":{"network":"n","batch":4,"device_kinds":["k"],"layout":""},
          "ranks":[{"device_kind":"k","batch":0,"weight":0}],"later":1})",
      "p");
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->request.policy, BatchPolicy::kPowerOfTwo);
  EXPECT_EQ(plan->request.layout, Layout::kNchw);
  EXPECT_EQ(*plan->ranks[0].workspace, WorkspacePlan());
}

}  // namespace
}  // namespace ucudnn
