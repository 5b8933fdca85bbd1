// `ucudnn solve wr|pareto|ws` as people and scripts call it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/client/cli/solve/solve_command.h"
#include "tests/support/paths.h"
#include "tests/support/powers_of_two.h"

namespace ucudnn {
namespace {

using nlohmann::json;
using test::Finished;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const std::string kAlexNetPoints = test::DataPath("h200/alexnet_b256_pow2.csv");
const std::string kAllSizes =
    test::DataPath("h200/alexnet_conv2-5_b256_all_fp32.csv.gz");
const std::string kOnnx = test::DataPath("onnx/");

struct Row {
  std::int64_t batch;
  std::string algorithm;
  std::int64_t workspace;
  std::int64_t nanoseconds;
};
using Rows = std::map<std::pair<std::string, std::string>, std::vector<Row>>;

// The file's rows of one precision, by layer and operation, parsed
// independently.
Rows ReadRows(const std::string& path, const std::string& precision) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  if (!line.empty() && line.back() == '\r') line.pop_back();
  EXPECT_EQ(line,
            "device,network,layer,op,precision,layout,batch,algorithm,math,"
            "workspace_bytes,time_us");
  Rows rows;
  while (std::getline(file, line)) {
    std::vector<std::string> fields;
    std::stringstream stream(line);
    for (std::string field; std::getline(stream, field, ',');) {
      fields.push_back(field);
    }
    if (fields.at(4) != precision) continue;
    rows[{fields[2], fields[3]}].push_back(
        {std::stoll(fields[6]), fields[7], std::stoll(fields[9]),
         std::llround(std::stod(fields[10]) * 1000)});
  }
  return rows;
}

std::int64_t Nanoseconds(const json& us) {
  EXPECT_TRUE(us.is_number());
  return std::llround(us.get<double>() * 1000);
}

TEST(SolveCliTest, WorkspaceReuseEqualsTryingEveryDivisionOfAlexNet) {
  const std::int64_t limit = 64 << 20;
  const json plan = SolveJson(
      "wr", {"--profile", kAlexNetPoints, "--batch", "256", "--workspace-limit",
             "64MiB", "--batch-policy", "powerOfTwo", "--precision", "FP32"});
  const Rows rows = ReadRows(kAlexNetPoints, "FP32");
  ASSERT_EQ(plan["kernels"].size(), rows.size());
  std::int64_t total = 0;
  std::int64_t undivided_total = 0;
  std::int64_t workspace_total = 0;
  for (const json& kernel : plan["kernels"]) {
    const std::string layer = kernel["layer"];
    const std::string op = kernel["op"];
    test::PowersOfTwo divisions(256);
    for (const Row& row : rows.at({layer, op})) {
      if (row.workspace <= limit) divisions.Add(row.batch, row.nanoseconds);
    }
    EXPECT_EQ(Nanoseconds(kernel["time_us"]), divisions.TryAll(256))
        << layer << op;
    EXPECT_EQ(Nanoseconds(kernel["undivided_time_us"]), divisions.Fastest(256));
    EXPECT_EQ(kernel["precision"], "FP32");
    std::int64_t images = 0;
    std::int64_t time = 0;
    std::int64_t workspace = 0;
    for (const json& micro : kernel["micro_batches"]) {
      EXPECT_EQ(micro["math"], "FMA");
      ASSERT_TRUE(micro["workspace_bytes"].is_number_integer());
      const Row used{micro["batch"], micro["algorithm"],
                     micro["workspace_bytes"], Nanoseconds(micro["time_us"])};
      EXPECT_TRUE(
          std::any_of(rows.at({layer, op}).begin(), rows.at({layer, op}).end(),
                      [&used](const Row& row) {
                        return std::tie(row.batch, row.algorithm, row.workspace,
                                        row.nanoseconds) ==
                               std::tie(used.batch, used.algorithm,
                                        used.workspace, used.nanoseconds);
                      }));
      const std::int64_t count = micro["count"];
      images += used.batch * count;
      time += used.nanoseconds * count;
      workspace = std::max(workspace, used.workspace);
    }
    EXPECT_EQ(images, 256);
    EXPECT_EQ(time, Nanoseconds(kernel["time_us"]));
    EXPECT_EQ(workspace, kernel["workspace_bytes"]);
    EXPECT_LE(workspace, limit);
    total += time;
    undivided_total += divisions.Fastest(256);
    workspace_total += workspace;
  }
  EXPECT_EQ(plan["batch"], 256);
  EXPECT_EQ(plan["workspace_limit_bytes"], limit);
  EXPECT_EQ(Nanoseconds(plan["total_time_us"]), total);
  EXPECT_EQ(Nanoseconds(plan["lower_bound_us"]), total);
  EXPECT_EQ(plan["optimal"], true);
  EXPECT_EQ(Nanoseconds(plan["undivided_time_us"]), undivided_total);
  EXPECT_EQ(plan["total_workspace_bytes"], workspace_total);
}

TEST(SolveCliTest, PrintsNullIfNothingUndividedFits) {
  const test::TemporaryFolder folder;
  std::ofstream(folder / "p.csv")
      << kProfileHeader
      << "d,n,conv1,forward,FP32,NCHW,2,A,FMA,100,5.5\n"
         "d,n,conv1,forward,FP32,NCHW,4,A,FMA,200,9\n"
         "d,n,conv2,forward,FP32,NCHW,4,A,FMA,100,0.001\n";
  const json plan = SolveJson("wr", {"--profile", folder / "p.csv", "--batch",
                                     "4", "--workspace-limit", "100"});
  EXPECT_TRUE(plan["undivided_time_us"].is_null());
  EXPECT_TRUE(plan["kernels"][0]["undivided_time_us"].is_null());
  EXPECT_EQ(plan["kernels"][0]["time_us"], 11.0);
  EXPECT_EQ(plan["kernels"][1]["undivided_time_us"], 0.001);
}

TEST(SolveCliTest, UsesTheMedianOfRepeatedMeasurements) {
  const test::TemporaryFolder folder;
  std::ofstream(folder / "p.csv")
      << kProfileHeader
      << "d,n,conv1,forward,FP32,NCHW,4,A,FMA,0,100\n"
         "d,n,conv1,forward,FP32,NCHW,2,A,FMA,0,10\n"
         "d,n,conv1,forward,FP32,NCHW,2,A,FMA,0,48\n"
         "d,n,conv1,forward,FP32,NCHW,2,A,FMA,0,900\n";
  // Twice 48 is less than 100, but by much less than the repeats vary.
  const json plan = SolveJson("wr", {"--profile", folder / "p.csv", "--batch",
                                     "4", "--workspace-limit", "100"});
  EXPECT_EQ(plan["total_time_us"], 100.0);
  EXPECT_EQ(plan["lower_bound_us"], 96.0);
  EXPECT_EQ(plan["optimal"], false);
}

TEST(SolveCliTest, ListsAFrontByRisingWorkspace) {
  const json front = SolveJson(
      "pareto", {"--profile", kAllSizes, "--batch", "256", "--workspace-limit",
                 "120MiB", "--layer", "conv2", "--op", "forward"})["front"];
  ASSERT_GT(front.size(), 3U);
  for (std::size_t i = 0; i < front.size(); ++i) {
    std::int64_t images = 0;
    for (const json& micro : front[i]["micro_batches"]) {
      images += micro["batch"].get<std::int64_t>() *
                micro["count"].get<std::int64_t>();
    }
    EXPECT_EQ(images, 256);
    if (i == 0) continue;
    EXPECT_GT(front[i]["workspace_bytes"], front[i - 1]["workspace_bytes"]);
    EXPECT_LT(front[i]["time_us"], front[i - 1]["time_us"]);
  }
  EXPECT_LE(front.back()["workspace_bytes"], 120 << 20);
  const json plan = SolveJson(
      "wr", {"--profile", kAllSizes, "--batch", "256", "--workspace-limit",
             "120MiB", "--layer", "conv2", "--op", "forward"});
  EXPECT_EQ(plan["kernels"][0]["micro_batches"], front.back()["micro_batches"]);
}

TEST(SolveCliTest, SaysThatTheAccuracyOfAFrontIsNotMeasured) {
  const test::TemporaryFolder folder;
  std::vector<std::string> flags = {"--profile", folder / "p.csv",    "--batch",
                                    "4",         "--workspace-limit", "0"};
  WriteProfileOfUnlikeErrors(folder / "p.csv", 4, true);
  EXPECT_FALSE(SolveJson("pareto", flags).contains("notes"));
  EXPECT_THAT(Solve("pareto", flags).out, Not(HasSubstr("accuracy")));
  WriteProfileOfUnlikeErrors(folder / "p.csv", 4, false);
  EXPECT_THAT(SolveJson("pareto", flags)["notes"].dump(),
              HasSubstr("accuracy not measured: 1 of 1 kernels"));
  EXPECT_THAT(Solve("pareto", flags).out,
              HasSubstr("\naccuracy not measured: 1 of 1 kernels"));
}

TEST(SolveCliTest, RefusesAFrontForSeveralKernels) {
  const Finished run =
      Solve("pareto", {"--profile", kAllSizes, "--batch", "256",
                       "--workspace-limit", "120MiB", "--op", "forward"});
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.out, IsEmpty());
  EXPECT_THAT(run.err, AllOf(HasSubstr("--layer"), HasSubstr("conv5 forward")));
}

