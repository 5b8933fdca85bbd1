// `ucudnn solve wd|assign` as people and scripts call it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/client/cli/solve/solve_command.h"
#include "tests/support/paths.h"

namespace ucudnn {
namespace {

using nlohmann::json;
using test::Finished;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string kAlexNetProfile =
    test::DataPath("h200/alexnet_b256_pow2.csv");

TEST(SolveDivisionCliTest, DividesAWorkspaceInDisjointSegments) {
  const std::vector<std::string> flags = {
      "--profile", kAlexNetProfile, "--batch", "256", "--precision", "FP32"};
  std::vector<std::string> each = flags;
  each.insert(each.end(), {"--workspace-limit", "64MiB"});
  std::vector<std::string> all = flags;
  all.insert(all.end(), {"--workspace-limit", "960MiB"});
  const json reuse = SolveJson("wr", each);
  ASSERT_EQ(reuse["kernels"].size(), 15U);
  const json divided = SolveJson("wd", all);
  EXPECT_EQ(divided["workspace_limit_bytes"], 960 << 20);
  EXPECT_EQ(divided["optimal"], true);
  EXPECT_EQ(divided["lower_bound_us"], divided["total_time_us"]);
  EXPECT_LT(divided["total_time_us"], reuse["total_time_us"]);
  EXPECT_LE(divided["total_time_us"], divided["undivided_time_us"]);
  double time = 0;
  std::int64_t bytes = 0;
  std::vector<std::pair<std::int64_t, std::int64_t>> segments;
  for (const json& kernel : divided["kernels"]) {
    std::int64_t images = 0;
    for (const json& micro : kernel["micro_batches"]) {
      images += micro["batch"].get<std::int64_t>() *
                micro["count"].get<std::int64_t>();
      EXPECT_LE(micro["workspace_bytes"], kernel["workspace_bytes"]);
    }
    EXPECT_EQ(images, 256);
    time += kernel["time_us"].get<double>();
    bytes += kernel["workspace_bytes"].get<std::int64_t>();
    segments.emplace_back(kernel["offset_bytes"], kernel["workspace_bytes"]);
  }
  EXPECT_NEAR(time, divided["total_time_us"], 0.01);
  EXPECT_EQ(divided["total_workspace_bytes"], bytes);
  EXPECT_LE(bytes, 960 << 20);
  std::sort(segments.begin(), segments.end());
  for (std::size_t i = 1; i < segments.size(); ++i) {
    EXPECT_LE(segments[i - 1].first + segments[i - 1].second,
              segments[i].first);
  }
}

TEST(SolveDivisionCliTest, NamesTheSmallestTotalThatWouldDo) {
  const test::TemporaryFolder folder;
  std::ofstream(folder / "p.csv")
      << kProfileHeader
      << "d,n,conv1,forward,FP32,NCHW,2,A,FMA,5000,5\n"
         "d,n,conv2,forward,FP32,NCHW,2,A,FMA,3072,5\n";
  const Finished small = Solve("wd", {"--profile", folder / "p.csv", "--batch",
                                      "4", "--workspace-limit", "6KiB"});
  EXPECT_EQ(small.status, 3);
  EXPECT_THAT(small.out, IsEmpty());
  EXPECT_THAT(small.err, HasSubstr("total limit that would do is 8072"));
}

// Times of ResNet-18 on a K80, a P100 and a V100 as Gavel publishes them
// (physical cluster, OSDI 2020), in milliseconds.
std::string Times(const std::string& header, const std::string& prefix) {
  return header + "\n" + prefix + "k80,16,203.789\n" + prefix +
         "k80,32,126.927\n" + prefix + "k80,64,138.288\n" + prefix +
         "p100,16,26.826\n" + prefix + "p100,32,24.050\n" + prefix +
         "p100,64,42.771\n" + prefix + "v100,16,30.909\n" + prefix +
         "v100,32,33.392\n" + prefix + "v100,64,41.505\n";
}

TEST(SolveDivisionCliTest, SharesABatchAmongUnlikeGpus) {
  const test::TemporaryFolder folder;
  std::ofstream(folder / "t.csv") << Times("gpu,batch,ms_per_iteration", "");
  const json plan =
      SolveJson("assign", {"--times", folder / "t.csv", "--batch", "96"});
  EXPECT_EQ(plan["batch"], 96);
  EXPECT_EQ(plan["makespan_us"], 41505.0);
  EXPECT_EQ(plan["lower_bound_us"], 41505.0);
  EXPECT_EQ(plan["optimal"], true);
  EXPECT_EQ(plan["even_split_us"], 126927.0);
  ASSERT_EQ(plan["gpus"].size(), 3U);
  EXPECT_EQ(plan["gpus"][0]["gpu"], "k80");
  EXPECT_EQ(plan["gpus"][0]["batch"], 0);
  EXPECT_EQ(plan["gpus"][0]["binding"], "left_too_slow");
  EXPECT_EQ(plan["gpus"][1]["batch"], 32);
  EXPECT_EQ(plan["gpus"][1]["time_us"], 24050.0);
  EXPECT_NEAR(plan["gpus"][1]["weight"], 1.0 / 3, 1e-9);
  EXPECT_EQ(plan["gpus"][2]["batch"], 64);
  ASSERT_EQ(plan["one_more"].size(), 3U);
  EXPECT_EQ(plan["one_more"][0]["gain_us"], 0.0);
  EXPECT_EQ(plan["one_more"][2]["makespan_us"], 33392.0);
  const json whole =
      SolveJson("assign", {"--times", folder / "t.csv", "--batch", "80"});
  EXPECT_TRUE(whole["even_split_us"].is_null());
  const Finished table =
      Solve("assign", {"--times", folder / "t.csv", "--batch", "96"});
  EXPECT_THAT(table.out, AllOf(HasSubstr("the slowest"),
                               HasSubstr("one more k80: no gain")));
}

TEST(SolveDivisionCliTest, ExitsWith3NamingTheNearestBatches) {
  const test::TemporaryFolder folder;
  std::ofstream(folder / "t.csv") << Times("gpu,batch,ms_per_iteration", "");
  const Finished odd =
      Solve("assign", {"--times", folder / "t.csv", "--batch", "97"});
  EXPECT_EQ(odd.status, 3);
  EXPECT_THAT(odd.out, IsEmpty());
  EXPECT_THAT(odd.err, HasSubstr("nearest that would do are 96 and 112"));
}

TEST(SolveDivisionCliTest, ExitsWith2IfTheTimesAreMalformedOrAmbiguous) {
  const test::TemporaryFolder folder;
  std::ofstream(folder / "two.csv")
      << Times("model,gpu,batch,ms_per_iteration", "ResNet-18,")
      << "ResNet-50,k80,16,397.235\n";
  const Finished several =
      Solve("assign", {"--times", folder / "two.csv", "--batch", "96"});
  EXPECT_EQ(several.status, 2);
  EXPECT_THAT(several.err,
              AllOf(HasSubstr("ResNet-18"), HasSubstr("ResNet-50")));
  const Finished unknown = Solve("assign", {"--times", folder / "two.csv",
                                            "--batch", "96", "--model", "VGG"});
  EXPECT_EQ(unknown.status, 2);
  EXPECT_THAT(unknown.err, HasSubstr("ResNet-50"));
  EXPECT_EQ(SolveJson("assign", {"--times", folder / "two.csv", "--batch", "16",
                                 "--model", "ResNet-50"})["makespan_us"],
            397235.0);
  for (const std::string bad : {"nan", "-1", "inf", "1e300", "", "x"}) {
    std::ofstream(folder / "bad.csv")
        << "gpu,batch,time_us\na,1," << bad << "\n";
    const Finished run =
        Solve("assign", {"--times", folder / "bad.csv", "--batch", "1"});
    EXPECT_EQ(run.status, 2) << bad;
    EXPECT_THAT(run.err, AllOf(HasSubstr("bad.csv:2"), HasSubstr("time_us")));
  }
  EXPECT_EQ(
      Solve("assign", {"--times", folder / "two.csv", "--batch", "0"}).status,
      2);
  EXPECT_EQ(Solve("assign", {"--batch", "1"}).status, 2);
}

// The programme as glpsol reads it, and as ucudnn-glpk solves it, has the
// optimum that is found without it.
TEST(SolveDivisionCliTest, WritesProgrammesThatGlpkSolvesAlike) {
  const test::TemporaryFolder folder;
  struct Case {
    std::string problem;
    std::string optimum;
    std::vector<std::string> flags;
  };
  std::vector<Case> cases = {{"assign",
                              "makespan_us",
                              {"--times", test::DataPath("gavel_resnet.csv"),
                               "--model", "ResNet-50", "--batch", "128"}}};
  for (const auto& [profile, batch] :
       {std::pair("alexnet_b256_pow2.csv", "256"),
        std::pair("alexnet_conv2-5_b256_all_fp32.csv.gz", "256"),
        std::pair("resnet18_b128_pow2.csv.gz", "128"),
        std::pair("resnet50_b32_pow2.csv.gz", "32"),
        std::pair("vgg16_b64_pow2.csv.gz", "64")}) {
    cases.push_back(
        {"wd",
         "total_time_us",
         {"--profile", test::DataPath(std::string("h200/") + profile),
          "--batch", batch, "--precision", "FP32", "--workspace-limit",
          "960MiB"}});
  }
  for (const Case& one : cases) {
    const std::string lp = folder / "programme.lp";
    std::vector<std::string> flags = one.flags;
    flags.insert(flags.end(), {"--write-lp", lp});
    const double optimum = SolveJson(one.problem, flags)[one.optimum];
    const Finished glpk =
        test::Run({test::ProgramPath("ucudnn-glpk"), "--time-limit", "60", lp});
    ASSERT_EQ(glpk.status, 0) << glpk.err;
    const json solved = json::parse(glpk.out);
    EXPECT_EQ(solved["status"], "optimal");
    EXPECT_NEAR(solved["objective"], optimum, 1e-6 * optimum);
    EXPECT_GT(solved["variables"], 10);
    flags = one.flags;
    flags.insert(flags.end(), {"--solver", "glpk"});
    EXPECT_NEAR(SolveJson(one.problem, flags)[one.optimum], optimum,
                1e-6 * optimum);
  }
}

TEST(SolveDivisionCliTest, SaysWhatAGeneralSolverLacks) {
  const test::TemporaryFolder folder;
  std::ofstream(folder / "bad.lp") << "Minimize\n x +\nSubject\n";
  const Finished bad =
      test::Run({test::ProgramPath("ucudnn-glpk"), folder / "bad.lp"});
  EXPECT_EQ(bad.status, 2);
  EXPECT_THAT(bad.err, HasSubstr("bad.lp: GLPK cannot read it"));
  EXPECT_THAT(Solve("wd", {"--solver", "cplex"}).err,
              AllOf(HasSubstr("--solver"), HasSubstr("glpk")));
}

}  // namespace
}  // namespace ucudnn
