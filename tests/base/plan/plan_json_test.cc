#include "base/plan/plan_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/support/trials.h"

namespace ucudnn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using std::chrono_literals::operator""ns;
using Json = nlohmann::ordered_json;

WorkspacePlan SomePlan() {
  KernelPlan kernel;
  kernel.layer = "conv2";
  kernel.precision = Precision::kTf32;
  kernel.time = 8 * 1234ns;
  kernel.workspace = 4_KiB;
  kernel.micro_batches = {{BatchSize(32),
                           8,
                           {"FFT_TILING", "FMA", Precision::kFp32},
                           1234ns,
                           4_KiB}};
  WorkspacePlan plan;
  plan.batch = BatchSize(256);
  plan.workspace_limit = 64_MiB;
  plan.total_time = 8 * 1234ns;
  plan.lower_bound = 9000ns;
  plan.total_workspace = 4_KiB;
  plan.kernels = {kernel};
  return plan;
}

TEST(PlanJsonTest, IsWhatTheContractSays) {
  EXPECT_EQ(
      ToJson(SomePlan()).dump(),
      R"({"batch":256,"workspace_limit_bytes":67108864,"total_time_us":9.872,)"
      R"("lower_bound_us":9.0,"optimal":false,"undivided_time_us":null,)"
      R"("total_workspace_bytes":4096,"kernels":[{"layer":"conv2",)"
      R"("op":"forward","precision":"TF32","layout":"NCHW","time_us":9.872,)"
      R"("undivided_time_us":null,"workspace_bytes":4096,"micro_batches":[)"
      R"({"batch":32,"count":8,"algorithm":"FFT_TILING","math":"FMA",)"
      R"("precision":"FP32","time_us":1.234,"workspace_bytes":4096}]}]})");
}

TEST(PlanJsonTest, AddsEverythingElseThatThePlanKnows) {
  WorkspacePlan plan = SomePlan();
  plan.kernels[0].offset = 512_B;
  plan.kernels[0].problem.emplace();
  plan.kernels[0].undivided_time = 20'000ns;
  const Json kernel = ToJson(plan)["kernels"][0];
  EXPECT_EQ(kernel["offset_bytes"], 512);
  EXPECT_EQ(kernel["problem"], ToString(ConvProblem()));
  EXPECT_EQ(kernel["undivided_time_us"], 20);
}

WorkspacePlan RandomPlan(std::mt19937_64* random) {
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>((*random)() %
                                     static_cast<std::uint64_t>(n));
  };
  const auto time = [&] {
    return Nanoseconds(below(std::int64_t{1} << (1 + below(51))));
  };
  const auto bytes = [&] {
    return Bytes(below(std::int64_t{1} << (1 + below(61))));
  };
  const auto precision = [&] { return kPrecisions[std::size_t(below(5))]; };
  const auto optional = [&](auto make) {
    return below(2) == 0 ? std::nullopt : std::optional(make());
  };
  WorkspacePlan plan;
  plan.batch = BatchSize(1 + below(1 << 24));
  plan.workspace_limit = below(9) == 0 ? Bytes::Max() : bytes();
  plan.total_time = time();
  plan.lower_bound = time();
  plan.optimal = below(2) == 0;
  plan.undivided_time = optional(time);
  plan.total_workspace = bytes();
  for (std::int64_t i = below(4); i > 0; --i) {
    KernelPlan& kernel = plan.kernels.emplace_back();
    kernel.layer = fmt::format("layer \"{}\" é", i);
    kernel.op = kConvOps[std::size_t(below(3))];
    kernel.precision = precision();
    kernel.layout = kLayouts[std::size_t(below(2))];
    if (below(2) == 0) {
      kernel.problem.emplace().geometry.channels = 1 + below(99);
    }
    kernel.time = time();
    kernel.undivided_time = optional(time);
    kernel.workspace = bytes();
    kernel.offset = optional([&] {
      return Bytes(
          below((std::int64_t{1} << 62) - kernel.workspace.count() + 1));
    });
    for (std::int64_t left = plan.batch.count(); left > 0;) {
      const std::int64_t size = 1 + below(left);
      const std::int64_t count = 1 + below(left / size);
      left -= size * count;
      kernel.micro_batches.push_back(
          {BatchSize(size),
           count,
           {"A", below(2) == 0 ? "" : "M", precision()},
           time(),
           Bytes(below(kernel.workspace.count() + 1))});
    }
  }
  return plan;
}

TEST(PlanJsonTest, ReadsBackWhatItWritesToTheNanosecond) {
  std::mt19937_64 random(3);
  for (int round = 0; round < Trials(2000); ++round) {
    const WorkspacePlan plan = RandomPlan(&random);
    const auto again = ParseWorkspacePlan(ToJson(plan).dump(), "plan");
    ASSERT_TRUE(again) << again.error().message;
    ASSERT_EQ(*again, plan) << ToJson(plan).dump(2);
  }
}

TEST(PlanJsonTest, TellsWhichKernelsMayRunAtOnce) {
  WorkspacePlan plan = SomePlan();
  EXPECT_FALSE(ToJson(plan).contains("concurrency"));
  plan.concurrency = "0";
  plan.total_workspace = 1_GiB;
  const auto again = ParseWorkspacePlan(ToJson(plan).dump(), "plan");
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(*again, plan);
}

TEST(PlanJsonTest, FillsInWhatMayBeLeftOut) {
  Json json = ToJson(SomePlan());
  json["comment"] = "ignored";
  json.erase("undivided_time_us");
  Json& kernel = json["kernels"][0];
  kernel.erase("layout");
  kernel["micro_batches"][0].erase("precision");
  WorkspacePlan expected = SomePlan();
  expected.kernels[0].micro_batches[0].algorithm.precision = Precision::kTf32;
  EXPECT_EQ(WorkspacePlanFromJson(json).value(), expected);
}

