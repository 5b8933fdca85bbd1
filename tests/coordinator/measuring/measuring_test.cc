// Plans that need very many measurements.

#include "coordinator/measuring/measuring.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "base/service/call.h"
#include "coordinator/coordinator.h"
#include "coordinator/limits.h"
#include "tests/coordinator/tiny_cluster.h"
#include "tests/support/fake_clock.h"
#include "ucudnn/v1/coordinator.pb.h"

namespace ucudnn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class MeasuringTest : public ::testing::Test {
 protected:
  MeasuringTest() {
    UCUDNN_CHECK(coordinator_.networks.PutNetwork(test::PutTiny()).has_value());
  }

  // Every batch of the first layer's two operations on one kind.
  static v1::MeasureRequest All(std::int64_t batch) {
    v1::MeasureRequest request;
    request.set_wait_for_device(true);
    request.mutable_plan()->set_network("tiny");
    request.mutable_plan()->set_batch(batch);
    request.mutable_plan()->set_batch_policy("all");
    request.mutable_plan()->add_device_kinds(test::kKind);
    return request;
  }

  std::int64_t Tasks() {
    std::int64_t tasks = 0;
    const auto all = store_->tasks.CountTasks(0).value();
    for (const auto& [kind, counts] : all) tasks += counts.total();
    return tasks;
  }

  const std::unique_ptr<Store> store_ = OpenStore("sqlite::memory:").value();
  FakeClock clock_{1000};
  Coordinator coordinator_{CoordinatorOptions(), *store_, clock_};
};

TEST_F(MeasuringTest, EndsBetweenPiecesWhenNobodyWantsTheAnswer) {
  {
    int checks = 0;
    const Call call([&]() -> Status {
      if (++checks <= 2) return {};
      return Fail(Code::kCancelled, "gone");
    });
    const auto measured = coordinator_.jobs.Measure(All(4096));
    ASSERT_FALSE(measured);
    EXPECT_EQ(measured.error().code, Code::kCancelled);
  }
  EXPECT_EQ(Tasks() % static_cast<std::int64_t>(kTasksAtOnce), 0);
  EXPECT_GT(Tasks(), 0);
  EXPECT_LT(Tasks(), 8192);
  // A repeat adds the others.
  EXPECT_EQ(coordinator_.jobs.Measure(All(4096))->total(), 8192);
  EXPECT_EQ(Tasks(), 8192);
}

TEST_F(MeasuringTest, TellsTheCostBeforeAnythingIsEnqueued) {
  v1::MeasureRequest request = All(4096);
  request.set_dry_run(true);
  const auto told = coordinator_.jobs.Measure(request);
  ASSERT_TRUE(told) << told.error().message;
  EXPECT_EQ(told->total(), 8192);
  EXPECT_EQ(told->unasked(), 8192);
  EXPECT_EQ(told->kinds(0).missing(), 8192);
  EXPECT_EQ(told->kinds(0).devices(), 0);
  EXPECT_FALSE(told->has_estimate_ms());
  EXPECT_EQ(Tasks(), 0);
}

TEST_F(MeasuringTest, RequestsNothingThatNoDeviceWouldMeasure) {
  v1::MeasureRequest request = All(4);
  request.set_wait_for_device(false);
  const auto refused = coordinator_.jobs.Measure(request);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(refused.error().message, HasSubstr("TEST/1u/1GiB/test-1.0"));
  EXPECT_THAT(refused.error().message, HasSubstr("--wait-for-device"));
  EXPECT_EQ(coordinator_.plans.CreatePlan(request.plan()).error().code,
            Code::kFailedPrecondition);
  EXPECT_EQ(Tasks(), 0);
}

TEST_F(MeasuringTest, RefusesMoreThanMayBeQueuedAtOnce) {
  CoordinatorOptions options;
  options.max_queued_measurements = 16;
  coordinator_.context.Reconfigure(options);
  ASSERT_TRUE(coordinator_.jobs.Measure(All(4)));  // 8 measurements
  // What is queued already is not requested again.
  ASSERT_TRUE(coordinator_.jobs.Measure(All(4)));
  ASSERT_TRUE(coordinator_.jobs.Measure(All(8)));  // 8 more
  EXPECT_EQ(Tasks(), 16);
  const auto refused = coordinator_.jobs.Measure(All(16));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kResourceExhausted);
  EXPECT_THAT(refused.error().message,
              AllOf(HasSubstr("16 measurements would be requested"),
                    HasSubstr("16 are queued already"),
                    HasSubstr("up to 16 may be queued at once")));
  EXPECT_EQ(Tasks(), 16);
  // Its cost can still be asked for.
  v1::MeasureRequest dry = All(16);
  dry.set_dry_run(true);
  EXPECT_EQ(coordinator_.jobs.Measure(dry)->unasked(), 16);
  // Done or cancelled measurements are not queued.
  v1::CancelTasksRequest cancel;
  cancel.set_kind("TEST/1u/1GiB/test-1.0");
  ASSERT_TRUE(coordinator_.measuring.CancelTasks(cancel));
  ASSERT_TRUE(coordinator_.jobs.Measure(All(16)));
  EXPECT_EQ(Tasks(), 32);
  v1::MeasureRequest again = All(8);
  again.set_retry_cancelled(true);
  EXPECT_EQ(coordinator_.jobs.Measure(again).error().code,
            Code::kResourceExhausted);
}

