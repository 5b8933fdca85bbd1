// A gate blocks its stream until it is released, and never for ever.

#include "device/cudnn/driver/stream_gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/device/cudnn/cudnn_fake.h"

namespace ucudnn::cudnn {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

class StreamGateTest : public ::testing::Test {
 protected:
  StreamGateTest() { ResetFake(); }
  void SetUp() override {
    auto context = GpuContext::Create(driver_, 0, "the GPU", 0);
    ASSERT_TRUE(context) << context.error().message;
    context_ = *std::move(context);
  }

  DriverApi driver_ = FakeDriver();
  std::unique_ptr<GpuContext> context_;
};

TEST_F(StreamGateTest, KeepsTheStreamWaitingUntilItIsReleased) {
  auto gate = StreamGate::Begin(*context_, std::chrono::hours(1));
  ASSERT_TRUE(gate) << gate.error().message;
  ASSERT_THAT(Fake().host_calls, SizeIs(1));
  std::atomic<bool> released = false;
  std::atomic<bool> was_released = false;
  std::thread stream([&] {
    Fake().host_calls[0]();
    was_released = released.load();
  });
  released = true;
  gate->Release();
  stream.join();
  EXPECT_TRUE(was_released);
  EXPECT_FALSE(gate->ran_out());
}

TEST_F(StreamGateTest, ReleasesTheStreamOnDestruction) {
  ASSERT_TRUE(StreamGate::Begin(*context_, std::chrono::hours(1)));
  ASSERT_THAT(Fake().host_calls, SizeIs(1));
  Fake().host_calls[0]();  // returns
}

TEST_F(StreamGateTest, OpensByItselfIfNobodyReleasesIt) {
  auto gate = StreamGate::Begin(*context_, std::chrono::nanoseconds(1));
  ASSERT_TRUE(gate) << gate.error().message;
  Fake().host_calls.at(0)();
  EXPECT_TRUE(gate->ran_out());
}

TEST_F(StreamGateTest, IsUnimplementedWithoutHostFunctions) {
  driver_.LaunchHostFunc = nullptr;
  const auto gate = StreamGate::Begin(*context_, std::chrono::hours(1));
  ASSERT_FALSE(gate);
  EXPECT_EQ(gate.error().code, Code::kUnimplemented);
}

TEST_F(StreamGateTest, PassesOnTheDriversErrors) {
  Fake().next_result = CUDA_ERROR_ILLEGAL_ADDRESS;
  const auto gate = StreamGate::Begin(*context_, std::chrono::hours(1));
  ASSERT_FALSE(gate);
  EXPECT_EQ(gate.error().code, Code::kDataLoss);
  EXPECT_THAT(Fake().host_calls, IsEmpty());
}

}  // namespace
}  // namespace ucudnn::cudnn
