// Compares the messages encoded and decoded without protobuf with protobuf's.

#include "client/dropin/wire/profile_wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/convert.h"
#include "ucudnn/v1/coordinator.pb.h"

namespace ucudnn {
namespace {

using ::testing::HasSubstr;

ConvProblem WireProblem() {
  ConvProblem problem;
  problem.geometry.channels = 3;
  return problem;
}

MeasuredPoint Point(std::int64_t batch) {
  MeasuredPoint point;
  point.batch = BatchSize(batch);
  point.algorithm = {"FFT_TILING", "FMA", Precision::kTf32};
  point.workspace = 3_GiB;
  point.time = Nanoseconds(123'456'789);
  point.spread = Nanoseconds(300);
  point.repeats = 7;
  point.min = Nanoseconds(120'000'000);
  point.p90 = Nanoseconds(130'000'000);
  point.enqueue = Nanoseconds(45'000);
  return point;
}

v1::ProblemProfile Profile() {
  v1::ProblemProfile message;
  message.set_problem(ToString(WireProblem()));
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

TEST(ProfileWireTest, WritesWhatProtobufReads) {
  v1::GetProblemProfileRequest request;
  ASSERT_TRUE(
      request.ParseFromString(EncodeProfileRequest("a kind", WireProblem())));
  EXPECT_EQ(request.kind(), "a kind");
  EXPECT_EQ(request.problem(), ToString(WireProblem()));
}

TEST(ProfileWireTest, ReadsWhatProtobufWrites) {
  const auto known = DecodeProblemProfile(Profile().SerializeAsString());
  ASSERT_TRUE(known) << known.error().message;
  ASSERT_EQ(known->points.size(), 3U);
  EXPECT_EQ(known->points[1], Point(200));
  EXPECT_EQ(known->complete,
            (std::map<BatchSize, Bytes>{{BatchSize(1), 1_MiB},
                                        {BatchSize(200), 200_MiB},
                                        {BatchSize(65536), 64_GiB}}));
  const auto nothing = DecodeProblemProfile("");
  ASSERT_TRUE(nothing);
  EXPECT_TRUE(nothing->points.empty());
}

TEST(ProfileWireTest, RefusesMalformedMeasurements) {
  const auto refused = [](auto change, const char* why) {
    v1::ProblemProfile message = Profile();
    change(*message.mutable_measurements(1));
    const auto known = DecodeProblemProfile(message.SerializeAsString());
    ASSERT_FALSE(known) << why;
    EXPECT_EQ(known.error().code, Code::kInvalidArgument);
    EXPECT_THAT(known.error().message, HasSubstr(why));
  };
  refused([](v1::Measurement& m) { m.set_batch(0); }, "batch");
  refused([](v1::Measurement& m) { m.set_time_ns(-1); }, "time_ns");
  refused([](v1::Measurement& m) { m.set_workspace_bytes(-1); }, "workspace");
  refused([](v1::Measurement& m) { m.set_precision("FP31"); }, "FP31");
  refused([](v1::Measurement& m) { m.clear_algorithm(); }, "algorithm");
}

TEST(ProfileWireTest, SurvivesArbitraryBytes) {
  const std::string whole = Profile().SerializeAsString();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const auto cut = DecodeProblemProfile(whole.substr(0, size));
    if (cut) {
      EXPECT_LE(cut->points.size(), 3U);
    }
    for (const int change : {0x01, 0x80, 0xff}) {
      std::string changed = whole;
      changed[size] = static_cast<char>(changed[size] ^ change);
      const auto known = DecodeProblemProfile(changed);
      if (known) {
        EXPECT_LE(known->points.size(), 3U);
      }
    }
  }
}

}  // namespace
}  // namespace ucudnn