TEST_F(MeasuringTest, LeavesRoomForOtherCallers) {
  CoordinatorOptions options;
  options.max_queued_measurements = 32;
  options.max_queued_measurements_per_caller = 16;
  coordinator_.context.Reconfigure(options);
  {
    const Call::By by("operator alice");
    ASSERT_TRUE(coordinator_.jobs.Measure(All(8)));  // 16 measurements
    const auto refused = coordinator_.jobs.Measure(All(16));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::kResourceExhausted);
    EXPECT_THAT(refused.error().message,
                AllOf(HasSubstr("16 measurements would be requested"),
                      HasSubstr("16 that operator alice requested"),
                      HasSubstr("up to 16 may be queued at once for one")));
    // Plans ask for measurements, too.
    EXPECT_EQ(coordinator_.plans.CreatePlan(All(16).plan()).error().code,
              Code::kFailedPrecondition);  // no device was ever of the kind
    ASSERT_TRUE(coordinator_.agents.Register(test::Agent("a", "d")));
    EXPECT_EQ(coordinator_.plans.CreatePlan(All(16).plan()).error().code,
              Code::kResourceExhausted);
    EXPECT_EQ(coordinator_.plans.CreatePlan(All(8).plan()).error().code,
              Code::kAborted);  // they are being made
  }
  EXPECT_EQ(Tasks(), 16);
  // After a restart, or at another coordinator over the same database.
  Coordinator other(options, *store_, clock_);
  {
    const Call::By by("operator alice");
    EXPECT_EQ(other.jobs.Measure(All(16)).error().code,
              Code::kResourceExhausted);
  }
  {
    const Call::By by("operator bob");
    EXPECT_TRUE(other.jobs.Measure(All(16)));
  }
  EXPECT_EQ(Tasks(), 32);
  EXPECT_THAT(other.jobs.Measure(All(17)).error().message,
              HasSubstr("up to 32 may be queued at once"));
}

TEST_F(MeasuringTest, CountsTheFailuresOfOtherRequestsThatItRetries) {
  CoordinatorOptions options;
  ASSERT_TRUE(coordinator_.jobs.Measure(All(8)));  // 16 measurements
  const auto leased = store_->tasks.LeaseTasks({.kind = test::kKind,
                                                .agent = "a",
                                                .device = "d",
                                                .max_count = 16,
                                                .now_ms = 1,
                                                .until_ms = 2});
  for (const TaskRecord& task : *leased) {
    ASSERT_TRUE(store_->tasks.FailTask(
        {.lease = task.lease(), .error = "no", .retryable = false}));
  }
  options.max_queued_measurements_per_caller = 15;
  coordinator_.context.Reconfigure(options);
  v1::MeasureRequest retry = All(4);
  retry.set_retry_failed(true);
  EXPECT_THAT(coordinator_.jobs.Measure(retry).error().message,
              HasSubstr("16 measurements would be requested"));
  // A dry run opens none.
  retry.set_dry_run(true);
  ASSERT_TRUE(coordinator_.jobs.Measure(retry));
  EXPECT_EQ(store_->tasks.CountOpenTasks("")->all, 0);
}

TEST_F(MeasuringTest, RefusesCostsThatNoClusterCouldPay) {
  const auto measured = coordinator_.jobs.Measure(All(kMaxBatchSize.count()));
  ASSERT_FALSE(measured);
  EXPECT_EQ(measured.error().code, Code::kInvalidArgument);
  EXPECT_THAT(measured.error().message,
              HasSubstr("needs 33554432 measurements; up to 1000000"));
  v1::MeasureRequest request = All(8);
  for (int i = 0; i < 100; ++i) {
    request.mutable_plan()->add_device_kinds(
        fmt::format("TEST/{}u/1GiB/test-1.0", i + 2));
  }
  EXPECT_THAT(coordinator_.jobs.Measure(request).error().message,
              HasSubstr("101 kinds; up to 64"));
}

}  // namespace
}  // namespace ucudnn
