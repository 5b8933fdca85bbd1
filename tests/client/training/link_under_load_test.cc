#include "client/training/link_under_load.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <stop_token>

#include "device/onednn/onednn_device.h"
#include "device/operators/open.h"

namespace ucudnn {
namespace {

// A chain whose activations have 2 MiB, and a link that its plans believe to
// move 10 bytes a microsecond.
class LinkUnderLoadTest : public ::testing::Test {
 protected:
  static constexpr double kBelieved = 10;

  LinkUnderLoadTest()
      : device_(*OpenOneDnnDevice({.threads = 1})),
        operators_(*OpenOperators(*device_)) {
    TrainingInput input;
    input.contents =
        "name,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,groups\n"
        "a,3,64,64,16,3,3,1,1,1,1,1\n"
        "b,16,64,64,16,3,3,1,1,1,1,1\n"
        "c,16,64,64,16,3,3,1,1,1,1,1\n";
    input.source = "net.csv";
    input.batch = BatchSize(8);
    input.batches = {input.batch};
    input.model = *DeviceModelPreset("H200");
    input.model->d2h_rate = input.model->h2d_rate = kBelieved;
    prepared_ = *ReadTraining(input);
    EXPECT_TRUE(
        MeasureTraining(*device_, *operators_, input, {}, prepared_.get()));
  }

  MemoryPlan Plan(const std::string& policy) {
    return *PlanTraining(*prepared_, {.policy = policy, .budget = 1_GiB}, {});
  }
  Result<bool> Measure(const MemoryPlan& plan, std::stop_token stop = {}) {
    return MeasureLinkUnderLoad(*device_, *operators_, *prepared_, plan, {}, {},
                                stop, &host_, &prepared_->training.device);
  }
  const DeviceModel& link() const { return prepared_->training.device; }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Operators> operators_;
  std::unique_ptr<PreparedTraining> prepared_;
  DeviceBuffer host_;
};

TEST(UpdateRateTest, TakesWhatCopiesReachedUnlessItIsTheSame) {
  // Two copies of 10 MiB, 1000 us each beside the latency.
  const CopyTotals copies = {2, 20_MiB, std::chrono::microseconds(2020)};
  const Nanoseconds latency = std::chrono::microseconds(10);
  constexpr double kReached = 10.0 * (1 << 20) / 1000;
  double rate = 1.009 * kReached;  // plans made with it remain valid
  EXPECT_FALSE(UpdateRate(copies, latency, &rate));
  EXPECT_EQ(rate, 1.009 * kReached);
  rate = 1.02 * kReached;
  EXPECT_TRUE(UpdateRate(copies, latency, &rate));
  EXPECT_DOUBLE_EQ(rate, kReached);
}

TEST(UpdateRateTest, LearnsNothingFromNoOrShortCopies) {
  double rate = 5;
  EXPECT_FALSE(UpdateRate({}, Nanoseconds(0), &rate));
  EXPECT_FALSE(UpdateRate({3, 2_MiB, std::chrono::microseconds(9)},
                          Nanoseconds(0), &rate));
  EXPECT_EQ(rate, 5);
}

TEST_F(LinkUnderLoadTest, TakesTheRatesThatCopiesReach) {
  const MemoryPlan believed = Plan("vdnn-all");
  ASSERT_GT(believed.offloaded, Bytes());
  const auto changed = Measure(believed);
  ASSERT_TRUE(changed) << changed.error().message;
  EXPECT_TRUE(*changed);
  EXPECT_GT(link().d2h_rate, 2 * kBelieved);
  EXPECT_GT(link().h2d_rate, 2 * kBelieved);
  EXPECT_LT(Plan("vdnn-all").time, believed.time);
}

TEST_F(LinkUnderLoadTest, LearnsNothingFromAPlanThatCopiesNothing) {
  const auto changed = Measure(Plan("undivided"));
  ASSERT_TRUE(changed) << changed.error().message;
  EXPECT_FALSE(*changed);
  EXPECT_EQ(link().d2h_rate, kBelieved);
  EXPECT_EQ(link().h2d_rate, kBelieved);
}

TEST_F(LinkUnderLoadTest, StopsWhenAsked) {
  std::stop_source stop;
  stop.request_stop();
  const auto stopped = Measure(Plan("vdnn-all"), stop.get_token());
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, Code::kCancelled);
}

}  // namespace
}  // namespace ucudnn