TEST(SolveCliTest, ASharedArenaIsWorkspaceReuseOnAChain) {
  const std::vector<std::string> flags = {
      "--profile",         kAlexNetPoints, "--batch",     "256",
      "--workspace-limit", "64MiB",        "--precision", "FP32"};
  const json reuse = SolveJson("wr", flags);
  std::vector<std::string> with_network = flags;
  with_network.insert(with_network.end(),
                      {"--network", kOnnx + "alexnet.onnx"});
  const json shared = SolveJson("ws", with_network);
  EXPECT_EQ(shared["total_time_us"], reuse["total_time_us"]);
  EXPECT_EQ(shared["undivided_time_us"], reuse["undivided_time_us"]);
  EXPECT_LE(shared["total_workspace_bytes"], 64 << 20);
  EXPECT_EQ(shared["notes"].back(), reuse["notes"][0]);
  EXPECT_THAT(Solve("ws", with_network).out,
              HasSubstr("\naccuracy not measured: 15 of 15 kernels"));
  for (std::size_t k = 0; k < reuse["kernels"].size(); ++k) {
    EXPECT_EQ(shared["kernels"][k]["offset_bytes"], 0);
    EXPECT_EQ(shared["kernels"][k]["micro_batches"],
              reuse["kernels"][k]["micro_batches"]);
  }
}

