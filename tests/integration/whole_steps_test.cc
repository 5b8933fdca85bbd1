// Whole steps, by the real daemons: a network as an ONNX model, all of whose
// tasks an agent measures on the CPU, and plans that count them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "base/other_tasks.h"
#include "base/profile.h"
#include "tests/base/onnx/models.h"
#include "tests/integration/cluster.h"

namespace ucudnn::test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

class WholeStepsServiceTest : public ::testing::Test {
 protected:
  // Two normalisations, one of them in a residual block, so that a coordinator
  // knows it.
  void Put(const Cluster& cluster) const {
    const std::string file = folder_ / "net.onnx";
    std::ofstream(file, std::ios::binary)
        << OnnxModel(
               "g (float[N,3,16,16] x, float[8,3,3,3] w1, float[8] s1,"
               "float[8] t1, float[8] m1, float[8] v1, float[8,8,3,3] w2,"
               "float[8] s2, float[8] t2, float[8] m2, float[8] v2,"
               "float[10,8] wf, float[10] bf) => (float[N,10] y) {"
               "c1 = Conv<pads=[1,1,1,1]>(x, w1)"
               "n1 = BatchNormalization(c1, s1, t1, m1, v1)"
               "r1 = Relu(n1)"
               "c2 = Conv<pads=[1,1,1,1]>(r1, w2)"
               "n2 = BatchNormalization(c2, s2, t2, m2, v2)"
               "a = Add(n2, r1)  r2 = Relu(a)  p = GlobalAveragePool(r2)"
               "f = Flatten(p)  y = Gemm<transB=1>(f, wf, bf) }")
               .SerializeAsString();
    const Finished put = cluster.Ucudnn({"networks", "put", "net", file});
    ASSERT_EQ(put.status, 0) << put.err;
  }

  static std::vector<std::string> Command(const std::string& command) {
    return {command,    "--network",         "net",   "--batch",
            "2",        "--workspace-limit", "64MiB", "--batch-policy",
            "undivided"};
  }

  TemporaryFolder folder_;
};

TEST_F(WholeStepsServiceTest, AreMeasuredPlannedExplainedAndExported) {
  Cluster cluster;
  cluster.StartCoordinators();
  Put(cluster);
  cluster.StartAgent();
  const Finished measured = cluster.Ucudnn(Command("measure"));
  ASSERT_EQ(measured.status, 0) << measured.err << cluster.Log();
  EXPECT_THAT(measured.out, HasSubstr(", 0 failed"));

  const json plan = cluster.UcudnnJson(Command("plan"));
  ASSERT_TRUE(plan.is_object()) << cluster.Log();
  const json& workspace = plan["ranks"][0]["workspace"];
  double convolutions = 0;
  for (const json& kernel : workspace["kernels"]) {
    convolutions += kernel["time_us"].get<double>();
  }
  const double other = workspace["other_time_us"];
  EXPECT_GT(other, 0);
  EXPECT_NEAR(plan["predicted_us"], convolutions + other, 0.01);
  EXPECT_THAT(plan["reasons"][0], HasSubstr("count whole steps"));

  const Finished table = cluster.Ucudnn(Command("plan"));
  EXPECT_THAT(table.out, AllOf(HasSubstr("PREDICTED (WHOLE STEP)"),
                               Not(HasSubstr("CONVOLUTIONS ONLY"))));
  const Finished explained =
      cluster.Ucudnn({"explain", std::to_string(plan["id"].get<int>())});
  ASSERT_EQ(explained.status, 0) << explained.err;
  EXPECT_THAT(explained.out, HasSubstr("tasks other than convolutions take"));
  const Finished plans = cluster.Ucudnn({"plans"});
  EXPECT_THAT(plans.out, HasSubstr("(whole step)"));

  // What is exported gives another coordinator the same plan.
  const std::string file = cluster.folder() / "profile.csv";
  const Finished exported =
      cluster.Ucudnn({"profiles", "export", "--network", "net", file});
  ASSERT_EQ(exported.status, 0) << exported.err;
  const auto profile = ReadProfileFile(file);
  ASSERT_TRUE(profile) << profile.error().message;
  ASSERT_THAT(profile->others, SizeIs(1));
  double sum = 0;
  for (const MeasuredPoint& point : profile->others[0].points) {
    EXPECT_EQ(point.batch, BatchSize(2));
    if (point.algorithm.name.ends_with(kExchanged)) continue;
    sum += Microseconds(point.time);
  }
  EXPECT_NEAR(other, sum, 0.01);
  const std::string kind = plan["ranks"][0]["device_kind"];

  Cluster second;
  second.StartCoordinators();
  Put(second);
  const Finished imported = second.Ucudnn({"profiles", "import", file});
  ASSERT_EQ(imported.status, 0) << imported.err;
  std::vector<std::string> on_kind = Command("plan");
  on_kind.insert(on_kind.end(), {"--device-kind", kind});
  const json again = second.UcudnnJson(on_kind);
  ASSERT_TRUE(again.is_object()) << second.Log();
  EXPECT_EQ(again["ranks"], plan["ranks"]);
  EXPECT_EQ(again["predicted_us"], plan["predicted_us"]);
}

