// The same measurements give the same plan wherever they go: by the service
// after an import, by `ucudnn solve` and in Python from what it exports, and by
// another service that imports that.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tests/integration/cluster.h"
#include "tests/support/paths.h"

namespace ucudnn::test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr const char* kKind = "NVIDIA H200/132u/139GiB/cudnn-9.19";

// AlexNet on an H200, every row as three repeats that differ by `noise`: enough
// for the planner not to trust every division.
std::string NoisyAlexNet(double noise) {
  std::istringstream rows(
      FileText(test::DataPath("h200/alexnet_b256_pow2.csv")));
  std::string csv;
  std::string row;
  std::getline(rows, row);
  csv += row + "\n";
  while (std::getline(rows, row)) {
    const std::size_t comma = row.rfind(',');
    const double time = std::stod(row.substr(comma + 1));
    for (const double factor : {1 - noise, 1.0, 1 + noise}) {
      csv += row.substr(0, comma + 1) + std::to_string(time * factor) + "\n";
    }
  }
  return csv;
}

// What makes two plans the same.
json EssenceOf(const json& plan) {
  json essence = {{"total", plan.at("total_time_us")},
                  {"bound", plan.at("lower_bound_us")},
                  {"optimal", plan.at("optimal")},
                  {"undivided", plan.at("undivided_time_us")},
                  {"kernels", json::array()}};
  for (const json& kernel : plan.at("kernels")) {
    json micro_batches = json::array();
    for (const json& micro : kernel.at("micro_batches")) {
      micro_batches.push_back(
          {micro.at("batch"), micro.at("count"), micro.at("algorithm"),
           micro.at("math"), micro.at("time_us"), micro.at("workspace_bytes")});
    }
    essence["kernels"].push_back({kernel.at("layer"), kernel.at("op"),
                                  kernel.at("time_us"),
                                  kernel.at("workspace_bytes"), micro_batches});
  }
  return essence;
}

class SamePlanTest : public ::testing::TestWithParam<std::string> {
 protected:
  SamePlanTest() {
    std::ofstream(folder_ / "measured.csv") << NoisyAlexNet(0.4);
    // Of the geometry that was measured; the data gradient of conv1 too.
    std::istringstream layers(
        FileText(test::DataPath("networks/alexnet_owt.csv")));
    std::ofstream network(folder_ / "alexnet.csv");
    std::string layer;
    for (std::string more = ",transposed,needs_input_gradient";
         std::getline(layers, layer); more = ",0,1") {
      network << layer << more << "\n";
    }
  }

  std::vector<std::string> Import(const std::string& file) const {
    return {"profiles", "import", folder_ / file};
  }

  // A service's plan once it has imported something.
  json PlanOf(const Cluster& cluster) const {
    const Finished put =
        cluster.Ucudnn({"networks", "put", "alexnet", folder_ / "alexnet.csv"});
    EXPECT_EQ(put.status, 0) << put.err;
    const Finished plan =
        cluster.Ucudnn({"plan", "--network", "alexnet", "--batch", "256",
                        "--workspace-limit", "64MiB", "--precision", GetParam(),
                        "--device-kind", kKind, "-o", "json"});
    EXPECT_EQ(plan.status, 0) << plan.err << cluster.Log();
    const json answer = json::parse(plan.out, nullptr, false);
    if (answer.is_discarded()) return {};
    return EssenceOf(answer.at("ranks").at(0).at("workspace"));
  }

  json SolvedFrom(const std::string& file) const {
    const Finished solved =
        test::Run({test::ProgramPath("ucudnn"), "solve", "wr", "--profile",
                   folder_ / file, "--batch", "256", "--workspace-limit",
                   "64MiB", "--batch-policy", "powerOfTwo", "--precision",
                   GetParam(), "-o", "json"});
    EXPECT_EQ(solved.status, 0) << solved.err;
    const json plan = json::parse(solved.out, nullptr, false);
    return plan.is_discarded() ? json() : EssenceOf(plan);
  }

