#include "client/dropin/ask/problem_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "proto/convert.h"
#include "proto/json.h"
#include "ucudnn/v1/types.pb.h"

namespace ucudnn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

MeasuredPoint Point(std::int64_t batch) {
  MeasuredPoint point;
  point.batch = BatchSize(batch);
  point.algorithm = {"FFT_TILING", "FMA", Precision::kTf32};
  point.workspace = 3_GiB;
  point.time = Nanoseconds(123'456'789);
  point.spread = Nanoseconds(300);
  point.repeats = 7;
  point.min = Nanoseconds(120'000'001);
  point.p90 = Nanoseconds(130'000'000);
  point.enqueue = Nanoseconds(45'000);
  point.outliers = 2;
  point.adding = Nanoseconds(123'456'790);
  return point;
}

v1::ProblemProfile SentProfile() {
  v1::ProblemProfile message;
  message.set_problem(ToString(ConvProblem()));
  for (const std::int64_t batch : {1, 200, 65536}) {
    v1::Measurement& m = *message.add_measurements() = ToProto(Point(batch));
    m.set_device("GPU-1");  // fields that are of no concern
    m.mutable_clocks()->set_sm_mhz(1700);
    v1::CompleteBatch& complete = *message.add_complete();
    complete.set_batch(batch);
    complete.set_max_workspace_bytes(batch << 20);
    complete.set_driver("580");
  }
  return message;
}

TEST(ProblemProfileTest, ReadsWhatCoordinatorsWrite) {
  const auto known = ParseProblemProfile(JsonText(SentProfile()));
  ASSERT_TRUE(known) << known.error().message;
  ASSERT_EQ(known->points.size(), 3U);
  EXPECT_EQ(known->points[1], Point(200));
  EXPECT_EQ(known->complete,
            (std::map<BatchSize, Bytes>{{BatchSize(1), 1_MiB},
                                        {BatchSize(200), 200_MiB},
                                        {BatchSize(65536), 64_GiB}}));
  const auto nothing = ParseProblemProfile(JsonText(v1::ProblemProfile()));
  ASSERT_TRUE(nothing);
  EXPECT_TRUE(nothing->points.empty());
}

TEST(ProblemProfileTest, ReadsWhatOlderCoordinatorsWrite) {
  const auto known = ParseProblemProfile(
      R"({"measurements": [{"batch": 8, "algorithm": "GEMM", "math": "FMA",
          "precision": "FP32", "workspace_bytes": 64, "time_us": 0.5,
          "spread_us": null}], "complete": []})");
  ASSERT_TRUE(known) << known.error().message;
  MeasuredPoint point;
  point.batch = BatchSize(8);
  point.algorithm = {"GEMM", "FMA", Precision::kFp32};
  point.workspace = 64_B;
  point.time = Nanoseconds(500);
  EXPECT_EQ(known->points.at(0), point);
}

TEST(ProblemProfileTest, NamesWhatIsWrong) {
  const auto refused = [](const auto& change, const char* why) {
    auto json = ToJson(SentProfile());
    change(json["measurements"][1], json["complete"][1]);
    const auto known = ParseProblemProfile(json.dump());
    ASSERT_FALSE(known) << why;
    EXPECT_EQ(known.error().code, Code::kInvalidArgument);
    EXPECT_THAT(known.error().message, AllOf(HasSubstr("[1]"), HasSubstr(why)));
  };
  refused([](auto& m, auto&) { m["batch"] = 0; }, "batch");
  refused([](auto& m, auto&) { m["time_us"] = -1; }, "time_us");
  refused([](auto& m, auto&) { m.erase("time_us"); }, "time_us");
  refused([](auto& m, auto&) { m["repeats"] = -1; }, "repeats");
  refused([](auto& m, auto&) { m["workspace_bytes"] = "1"; }, "workspace");
  refused([](auto& m, auto&) { m["precision"] = "FP31"; }, "FP31");
  refused([](auto& m, auto&) { m["algorithm"] = ""; }, "algorithm");
  refused([](auto& m, auto&) { m = 1; }, "an object");
  refused([](auto&, auto& c) { c["batch"] = 65537; }, "batch");
  refused([](auto&, auto& c) { c["max_workspace_bytes"] = -1; }, "workspace");
  for (const char* text : {"", "{", "[]", "{}", "{\"measurements\": 1}"}) {
    EXPECT_FALSE(ParseProblemProfile(text)) << text;
  }
}

}  // namespace
}  // namespace ucudnn
