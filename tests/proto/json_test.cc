#include "proto/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "ucudnn/v1/coordinator.pb.h"

namespace ucudnn {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

TEST(ProtoJsonTest, WritesNumbersAsNumbersAndTimesInMicroseconds) {
  v1::KernelPlan kernel;
  kernel.set_layer("conv2");
  kernel.set_time_ns(39104);
  kernel.set_workspace_bytes(std::int64_t{1} << 60);
  kernel.add_micro_batches()->set_batch(32);
  const Json json = ToJson(kernel);
  EXPECT_EQ(json["time_us"].dump(), "39.104");
  EXPECT_EQ(json["workspace_bytes"].dump(), "1152921504606846976");
  EXPECT_TRUE(json["undivided_time_us"].is_null());
  EXPECT_TRUE(json["offset_bytes"].is_null());
  EXPECT_EQ(json["micro_batches"][0]["batch"], 32);
  EXPECT_EQ(json["op"], "");
}

TEST(ProtoJsonTest, ReadsBackWhatItWrites) {
  v1::Plan plan;
  plan.set_id(7);
  plan.mutable_request()->set_network("alexnet");
  plan.mutable_request()->add_device_kinds("NVIDIA H200/132u/139GiB/cudnn-9");
  plan.set_predicted_ns(20'512'345);
  plan.set_optimal(true);
  v1::RankPlan& rank = *plan.add_ranks();
  rank.set_weight(0.5);
  rank.mutable_workspace()->set_undivided_time_ns(37'500'001);
  plan.add_reasons("a \"quoted\" reason\n");
  plan.mutable_request()->mutable_memory()->set_budget_bytes(1 << 30);
  plan.add_memory_plans()->set_plan_json(R"({"time_us":1.5,"b":[null]})");
  EXPECT_EQ(ToJson(plan)["memory_plans"][0]["plan"]["time_us"], 1.5);
  v1::Plan back;
  ASSERT_TRUE(FromJson(ToJson(plan), &back));
  EXPECT_EQ(back.SerializeAsString(), plan.SerializeAsString());
}

TEST(ProtoJsonTest, WritesTheTextOfItsJson) {
  v1::Plan plan;
  EXPECT_EQ(JsonText(plan), ToJson(plan).dump(2));
  plan.set_id(std::int64_t{-1} << 60);
  plan.set_undivided_ns(37'500'001);
  plan.set_optimal(true);
  plan.add_ranks()->set_weight(1.0 / 3);
  plan.add_ranks()->mutable_workspace();
  plan.mutable_ranks(1)->set_weight(1e300);
  for (const char* text :
       {"", "plain", "a \"quoted\" \\ one\n", "\x01\x7f", "\u00e9 \u4e2d"}) {
    plan.add_reasons(text);
  }
  plan.mutable_request()->add_exclude_ranks(3);
  EXPECT_EQ(JsonText(plan), ToJson(plan).dump(2));
  EXPECT_EQ(JsonLine(plan), ToJson(plan).dump());
  v1::StatusRequest empty;
  EXPECT_EQ(JsonText(empty), ToJson(empty).dump(2));
  v1::DeleteRequest bad;
  bad.set_id("\xff");
  EXPECT_EQ(ToJson(bad)["id"], "\uFFFD");
}

TEST(ProtoJsonTest, CopiesTheTextOfJsonAsItIs) {
  v1::DeviceMemoryPlan plan;
  EXPECT_TRUE(ToJson(plan)["plan"].is_null());
  const std::string text = R"({"a":[1.50,{"b":"\n"}],"c":{}})";
  plan.set_plan_json(text);
  EXPECT_THAT(JsonText(plan), HasSubstr("\"plan\": " + text + ",\n"));
  EXPECT_EQ(ToJson(plan)["plan"], Json::parse(text));
}

TEST(ProtoJsonTest, NamesThePathOfWhatItRefuses) {
  for (const auto& [text, why] :
       std::vector<std::pair<std::string, std::string>>{
           {R"([])", "the body: [] is given; an object"},
           {R"({"bach": 3})",
            "bach: no such field; accepted are network, batch"},
           {R"({"batch": "3"})", "batch: \"3\" is given; a whole number"},
           {R"({"batch": 1.5})", "batch: 1.5 is given"},
           {R"({"batch": 18446744073709551615})", "a whole number up to"},
           {R"({"device_kinds": "a"})", "device_kinds: \"a\" is given; a list"},
           {R"({"device_kinds": ["a", 1]})", "device_kinds[1]: 1 is given"},
           // Null stands for what may be absent in answers.
           {R"({"memory": null, "concurrent": null})",
            "concurrent: null is given; true or false is accepted"},
           {R"({"device_kinds": null})", "device_kinds: null is given"},
           // Cut between characters: the quotation mark and 62 letters fit.
           {"{\"batch\": \"" + std::string(62, 'a') + "\u00e9\"}",
            std::string(62, 'a') + "... is given"}}) {
    v1::PlanRequest request;
    const Status status = FromJson(Json::parse(text), &request);
    ASSERT_FALSE(status) << text;
    EXPECT_EQ(status.error().code, Code::kInvalidArgument);
    EXPECT_THAT(status.error().message, HasSubstr(why));
  }
  v1::Plan plan;
  EXPECT_THAT(FromJson(Json::parse(R"({"ranks":[{"workspace":{"kernels":[
                  {"time_us":-1}]}}]})"),
                       &plan)
                  .error()
                  .message,
              HasSubstr("ranks[0].workspace.kernels[0].time_us"));
}

}  // namespace
}  // namespace ucudnn