// Invented measurements for GoogLeNet's 57 convolutions: some are fast with
// much workspace and slow without.
TEST(SolveCliTest, PlacesTheBranchesOfAModuleSideBySide) {
  const test::TemporaryFolder folder;
  std::ofstream csv(folder / "p.csv");
  csv << kProfileHeader;
  for (int layer = 0; layer < 57; ++layer) {
    for (const char* op : {"forward", "backward_filter"}) {
      for (int batch = 1; batch <= 8; batch *= 2) {
        csv << "d,googlenet,l" << layer << ',' << op << ",FP32,NCHW," << batch
            << ",GEMM,FMA,0," << batch * (40 + layer) << "\n";
        csv << "d,googlenet,l" << layer << ',' << op << ",FP32,NCHW," << batch
            << ",FFT,FMA," << batch * (100 + layer) << ','
            << 9 + batch * (10 + layer % 7) << "\n";
      }
    }
  }
  csv.close();
  const json plan = SolveJson(
      "ws", {"--profile", folder / "p.csv", "--batch", "8", "--network",
             kOnnx + "googlenet.onnx", "--workspace-limit", "1200"});
  EXPECT_EQ(plan["optimal"], true);
  // Layers 3, 4-5, 6-7 and 8 are the branches of the first module.
  const auto segment = [&plan](std::size_t layer) {
    const json& kernel = plan["kernels"][2 * layer];
    EXPECT_EQ(kernel["layer"], "l" + std::to_string(layer));
    return std::pair<std::int64_t, std::int64_t>(
        kernel["offset_bytes"], kernel["offset_bytes"].get<std::int64_t>() +
                                    kernel["workspace_bytes"].get<int>());
  };
  for (const auto& [a, b] : {std::pair{3, 4}, std::pair{3, 5}, std::pair{4, 6},
                             std::pair{5, 7}, std::pair{7, 8}}) {
    EXPECT_TRUE(segment(a).second <= segment(b).first ||
                segment(b).second <= segment(a).first)
        << a << " and " << b;
  }
  // A kernel that runs alone has the whole arena; its time falls with the
  // arena's size.
  EXPECT_EQ(segment(0).first, 0);
  const json wide = SolveJson(
      "ws", {"--profile", folder / "p.csv", "--batch", "8", "--network",
             kOnnx + "googlenet.onnx", "--workspace-limit", "1MiB"});
  EXPECT_LT(wide["total_time_us"], plan["total_time_us"]);
}