TEST(PlanJsonTest, NamesThePathTheValueAndWhatIsAccepted) {
  const auto kernel = [](Json& json) -> Json& { return json["kernels"][0]; };
  const auto micro = [](Json& json) -> Json& {
    return json["kernels"][0]["micro_batches"][0];
  };
  struct Case {
    std::function<void(Json&)> change;
    std::string message;
  };
  const std::vector<Case> cases = {
      {[](Json& j) { j = 5; }, "the document is 5; an object is accepted"},
      {[](Json& j) { j.erase("batch"); }, "batch is missing; a whole number"},
      {[](Json& j) { j["batch"] = 0; },
       "batch is 0; 1 to 16777216 is accepted"},
      {[](Json& j) { j["batch"] = 2.5; }, "batch is 2.5;"},
      {[](Json& j) { j["batch"] = "2"; }, "batch is \"2\";"},
      {[](Json& j) { j["batch"] = 18446744073709551615ULL; }, "batch is 1844"},
      {[](Json& j) { j["workspace_limit_bytes"] = -1; },
       "workspace_limit_bytes is -1;"},
      {[](Json& j) { j["total_workspace_bytes"] = 9223372036854775808ULL; },
       "total_workspace_bytes is 9223372036854775808;"},
      {[](Json& j) { j["total_time_us"] = nullptr; },
       "total_time_us is missing;"},
      {[](Json& j) { j["total_time_us"] = -0.5; },
       "total_time_us is -0.5; a number of microseconds from 0"},
      {[](Json& j) { j["lower_bound_us"] = 1e300; },
       "lower_bound_us is 1e+300"},
      {[](Json& j) { j["undivided_time_us"] = "x"; },
       "undivided_time_us is \"x\";"},
      {[](Json& j) { j["optimal"] = 1; }, "optimal is 1; true or false"},
      {[](Json& j) { j["kernels"] = Json::object(); },
       "kernels is object of 0; an array"},
      {[](Json& j) { j["kernels"].push_back(7); },
       "kernels[1] is 7; an object"},
      {[&](Json& j) { kernel(j)["layer"] = "a\nb"; },
       "kernels[0].layer is 'a\\x0Ab';"},
      {[&](Json& j) { kernel(j)["op"] = "x"; },
       "kernels[0].op: 'x' is not an operation"},
      {[&](Json& j) { kernel(j)["precision"] = "x"; },
       "kernels[0].precision: 'x'"},
      {[&](Json& j) { kernel(j)["layout"] = "x"; }, "kernels[0].layout: 'x'"},
      {[&](Json& j) { kernel(j)["problem"] = "x"; },
       "kernels[0].problem: convolution problem 'x'"},
      {[&](Json& j) { kernel(j)["time_us"] = true; },
       "kernels[0].time_us is true;"},
      {[&](Json& j) { kernel(j)["workspace_bytes"] = 1.0; },
       "kernels[0].workspace_bytes is 1.0;"},
      {[&](Json& j) { kernel(j)["offset_bytes"] = -8; },
       "kernels[0].offset_bytes is -8;"},
      {[&](Json& j) { kernel(j).erase("micro_batches"); },
       "kernels[0].micro_batches is missing; an array"},
      {[&](Json& j) { micro(j)["batch"] = -1; },
       "kernels[0].micro_batches[0].batch is -1;"},
      {[&](Json& j) { micro(j)["count"] = 0; },
       "kernels[0].micro_batches[0].count is 0;"},
      {[&](Json& j) { micro(j).erase("algorithm"); },
       "kernels[0].micro_batches[0].algorithm is missing;"},
      {[&](Json& j) { micro(j)["math"] = 1; },
       "kernels[0].micro_batches[0].math is 1;"},
      {[&](Json& j) { micro(j)["precision"] = "x"; },
       "kernels[0].micro_batches[0].precision: 'x'"},
      {[&](Json& j) { micro(j).erase("time_us"); },
       "kernels[0].micro_batches[0].time_us is missing;"},
      {[&](Json& j) { micro(j)["workspace_bytes"] = nullptr; },
       "kernels[0].micro_batches[0].workspace_bytes is missing;"}};
  for (const Case& c : cases) {
    Json json = ToJson(SomePlan());
    c.change(json);
    const auto plan = WorkspacePlanFromJson(json);
    ASSERT_FALSE(plan) << c.message;
    EXPECT_EQ(plan.error().code, Code::kInvalidArgument);
    EXPECT_THAT(plan.error().message,
                AllOf(StartsWith(c.message), HasSubstr("accepted")));
  }
}

TEST(PlanJsonTest, RefusesTextThatIsNotJson) {
  for (const std::string text :
       {"", "{", "{\"batch\":NaN}", "nope", "\xFF", "{}x"}) {
    const auto plan = ParseWorkspacePlan(text, "p.json");
    ASSERT_FALSE(plan) << text;
    EXPECT_EQ(plan.error().code, Code::kInvalidArgument);
    EXPECT_THAT(plan.error().message, StartsWith("p.json: not JSON: "));
  }
  EXPECT_THAT(ParseWorkspacePlan("{}", "p.json").error().message,
              StartsWith("p.json: batch is missing"));
  EXPECT_FALSE(ParseWorkspacePlan(std::string(1 << 20, '['), "deep"));
}

}  // namespace
}  // namespace ucudnn
