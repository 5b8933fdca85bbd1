#include "device/measure/device_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "device/forwarding_device.h"
#include "tests/support/fake_device.h"

namespace ucudnn {
namespace {

using std::chrono::microseconds;
using ::testing::HasSubstr;

// Scale takes 5 us and, for each byte read or written, 10 ps; convolutions a
// microsecond. Without half precision unless told.
class SimulatedDevice final : public ForwardingDevice {
 public:
  explicit SimulatedDevice(FakeDevice& fake) : ForwardingDevice(fake) {}

  Result<std::vector<Candidate>> ListAlgorithms(const ConvProblem& problem,
                                                BatchSize batch) override {
    if (problem.precision != Precision::kFp32 &&
        problem.precision != supported) {
      return Fail(Code::kUnimplemented, "no such precision");
    }
    UCUDNN_ASSIGN_OR_RETURN(auto candidates,
                            ForwardingDevice::ListAlgorithms(problem, batch));
    for (Candidate& candidate : candidates) {
      candidate.algorithm.precision = Precision::kFp32;
    }
    return candidates;
  }
  Status Scale(float* device, std::int64_t count, float factor) override {
    largest_ = std::max(largest_, count);
    now_ += microseconds(5) + Nanoseconds(count * 8 / 100);
    return ForwardingDevice::Scale(device, count, factor);
  }
  Result<Nanoseconds> Time(const std::function<Status()>& work) override {
    const Nanoseconds before = now_;
    UCUDNN_ASSIGN_OR_RETURN(const Nanoseconds time,
                            ForwardingDevice::Time(work));
    return time + now_ - before;
  }

  Precision supported = Precision::kFp32;
  Bytes largest() const { return Bytes(largest_ * 4); }

 private:
  Nanoseconds now_{0};
  std::int64_t largest_ = 0;
};

class DeviceModelTest : public ::testing::Test {
 protected:
  Result<DeviceModel> Measure() {
    return MeasureDeviceModel(
        device_, {.repeats = 3, .copy = 1_MiB, .channels = 100}, {});
  }

  FakeDevice fake_;
  SimulatedDevice device_{fake_};
};

TEST_F(DeviceModelTest, HasTheRatesThatTheDeviceReaches) {
  const auto model = Measure();
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->name, "Fake/1u/1GiB/fake-1.0");
  EXPECT_EQ(model->memory, 1_GiB);
  EXPECT_EQ(model->memory_rate, 100e3);
  // 5 us and 1024 values.
  EXPECT_EQ(model->launch, Nanoseconds(5081));
  // 2 * 49 * 100^2 operations an image, 512 images in a microsecond.
  EXPECT_EQ(model->arithmetic.fp32, 501.8e6);
  EXPECT_EQ(model->arithmetic.tf32, model->arithmetic.fp32);
  EXPECT_EQ(model->arithmetic.half, model->arithmetic.fp32);
  EXPECT_GT(model->h2d_rate, 0);
  EXPECT_GT(model->d2h_rate, 0);
  // Beside the other direction, none is faster than alone, apart from noise.
  EXPECT_GT(model->both_ways_rate, 0);
}

TEST_F(DeviceModelTest, TakesBf16WhereThereIsNoHalf) {
  device_.supported = Precision::kBf16;
  fake_.algorithms()[0].time = Nanoseconds(500);
  const auto model = Measure();
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->arithmetic.half, 1004e6);
}

TEST_F(DeviceModelTest, FitsIntoTheMemoryThatOthersLeave) {
  fake_.set_cache(8_MiB);
  ASSERT_TRUE(Measure());
  EXPECT_EQ(device_.largest(), 32_MiB);  // 1/32 of 1 GiB
  FakeDevice full;
  full.set_memory(3_MiB);
  SimulatedDevice device(full);
  ASSERT_TRUE(MeasureDeviceModel(device, {.repeats = 1, .channels = 100}, {}));
  EXPECT_EQ(device.largest(), 2_MiB);
}

TEST_F(DeviceModelTest, NamesWhatItDoesNotAccept) {
  const auto model = MeasureDeviceModel(device_, {.repeats = 0}, {});
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, Code::kInvalidArgument);
  EXPECT_THAT(model.error().message, HasSubstr("0 repeats"));
}

}  // namespace
}  // namespace ucudnn