TEST(SolveCliTest, RefusesLayersThatTheModelDoesNotHave) {
  const Finished run =
      Solve("ws", {"--profile", kAlexNetPoints, "--batch", "256",
                   "--workspace-limit", "64MiB", "--precision", "FP32",
                   "--network", kOnnx + "vgg16.onnx"});
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, AllOf(HasSubstr("vgg16"), HasSubstr("13 convolutions")));
}

TEST(SolveCliTest, ExitsWith2NamingTheFlagTheValueAndWhatIsAccepted) {
  const std::vector<std::string> good = {
      "--profile",         kAlexNetPoints, "--batch",     "256",
      "--workspace-limit", "64MiB",        "--precision", "FP32"};
  struct Bad {
    std::string flag;
    std::string value;
    std::string accepted;
  };
  for (const std::string problem : {"wr", "pareto"}) {
    for (const Bad& bad :
         {Bad{"--op", "sideways", "backward_data"},
          Bad{"--precision", "FP31", "TRUE_HALF"},
          Bad{"--layout", "NWHC", "NHWC"}, Bad{"--batch", "0", "1 to 16777216"},
          Bad{"--batch", "-3", "1 to 16777216"},
          Bad{"--batch", "1e3", "1 to 16777216"},
          Bad{"--batch", "99999999999999999999", "1 to 16777216"},
          Bad{"--workspace-limit", "64 apples", "8MiB"},
          Bad{"--workspace-limit", "-1", "8MiB"},
          Bad{"--batch-policy", "powersOfTwo", "powerOfTwo"},
          Bad{"--output", "xml", "json"}}) {
      std::vector<std::string> flags = good;
      const auto given = std::find(flags.begin(), flags.end(), bad.flag);
      if (given != flags.end()) flags.erase(given, given + 2);
      flags.push_back(bad.flag + "=" + bad.value);
      const Finished run = Solve(problem, flags);
      EXPECT_EQ(run.status, 2) << bad.flag << " " << bad.value;
      EXPECT_THAT(run.out, IsEmpty());
      EXPECT_THAT(run.err, AllOf(HasSubstr(bad.flag), HasSubstr(bad.value),
                                 HasSubstr(bad.accepted)));
    }
  }
  for (const char* missing : {"--profile", "--batch", "--workspace-limit"}) {
    std::vector<std::string> flags = good;
    const auto at = std::find(flags.begin(), flags.end(), missing);
    flags.erase(at, at + 2);
    const Finished run = Solve("wr", flags);
    EXPECT_EQ(run.status, 2);
    EXPECT_THAT(run.err, HasSubstr(missing));
  }
}

TEST(SolveCliTest, ExitsWith2IfTheProfileIsAmbiguousOrMalformed) {
  const Finished several = Solve("wr", {"--profile", kAlexNetPoints, "--batch",
                                        "256", "--workspace-limit", "64MiB"});
  EXPECT_EQ(several.status, 2);
  EXPECT_THAT(several.err,
              AllOf(HasSubstr("precision"), HasSubstr("PSEUDO_HALF")));
  const Finished unknown =
      Solve("wr", {"--profile", kAlexNetPoints, "--batch", "256", "--precision",
                   "FP32", "--workspace-limit", "64MiB", "--layer", "conv9"});
  EXPECT_EQ(unknown.status, 2);
  EXPECT_THAT(unknown.err, AllOf(HasSubstr("conv9"), HasSubstr("conv5")));
  const test::TemporaryFolder folder;
  std::ofstream(folder / "p.csv")
      << kProfileHeader << "d,n,conv1,forward,FP32,NCHW,2,A,FMA,100,nan\n";
  const Finished nan = Solve("wr", {"--profile", folder / "p.csv", "--batch",
                                    "2", "--workspace-limit", "64MiB"});
  EXPECT_EQ(nan.status, 2);
  EXPECT_THAT(nan.err, AllOf(HasSubstr("p.csv:2"), HasSubstr("nan")));
}