TEST_F(WholeStepsServiceTest, CountStatisticsAsRanksExchangeThem) {
  Cluster cluster;
  cluster.StartCoordinators();
  Put(cluster);
  cluster.StartAgent();
  // Two ranks of an image each.
  const auto of_two = [](const std::string& command) {
    std::vector<std::string> arguments = Command(command);
    arguments.insert(arguments.end(), {"--ranks", "2"});
    return arguments;
  };
  const Finished measured = cluster.Ucudnn(of_two("measure"));
  ASSERT_EQ(measured.status, 0) << measured.err << cluster.Log();
  const json plan = cluster.UcudnnJson(of_two("plan"));
  ASSERT_TRUE(plan.is_object()) << cluster.Log();
  ASSERT_THAT(plan["ranks"], SizeIs(2));

  const std::string file = cluster.folder() / "profile.csv";
  const Finished exported = cluster.Ucudnn({"profiles", "export", file});
  ASSERT_EQ(exported.status, 0) << exported.err;
  const auto profile = ReadProfileFile(file);
  ASSERT_TRUE(profile) << profile.error().message;
  ASSERT_THAT(profile->others, SizeIs(1));
  std::map<std::string, double> us;
  for (const MeasuredPoint& point : profile->others[0].points) {
    us[point.algorithm.name] = Microseconds(point.time);
  }
  double expected = 0;
  int exchanged = 0;
  for (const auto& [name, time] : us) {
    // A normalisation's two operators instead of one.
    const auto of_ranks = us.find(name + std::string(kExchanged));
    if (of_ranks != us.end()) {
      expected += of_ranks->second;
      ++exchanged;
    } else if (!name.ends_with(kExchanged)) {
      expected += time;
    }
  }
  EXPECT_EQ(exchanged, 4);
  EXPECT_NEAR(plan["ranks"][0]["workspace"]["other_time_us"], expected, 0.01);
}

TEST_F(WholeStepsServiceTest, AreNotKnownOfConvolutionsAlone) {
  Cluster cluster;
  cluster.StartCoordinators();
  std::ofstream(folder_ / "net.csv")
      << "name,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,groups\n"
         "conv1,3,8,8,8,3,3,1,1,1,1,1\n";
  const Finished put =
      cluster.Ucudnn({"networks", "put", "net", folder_ / "net.csv"});
  ASSERT_EQ(put.status, 0) << put.err;
  cluster.StartAgent();
  const Finished table = cluster.Ucudnn(Command("plan"));
  ASSERT_EQ(table.status, 0) << table.err;
  EXPECT_THAT(table.out, AllOf(HasSubstr("PREDICTED (CONVOLUTIONS ONLY)"),
                               Not(HasSubstr("WHOLE STEP"))));
}

}  // namespace
}  // namespace ucudnn::test
