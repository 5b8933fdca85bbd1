// Settings, measurement files and plan files of the local mode.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>

#include "client/local/measurements.h"
#include "client/local/plan_text.h"
#include "client/local/settings.h"

namespace ucudnn {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

Environment With(std::map<std::string, std::string> variables) {
  return [variables](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

TEST(LocalSettingsTest, HasDefaults) {
  const auto settings = ResolveLocalSettings(With({{"HOME", "/home/x"}}));
  ASSERT_TRUE(settings) << settings.error().message;
  EXPECT_FALSE(settings->disabled);
  EXPECT_EQ(settings->workspace_limit, std::nullopt);
  EXPECT_FALSE(settings->NamesLimit());
  EXPECT_EQ(settings->MostWorkspace(), 64_MiB);
  EXPECT_EQ(settings->policy, BatchPolicy::kPowerOfTwo);
  EXPECT_EQ(settings->cache_dir, "/home/x/.cache/ucudnn");
}

TEST(LocalSettingsTest, ReadsTheEnvironment) {
  const auto settings =
      ResolveLocalSettings(With({{"UCUDNN_DISABLE", "1"},
                                 {"UCUDNN_WORKSPACE_LIMIT", "8MiB"},
                                 {"UCUDNN_TOTAL_WORKSPACE_SIZE", "1GiB"},
                                 {"UCUDNN_BATCH_SIZE_POLICY", "all"},
                                 {"UCUDNN_PLAN_FILE", "/p.json"},
                                 {"UCUDNN_NETWORK_FILE", "/n.csv"},
                                 {"UCUDNN_COORDINATOR", "a:1, [::1]:2"},
                                 {"UCUDNN_CACHE_DIR", "/c"},
                                 {"UCUDNN_DETERMINISTIC", "1"},
                                 {"UCUDNN_VERBOSE", "0"}}));
  ASSERT_TRUE(settings) << settings.error().message;
  EXPECT_TRUE(settings->disabled);
  EXPECT_EQ(settings->workspace_limit, 8_MiB);
  EXPECT_EQ(settings->MostWorkspace(), 1_GiB);
  EXPECT_EQ(settings->policy, BatchPolicy::kAll);
  EXPECT_EQ(settings->plan_file, "/p.json");
  EXPECT_EQ(settings->network_file, "/n.csv");
  EXPECT_THAT(settings->coordinators, ElementsAre("a:1", "[::1]:2"));
  EXPECT_EQ(settings->cache_dir, "/c");
  EXPECT_TRUE(settings->deterministic);
  EXPECT_FALSE(settings->verbose);
}

TEST(LocalSettingsTest, TakesThePlanFilesNetworkWhereATotalIsDivided) {
  const auto total =
      ResolveLocalSettings(With({{"UCUDNN_PLAN_FILE", "/p.json"},
                                 {"UCUDNN_TOTAL_WORKSPACE_SIZE", "1GiB"}}));
  EXPECT_EQ(total->network_file, "/p.json");
  const auto each = ResolveLocalSettings(
      With({{"UCUDNN_PLAN_FILE", "/p.json"}, {"UCUDNN_NETWORK_FILE", "/n"}}));
  EXPECT_EQ(each->network_file, "");
}

TEST(LocalSettingsTest, NamesTheVariableThatIsWrong) {
  for (const auto& [name, value] :
       {std::pair("UCUDNN_DISABLE", "yes"),
        std::pair("UCUDNN_WORKSPACE_LIMIT", "much"),
        std::pair("UCUDNN_COORDINATOR", "nowhere"),
        std::pair("UCUDNN_BATCH_SIZE_POLICY", "some")}) {
    const auto settings = ResolveLocalSettings(With({{name, value}}));
    ASSERT_FALSE(settings);
    EXPECT_THAT(settings.error().message,
                AllOf(HasSubstr(name), HasSubstr(value)));
  }
}

ConvProblem Problem() {
  ConvProblem problem;
  problem.geometry.channels = 3;
  return problem;
}

ProblemMeasurements Measurements() {
  ProblemMeasurements m;
  const Algorithm fft = {"FFT_TILING", "FMA", Precision::kFp32};
  const Algorithm gemm = {"GEMM", "DEFAULT", Precision::kTf32};
  m.batches[BatchSize(4)] = {
      64_MiB,
      {{BatchSize(4), fft, 12_MiB, Nanoseconds(12345), Nanoseconds(67), 5},
       {BatchSize(4), gemm, 0_B, Nanoseconds(23456), Nanoseconds(0), 1}}};
  m.batches[BatchSize(1)] = {1_GiB, {}};
  m.singles = {
      {BatchSize(3), gemm, 2_MiB, Nanoseconds(321), Nanoseconds(1), 1}};
  m.looks = {{BatchSize(4), 64_MiB, false}, {BatchSize(4), 1_GiB, true}};
  m.errors[fft] = 2.5e-7;
  m.errors[gemm] = std::numeric_limits<double>::infinity();
  return m;
}

TEST(MeasurementsTest, ReadsBackWhatItWrites) {
  const std::string text = ToJsonText(Measurements(), "kind", Problem());
  const auto read = ParseMeasurements(text, "kind", Problem());
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, Measurements());
}

TEST(MeasurementsTest, RefusesWhatItDidNotWrite) {
  const std::string text = ToJsonText(Measurements(), "kind", Problem());
  ConvProblem other = Problem();
  other.op = ConvOp::kBackwardData;
  EXPECT_FALSE(ParseMeasurements(text, "another", Problem()));
  EXPECT_FALSE(ParseMeasurements(text, "kind", other));
  for (std::size_t cut = 0; cut + 2 < text.size(); cut += 7) {
    EXPECT_FALSE(ParseMeasurements(text.substr(0, cut), "kind", Problem()))
        << cut;
  }
  std::string negative = text;
  negative.replace(negative.find("12345"), 5, "-2345");
  EXPECT_FALSE(ParseMeasurements(negative, "kind", Problem()));
}

constexpr const char* kKernel = R"({"layer":"c","op":"forward",
  "precision":"FP32","layout":"NCHW",
  "problem":"forward-c3-h1w1-k1-r1s1-pad0x0-str1x1-dil1x1-g1-FP32-NCHW",
  "time_us":2,"undivided_time_us":null,"workspace_bytes":8,
  "micro_batches":[{"batch":2,"count":%COUNT%,"algorithm":"GEMM","math":"FMA",
    "time_us":1,"workspace_bytes":8}]})";

