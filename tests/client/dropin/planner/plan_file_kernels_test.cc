#include "client/dropin/planner/plan_file_kernels.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ucudnn {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

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

TEST(PlanFileKernelsTest, ReadsAWorkspacePlan) {
  const auto plans = ParseKernelPlans(Plan("2"), "kind", "p");
  ASSERT_TRUE(plans) << plans.error().message;
  ASSERT_THAT(*plans, SizeIs(1));
  EXPECT_EQ((*plans)[0].batch, BatchSize(4));
  EXPECT_EQ((*plans)[0].plan.micro_batches[0].algorithm.precision,
            Precision::kFp32);
}

TEST(PlanFileKernelsTest, ReadsTheRanksOfItsKind) {
  const std::string text =
      R"({"id":3,"request":{"network":"n","batch":8,"device_kinds":[]},"ranks":[
          {"rank":0,"device_kind":"kind","batch":4,"weight":0.5,"workspace":)" +
      Plan("2") + R"(},
          {"rank":1,"device_kind":"other","batch":4,"weight":0.5,"workspace":)" +
      Plan("2") + R"(},
          {"rank":2,"device_kind":"kind","batch":0,"weight":0}]})";
  const auto plans = ParseKernelPlans(text, "kind", "p");
  ASSERT_TRUE(plans) << plans.error().message;
  EXPECT_THAT(*plans, SizeIs(1));
  EXPECT_FALSE(ParseKernelPlans(text, "none", "p"));
}

TEST(PlanFileKernelsTest, ReadsEqualRanksOnce) {
  const auto rank = [](int number, const std::string& of) {
    return fmt::format(
        R"({{"rank":{},"device_kind":"kind","batch":4,"weight":1e-5,{}}})",
        number, of);
  };
  const std::string spelt_out = R"("workspace":)" + Plan("2");
  // As the coordinator writes them, and as plans of before have them.
  std::string ranks = rank(0, spelt_out) + "," + rank(1, spelt_out);
  for (int r = 2; r < 12'000; ++r) {
    ranks += "," + rank(r, R"("workspace_of_rank":1)");
  }
  const auto plans = ParseKernelPlans(
      R"({"request":{"network":"n","batch":48000,"device_kinds":[]},"ranks":[)" +
          ranks + "]}",
      "kind", "p");
  ASSERT_TRUE(plans) << plans.error().message;
  EXPECT_THAT(*plans, SizeIs(1));
}

TEST(PlanFileKernelsTest, RefusesWhatDoesNotAddUp) {
  const auto plans = ParseKernelPlans(Plan("3"), "kind", "p.json");
  ASSERT_FALSE(plans);
  EXPECT_EQ(plans.error().code, Code::kInvalidArgument);
  EXPECT_THAT(plans.error().message,
              HasSubstr("p.json: kernels[0].micro_batches have"));
  EXPECT_FALSE(ParseKernelPlans("", "kind", "p"));
  EXPECT_FALSE(ParseKernelPlans("{\"ranks\":3}", "kind", "p"));
  EXPECT_FALSE(ParseKernelPlans("{\"ranks\":[{\"device_kind\":2}]}", "k", "p"));
}

}  // namespace
}  // namespace ucudnn