TEST(SolveCliTest, ExitsWith2IfAFileIsTooLongOrBroken) {
  const test::TemporaryFolder folder;
  std::ofstream(folder / "p.csv") << "device,network\n";
  // A sparse gigabyte of zeros, which takes no disk space.
  std::filesystem::resize_file(folder / "p.csv", (std::size_t{1} << 30) + 1);
  std::ofstream(folder / "p.csv.gz", std::ios::binary) << "\x1F\x8B\x08 no";
  for (const auto& [file, why] : {std::pair("p.csv", "larger than 1GiB"),
                                  std::pair("p.csv.gz", "gzip")}) {
    const Finished run = Solve("wr", {"--profile", folder / file, "--batch",
                                      "2", "--workspace-limit", "64MiB"});
    EXPECT_EQ(run.status, 2);
    EXPECT_THAT(run.out, IsEmpty());
    EXPECT_THAT(run.err, AllOf(HasSubstr(file), HasSubstr(why)));
  }
  const Finished assign =
      Solve("assign", {"--times", folder / "p.csv.gz", "--batch", "2"});
  EXPECT_EQ(assign.status, 2);
}

TEST(SolveCliTest, ExitsWith3NamingWhatWouldDo) {
  const test::TemporaryFolder folder;
  std::ofstream(folder / "p.csv")
      << kProfileHeader
      << "d,n,conv1,forward,FP32,NCHW,2,A,FMA,5000,5\n"
         "d,n,conv2,forward,FP32,NCHW,2,A,FMA,3072,5\n";
  for (const std::string problem : {"wr", "pareto"}) {
    const Finished small =
        Solve(problem, {"--profile", folder / "p.csv", "--batch", "4",
                        "--workspace-limit", "2KiB", "--layer", "conv2"});
    EXPECT_EQ(small.status, 3);
    EXPECT_THAT(small.out, IsEmpty());
    EXPECT_THAT(small.err, HasSubstr("limit that would do is 3KiB"));
  }
  const Finished both = Solve("wr", {"--profile", folder / "p.csv", "--batch",
                                     "4", "--workspace-limit", "2KiB"});
  EXPECT_EQ(both.status, 3);
  EXPECT_THAT(both.err, HasSubstr("limit that would do is 5000"));
  const Finished odd = Solve("wr", {"--profile", folder / "p.csv", "--batch",
                                    "5", "--workspace-limit", "1MiB"});
  EXPECT_EQ(odd.status, 3);
  EXPECT_THAT(odd.err, HasSubstr("nearest batch below that would do is 4"));
}

TEST(SolveCliTest, PrintsATableForPeopleAndYamlOnRequest) {
  const std::vector<std::string> flags = {
      "--profile",         kAlexNetPoints, "--batch",     "256",
      "--workspace-limit", "64MiB",        "--precision", "FP32",
      "--batch-policy",    "powerOfTwo"};
  const Finished table = Solve("wr", flags);
  EXPECT_EQ(table.status, 0);
  EXPECT_THAT(table.out,
              AllOf(HasSubstr("8 × 32, WINOGRAD_NONFUSED"),
                    HasSubstr("undivided 37.5 ms"), HasSubstr("1.83x"),
                    HasSubstr("optimal"), Not(HasSubstr("OFFSET"))));
  std::vector<std::string> yaml = flags;
  yaml.insert(yaml.end(), {"-o", "yaml"});
  const Finished text = Solve("wr", yaml);
  EXPECT_EQ(text.status, 0);
  EXPECT_THAT(text.out, AllOf(HasSubstr("batch: 256"),
                              HasSubstr("algorithm: WINOGRAD_NONFUSED")));
}

TEST(SolveCliTest, QuotesNamesThatYamlWouldNotReadAsText) {
  const test::TemporaryFolder folder;
  std::ofstream(folder / "p.csv")
      << kProfileHeader
      << "d,n,No,forward,FP32,NCHW,2,TRUE,FMA,5000,5\n"
         "d,n,y,forward,FP32,NCHW,2,Nothing,FMA,5000,5\n";
  const Finished run =
      Solve("wr", {"--profile", folder / "p.csv", "--batch", "2",
                   "--workspace-limit", "1MiB", "-o", "yaml"});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(
      run.out,
      AllOf(HasSubstr("layer: \"No\"\n"), HasSubstr("algorithm: \"TRUE\"\n"),
            HasSubstr("layer: \"y\"\n"), HasSubstr("algorithm: Nothing\n")));
}

}  // namespace
}  // namespace ucudnn
