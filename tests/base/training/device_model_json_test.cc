#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/training/json.h"

namespace ucudnn {
namespace {

using std::chrono::microseconds;
using ::testing::HasSubstr;

constexpr const char* kRates =
    R"("memory_gb_per_s":100,"d2h_gb_per_s":12.8,"h2d_gb_per_s":6.4)";

std::string Model(const std::string& fields) {
  return R"({"name":"card","memory_bytes":1000,)" + std::string(kRates) +
         (fields.empty() ? "" : ",") + fields + "}";
}

TEST(DeviceModelJsonTest, OneRateHoldsForEveryPrecision) {
  const auto model =
      ParseDeviceModel(Model(R"("arithmetic_tflops":2.5)"), "model");
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->name, "card");
  EXPECT_EQ(model->memory, 1000_B);
  EXPECT_EQ(model->arithmetic.fp32, 2.5e6);
  EXPECT_EQ(model->arithmetic.tf32, 2.5e6);
  EXPECT_EQ(model->arithmetic.half, 2.5e6);
  EXPECT_EQ(model->d2h_rate, 12.8e3);
  EXPECT_EQ(model->h2d_rate, 6.4e3);
  EXPECT_TRUE(model->duplex);
}

TEST(DeviceModelJsonTest, OmittedPrecisionsHaveTheRateOfFp32) {
  const auto model = ParseDeviceModel(
      Model(R"("arithmetic_tflops":{"FP32":3,"half":9},"launch_us":7.5,)"
            R"("transfer_latency_us":2,"duplex":false,)"
            R"("loaded_tflops":{"FP32":3,"half":7.5},)"
            R"("both_ways_gb_per_s":4.5,"algorithms":)"
            R"([{"name":"FFT","speedup":1.5}])"),
      "model");
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->arithmetic.tf32, 3e6);
  EXPECT_EQ(model->arithmetic.half, 9e6);
  EXPECT_EQ(model->loaded.tf32, 3e6);
  EXPECT_EQ(model->loaded.half, 7.5e6);
  EXPECT_EQ(model->launch, Nanoseconds(7500));
  EXPECT_EQ(model->transfer_latency, microseconds(2));
  EXPECT_FALSE(model->duplex);
  EXPECT_EQ(model->both_ways_rate, 4.5e3);
  ASSERT_EQ(model->algorithms.size(), 1U);
  EXPECT_EQ(model->algorithms[0], (ModelledAlgorithm{"FFT", 1.5}));
  const auto again = ParseDeviceModel(ToJson(*model).dump(), "again");
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(*again, *model);
}

TEST(DeviceModelJsonTest, NamesTheFieldThatItRefuses) {
  const std::string flops = R"("arithmetic_tflops":1)";
  for (const auto& [text, why] :
       std::vector<std::pair<std::string, std::string>>{
           {"[]", "m.json: it is not a JSON object"},
           {"{}", "m.json: name is missing"},
           {Model(""), "arithmetic_tflops is missing; a number from 1e-06"},
           {Model(R"("arithmetic_tflops":{"TF32":1})"),
            "arithmetic_tflops.FP32 is missing"},
           {Model(R"("arithmetic_tflops":-1)"), "arithmetic_tflops is -1"},
           {Model(flops + R"(,"speed":1)"),
            "m.json: unknown field 'speed'; accepted: algorithms"},
           {Model(flops + R"(,"duplex":1)"),
            "duplex is 1; true or false is accepted"},
           {Model(flops + R"(,"both_ways_gb_per_s":0)"),
            "both_ways_gb_per_s is 0; a number from 0.001"},
           {Model(flops + R"(,"loaded_tflops":0)"), "loaded_tflops is 0"},
           {Model(flops + R"(,"launch_us":"x")"), "launch_us is \"x\""},
           {Model(flops + R"(,"algorithms":{})"),
            "algorithms is object of 0; an array is accepted"},
           {Model(flops + R"(,"algorithms":[{"name":"FFT","speedup":0}])"),
            "algorithms[0].speedup is 0; a number from 0.001 to 1000"},
           {Model(flops + R"(,"algorithms":[{"name":"","speedup":1}])"),
            "algorithms[0].name: '' is not a name"},
           {Model(flops + R"(,"algorithms":[{"name":"DIRECT","speedup":1}])"),
            "no formula for the workspace of 'DIRECT'"}}) {
    const auto model = ParseDeviceModel(text, "m.json");
    ASSERT_FALSE(model) << text;
    EXPECT_EQ(model.error().code, Code::kInvalidArgument);
    EXPECT_THAT(model.error().message, HasSubstr(why));
  }
}

}  // namespace
}  // namespace ucudnn