  // Read into objects, written from them, and solved from both.
  json SolvedInPython(const std::string& file) const {
    const std::string script =
        "import json, sys, ucudnn\n"
        "p = ucudnn.Profile.read(sys.argv[1])\n"
        "p.write(sys.argv[2])\n"
        "plans = [ucudnn.solve_wr(q, 256, '64MiB', precision=sys.argv[3],\n"
        "         batch_policy='powerOfTwo').to_json()\n"
        "         for q in (p, sys.argv[1], sys.argv[2])]\n"
        "assert plans[0] == plans[1] == plans[2], plans\n"
        "print(json.dumps(plans[0]))\n";
    const Finished solved =
        test::Run({UCUDNN_PYTHON, "-c", script, folder_ / file,
                   folder_ / "rewritten.csv.gz", GetParam()},
                  {{"PYTHONPATH", UCUDNN_PYTHON_PACKAGE},
                   {"PYTHONDONTWRITEBYTECODE", "1"},
                   {"UCUDNN_LIBRARY", test::LibraryPath("")}});
    EXPECT_EQ(solved.status, 0) << solved.err;
    const json plan = json::parse(solved.out, nullptr, false);
    return plan.is_discarded() ? json() : EssenceOf(plan);
  }

  TemporaryFolder folder_;
};

TEST_P(SamePlanTest, IsMadeByServicesTheCommandAndPython) {
  Cluster cluster;
  cluster.StartCoordinators();
  std::vector<std::string> import = Import("measured.csv");
  import.insert(import.end(), {"--network", folder_ / "alexnet.csv", "--kind",
                               kKind, "--complete-up-to", "64GiB"});
  const Finished imported = cluster.Ucudnn(import);
  ASSERT_EQ(imported.status, 0) << imported.err;
  const json plan = PlanOf(cluster);
  ASSERT_EQ(plan["kernels"].size(), 15U) << plan;
  // The spread of the measurements matters.
  EXPECT_EQ(plan["optimal"], false);

  EXPECT_EQ(SolvedFrom("measured.csv"), plan);
  const Finished exported = cluster.Ucudnn(
      {"profiles", "export", "--network", "alexnet", folder_ / "out.csv"});
  ASSERT_EQ(exported.status, 0) << exported.err;
  EXPECT_EQ(SolvedFrom("out.csv"), plan);
  EXPECT_EQ(SolvedInPython("out.csv"), plan);
  EXPECT_EQ(SolvedFrom("rewritten.csv.gz"), plan);

  // Both forms of an export are all that another coordinator needs.
  const Finished whole =
      cluster.Ucudnn({"profiles", "export", folder_ / "whole.csv"});
  ASSERT_EQ(whole.status, 0) << whole.err;
  for (const char* file : {"out.csv", "whole.csv"}) {
    Cluster other;
    other.StartCoordinators();
    const Finished moved = other.Ucudnn(Import(file));
    ASSERT_EQ(moved.status, 0) << moved.err;
    EXPECT_EQ(PlanOf(other), plan) << file;
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, SamePlanTest,
                         ::testing::Values("FP32", "TF32"));

TEST(ImportTest, SaysWhatAProfileLacks) {
  Cluster cluster;
  cluster.StartCoordinators();
  const std::string measured = test::DataPath("h200/alexnet_b256_pow2.csv");
  Finished refused = cluster.Ucudnn({"profiles", "import", measured});
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("--kind"));
  refused = cluster.Ucudnn({"profiles", "import", measured, "--kind", kKind});
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("no column 'problem'"));
  EXPECT_THAT(refused.err, HasSubstr("--network"));
  refused =
      cluster.Ucudnn({"profiles", "import", measured, "--kind", kKind,
                      "--network", test::DataPath("networks/resnet18.csv")});
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("network 'resnet18' has no layer"));
}

}  // namespace
}  // namespace ucudnn::test