std::string Plan(const std::string& count) {
  std::string kernel = kKernel;
  kernel.replace(kernel.find("%COUNT%"), 7, count);
  return R"({"batch":4,"workspace_limit_bytes":8,"total_time_us":2,
    "lower_bound_us":2,"optimal":true,"undivided_time_us":null,
    "total_workspace_bytes":8,"kernels":[)" +
         kernel + "]}";
}

TEST(PlanTextTest, ReadsAWorkspacePlan) {
  const auto plans = ParseKernelPlans(Plan("2"), "kind", "p");
  ASSERT_TRUE(plans) << plans.error().message;
  ASSERT_THAT(*plans, SizeIs(1));
  EXPECT_EQ((*plans)[0].batch, BatchSize(4));
  EXPECT_EQ((*plans)[0].plan.micro_batches[0].algorithm.precision,
            Precision::kFp32);
}

TEST(PlanTextTest, ReadsTheRanksOfItsKind) {
  const std::string text =
      R"({"id":3,"ranks":[{"rank":0,"device_kind":"kind","batch":4,"workspace":)" +
      Plan("2") +
      R"(},{"rank":1,"device_kind":"other","batch":4,"workspace":)" +
      Plan("2") + R"(},{"rank":2,"device_kind":"kind","batch":0}]})";
  const auto plans = ParseKernelPlans(text, "kind", "p");
  ASSERT_TRUE(plans) << plans.error().message;
  EXPECT_THAT(*plans, SizeIs(1));
  EXPECT_FALSE(ParseKernelPlans(text, "none", "p"));
}

TEST(PlanTextTest, LeavesOutWhatDoesNotAddUp) {
  const auto plans = ParseKernelPlans(Plan("3"), "kind", "p.json");
  ASSERT_FALSE(plans);
  EXPECT_EQ(plans.error().code, Code::kInvalidArgument);
  EXPECT_THAT(plans.error().message, HasSubstr("p.json"));
  EXPECT_FALSE(ParseKernelPlans("", "kind", "p"));
  EXPECT_FALSE(ParseKernelPlans("{\"ranks\":3}", "kind", "p"));
  EXPECT_FALSE(ParseKernelPlans("{\"ranks\":[{\"device_kind\":2}]}", "k", "p"));
}

}  // namespace
}  // namespace ucudnn
