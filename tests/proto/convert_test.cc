#include "proto/convert.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/training/json.h"
#include "proto/json.h"

namespace ucudnn {
namespace {

using ::testing::HasSubstr;

ConvLayer Layer3d() {
  ConvLayer layer;
  layer.name = "up";
  layer.transposed = true;
  layer.needs_input_gradient = false;
  ConvGeometry& g = layer.geometry;
  g.spatial_dims = 3;
  g.channels = 8;
  g.filters = 4;
  g.groups = 2;
  g.input = {5, 6, 7};
  g.filter = {3, 2, 1};
  g.padding = {1, 1, 0};
  g.stride = {1, 2, 3};
  g.dilation = {2, 1, 1};
  return layer;
}

TEST(ConvertTest, KeepsALayer) {
  EXPECT_EQ(FromProto(ToProto(Layer3d())).value(), Layer3d());
  ConvLayer flat;
  flat.name = "conv1";
  flat.geometry.input = {1, 9, 8};
  EXPECT_EQ(FromProto(ToProto(flat)).value(), flat);
}

TEST(ConvertTest, RefusesAnImpossibleLayer) {
  v1::Layer layer = ToProto(Layer3d());
  layer.set_groups(3);
  EXPECT_THAT(FromProto(layer).error().message,
              HasSubstr("layer 'up': groups is 3"));
  layer = ToProto(Layer3d());
  layer.mutable_stride()->RemoveLast();
  EXPECT_THAT(FromProto(layer).error().message,
              HasSubstr("stride has 2 numbers"));
  layer.clear_input();
  EXPECT_THAT(FromProto(layer).error().message,
              HasSubstr("input has 0 numbers"));
}

TEST(ConvertTest, RefusesImpossibleMeasurements) {
  MeasuredPoint point;
  point.batch = BatchSize(4);
  point.algorithm.name = "GEMM";
  const v1::Measurement good = ToProto(point);
  EXPECT_EQ(FromProto(good).value(), point);
  v1::Measurement bad = good;
  bad.set_time_ns(-1);
  EXPECT_THAT(FromProto(bad).error().message, HasSubstr("time_ns is -1"));
  bad = good;
  bad.set_batch(0);
  EXPECT_THAT(FromProto(bad).error().message, HasSubstr("batch is 0"));
  bad = good;
  bad.set_precision("FP8");
  EXPECT_FALSE(FromProto(bad));
  bad = good;
  bad.clear_algorithm();
  EXPECT_FALSE(FromProto(bad));
}

TEST(ConvertTest, KeepsEveryNumberOfAPoint) {
  MeasuredPoint point;
  point.batch = BatchSize(4);
  point.algorithm = {"GEMM", "FMA", Precision::kTf32};
  point.workspace = 1_MiB;
  for (const PointNumber& number : PointNumbers()) {
    number.set(point, 1000 + number.field);
  }
  const v1::Measurement message = ToProto(point);
  EXPECT_EQ(message.time_ns(), 1006);
  EXPECT_EQ(message.repeats(), 1008);
  EXPECT_EQ(FromProto(message).value(), point);
}

TEST(ConvertTest, KeepsAProfileByProblem) {
  const std::string text =
      "forward-c1-h4w4-k1-r1s1-pad0x0-str1x1-dil1x1-g1-FP32-NCHW";
  v1::Profile message;
  message.set_id("NVIDIA H200/132u/139GiB/cudnn-9.19");
  v1::ProblemProfile& problem = *message.add_problems();
  problem.set_problem(text);
  for (const std::int64_t batch : {4, 8}) {
    MeasuredPoint point;
    point.batch = BatchSize(batch);
    point.algorithm.name = "GEMM";
    *problem.add_measurements() =
        ToProto(point, {.device = "GPU-1",
                        .driver = "580",
                        .measured_ms = 17,
                        .clocks = {1755, 3201, "power cap"}});
  }
  v1::CompleteBatch& complete = *problem.add_complete();
  complete.set_batch(8);
  complete.set_max_workspace_bytes(1 << 30);
  complete.set_driver("580");

  Profile profile = FromProto(message).value();
  ASSERT_EQ(profile.kernels.size(), 1U);
  EXPECT_EQ(profile.kernels[0].id.layer, text);
  // The same problem as another layer adds nothing.
  profile.kernels.push_back(profile.kernels[0]);
  profile.kernels[1].id.layer = "conv1";
  const auto back = ToProto(profile);
  ASSERT_EQ(back.size(), 1U);
  EXPECT_TRUE(
      google::protobuf::util::MessageDifferencer::Equals(back[0], message))
      << back[0].DebugString();
}

TEST(ConvertTest, KeepsTasksOtherThanConvolutionsApart) {
  v1::Profile message;
  message.set_id("NVIDIA H200/132u/139GiB/cudnn-9.19");
  v1::ProblemProfile& problem = *message.add_problems();
  problem.set_problem("tasks-" + std::string(64, '7') + "-TF32-NCHW");
  MeasuredPoint point;
  point.batch = BatchSize(4);
  point.algorithm.name = "relu.forward";
  PointOrigin origin;
  origin.device = "GPU-1";
  *problem.add_measurements() = ToProto(point, origin);
  const Profile profile = FromProto(message).value();
  EXPECT_TRUE(profile.kernels.empty());
  ASSERT_EQ(profile.others.size(), 1U);
  EXPECT_EQ(profile.others[0].id.layer, problem.problem());
  EXPECT_EQ(profile.others[0].id.precision, Precision::kTf32);
  EXPECT_EQ(profile.others[0].id.network, std::string(64, '7'));
  const auto back = ToProto(profile);
  ASSERT_EQ(back.size(), 1U);
  EXPECT_TRUE(
      google::protobuf::util::MessageDifferencer::Equals(back[0], message))
      << back[0].DebugString();
  problem.set_problem("tasks-7");
  EXPECT_FALSE(FromProto(message));
}

TEST(ConvertTest, RefusesTimesThatNoReaderAccepts) {
  constexpr std::int64_t kMost = std::int64_t{1} << 62;
  MeasuredPoint point;
  point.batch = BatchSize(4);
  point.algorithm.name = "GEMM";
  point.time = point.spread = point.min = point.p90 = point.enqueue =
      Nanoseconds(kMost);
  const v1::Measurement most = ToProto(point);
  EXPECT_EQ(FromProto(most).value(), point);
  for (const auto set :
       {&v1::Measurement::set_time_ns, &v1::Measurement::set_spread_ns,
        &v1::Measurement::set_min_ns, &v1::Measurement::set_p90_ns,
        &v1::Measurement::set_enqueue_ns}) {
    v1::Measurement bad = most;
    (bad.*set)(kMost + 1);
    EXPECT_THAT(FromProto(bad).error().message,
                HasSubstr("_ns is 4611686018427387905; 0 to"));
  }
}

TEST(ConvertTest, KeepsADeviceModelInTheFormOfItsFile) {
  DeviceModel model = DeviceModelPreset("H200").value();
  model.loaded = {.fp32 = 46e6, .tf32 = 300e6, .half = 650e6};
  model.duplex = false;
  model.both_ways_rate = 44e3;
  model.transfer_latency = Nanoseconds(1500);
  model.algorithms = {{"FFT", 1.5}};
  const v1::DeviceModel message = ToProto(model);
  EXPECT_EQ(FromProto(message).value(), model);
  EXPECT_EQ(ParseDeviceModel(ToJson(message).dump(), "REST").value(), model);
  v1::DeviceModel read;
  ASSERT_TRUE(FromJson(ToJson(model), &read));
  EXPECT_EQ(FromProto(read).value(), model);
}

TEST(ConvertTest, RefusesADeviceModelWithoutRates) {
  v1::DeviceModel message = ToProto(DeviceModelPreset("K40").value());
  message.set_h2d_gb_per_s(0);
  EXPECT_THAT(FromProto(message).error().message,
              HasSubstr("h2d_gb_per_s is 0"));
  message.set_name("");
  EXPECT_THAT(FromProto(message).error().message, HasSubstr("name: ''"));
}

}  // namespace
}  // namespace ucudnn
