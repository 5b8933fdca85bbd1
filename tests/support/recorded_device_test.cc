#include "tests/support/recorded_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/recorded_profile.h"

namespace ucudnn {
namespace {

using std::chrono::microseconds;
using test::KernelOf;
using test::Point;
using test::SmallGeometry;
using test::SmallNetwork;
using ::testing::HasSubstr;

constexpr BatchSize kOne(1);
constexpr BatchSize kTwo(2);

Profile SmallProfile() {
  return {
      {KernelOf("first", ConvOp::kForward,
                {Point(1, "GEMM", 0_B, 10), Point(1, "FFT", 64_KiB, 4),
                 Point(2, "GEMM", 0_B, 19)}),
       KernelOf("first", ConvOp::kForward,
                {Point(2, "GEMM", 0_B, 7, Precision::kTf32)}, Precision::kTf32),
       KernelOf("up", ConvOp::kForward, {Point(1, "ALGO_1", 0_B, 33)})}};
}

ConvProblem Conv1(Precision precision = Precision::kFp32) {
  return {ConvOp::kForward, SmallGeometry(), precision, Layout::kNchw};
}

std::unique_ptr<Device> Open(const Profile& profile) {
  auto device = OpenRecordedDevice(profile, SmallNetwork(), "");
  EXPECT_TRUE(device) << device.error().message;
  return device ? *std::move(device) : nullptr;
}

TEST(RecordedDeviceTest, ListsWhatWasRecorded) {
  const auto device = Open(SmallProfile());
  const auto listed = device->ListAlgorithms(Conv1(), kOne);
  ASSERT_TRUE(listed) << listed.error().message;
  ASSERT_EQ(listed->size(), 2U);
  EXPECT_EQ((*listed)[0].algorithm.name, "GEMM");
  EXPECT_EQ((*listed)[0].workspace, 0_B);
  EXPECT_EQ((*listed)[1].algorithm.name, "FFT");
  EXPECT_EQ((*listed)[1].workspace, 64_KiB);
}

TEST(RecordedDeviceTest, OffersAlgorithmsOfHigherPrecisionToo) {
  const auto device = Open(SmallProfile());
  const auto listed = device->ListAlgorithms(Conv1(Precision::kTf32), kTwo);
  ASSERT_TRUE(listed) << listed.error().message;
  ASSERT_EQ(listed->size(), 2U);
  EXPECT_EQ((*listed)[0].algorithm.precision, Precision::kFp32);
  EXPECT_EQ((*listed)[1].algorithm.precision, Precision::kTf32);
  EXPECT_EQ(device->ListAlgorithms(Conv1(), kTwo)->size(), 1U);
}

TEST(RecordedDeviceTest, TakesTheRecordedTimes) {
  const auto device = Open(SmallProfile());
  auto gemm = device->Prepare(Conv1(), kOne,
                              Algorithm{"GEMM", "FMA", Precision::kFp32});
  auto fft =
      device->Prepare(Conv1(), kOne, Algorithm{"FFT", "FMA", Precision::kFp32});
  ASSERT_TRUE(gemm);
  ASSERT_TRUE(fft);
  auto memory = device->Allocate(64_KiB);
  ASSERT_TRUE(memory);
  const ConvArgs args = {memory->data(), memory->data(), memory->data()};
  const auto time = device->Time([&]() -> Status {
    UCUDNN_RETURN_IF_ERROR((*gemm)->Run(args, nullptr, 0_B));
    UCUDNN_RETURN_IF_ERROR((*gemm)->Run(args, nullptr, 0_B));
    return (*fft)->Run(args, memory->data(), 64_KiB);
  });
  ASSERT_TRUE(time);
  EXPECT_EQ(*time, microseconds(24));
  EXPECT_EQ(device->Time([] { return Status(); }).value(), microseconds(0));
}

TEST(RecordedDeviceTest, RunsATransposedLayersForwardAsItsAdjoint) {
  const auto device = Open(SmallProfile());
  ConvProblem adjoint = Conv1();
  adjoint.op = ConvOp::kBackwardData;
  const auto listed = device->ListAlgorithms(adjoint, kOne);
  ASSERT_TRUE(listed) << listed.error().message;
  EXPECT_EQ((*listed)[0].algorithm.name, "ALGO_1");
}

TEST(RecordedDeviceTest, RefusesPointsThatWereNotRecorded) {
  const auto device = Open(SmallProfile());
  const auto batch = device->ListAlgorithms(Conv1(), BatchSize(3));
  ASSERT_FALSE(batch);
  EXPECT_EQ(batch.error().code, Code::kNotFound);
  EXPECT_THAT(batch.error().message, HasSubstr("batch 3 of first forward"));
  EXPECT_THAT(batch.error().message, HasSubstr("recorded are 1, 2"));

  ConvProblem other = Conv1();
  other.layout = Layout::kNhwc;
  const auto problem = device->ListAlgorithms(other, kOne);
  ASSERT_FALSE(problem);
  EXPECT_EQ(problem.error().code, Code::kNotFound);
  EXPECT_THAT(problem.error().message, HasSubstr(ToString(other)));

  const auto algorithm =
      device->Prepare(Conv1(), kTwo, Algorithm{"FFT", "FMA", Precision::kFp32});
  ASSERT_FALSE(algorithm);
  EXPECT_EQ(algorithm.error().code, Code::kNotFound);
}

TEST(RecordedDeviceTest, TakesItsKindFromItsName) {
  Profile profile = SmallProfile();
  EXPECT_EQ(Open(profile)->info().kind.model, "GPU");
  EXPECT_EQ(Open(profile)->info().kind.library, "recorded");
  for (auto& kernel : profile.kernels) {
    kernel.id.device = "NVIDIA H200/132u/139GiB/cudnn-9.19";
  }
  EXPECT_EQ(ToString(Open(profile)->info().kind),
            "NVIDIA H200/132u/139GiB/cudnn-9.19");
}

TEST(RecordedDeviceTest, RefusesProfilesThatDoNotFit) {
  Profile profile = SmallProfile();
  profile.kernels[1].id.device = "other";
  const auto two = OpenRecordedDevice(profile, SmallNetwork(), "");
  ASSERT_FALSE(two);
  EXPECT_EQ(two.error().code, Code::kInvalidArgument);
  EXPECT_THAT(two.error().message, HasSubstr("'GPU', 'other'"));
  EXPECT_TRUE(OpenRecordedDevice(profile, SmallNetwork(), "GPU"));

  const auto none = OpenRecordedDevice(profile, SmallNetwork(), "K80");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::kNotFound);

  Network network = SmallNetwork();
  network.layers.pop_back();
  const auto layer = OpenRecordedDevice(SmallProfile(), network, "");
  ASSERT_FALSE(layer);
  EXPECT_EQ(layer.error().code, Code::kInvalidArgument);
  EXPECT_THAT(layer.error().message, HasSubstr("'up'"));

  network.name = "another";
  const auto nothing = OpenRecordedDevice(SmallProfile(), network, "");
  ASSERT_FALSE(nothing);
  EXPECT_EQ(nothing.error().code, Code::kNotFound);
  EXPECT_FALSE(OpenRecordedDevice(Profile(), network, ""));
}

}  // namespace
}  // namespace ucudnn
