#include "coordinator/measuring/cross_checking.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <sstream>

#include "base/conv_problem.h"
#include "ucudnn/v1/agent.pb.h"

namespace ucudnn {
namespace {

class CrossCheckingTest : public ::testing::Test {
 protected:
  CrossCheckingTest() {
    kind_.model = "k";
    for (const char* id : {"a", "b"}) {
      AgentRegistration registration;
      registration.agent.id = id;
      DeviceRecord& device = registration.devices.emplace_back();
      device.id = id;
      device.kind = kind_;
      device.driver = "1";
      UCUDNN_CHECK(
          store_->agents.RegisterAgents({&registration, 1}).has_value());
    }
  }

  // Device a completes a task of this batch.
  void Complete(CrossChecking& checking, std::int64_t batch) {
    const std::string problem = ToString(ConvProblem());
    const NewTask task{.key = {.kind = ToString(kind_),
                               .problem = problem,
                               .batch = BatchSize(batch)},
                       .max_workspace = 1_MiB};
    ASSERT_TRUE(store_->tasks.EnqueueTasks({&task, 1}, {}, 1));
    const auto leased = store_->tasks.LeaseTasks({.kind = ToString(kind_),
                                                  .agent = "a",
                                                  .device = "a",
                                                  .now_ms = 1,
                                                  .until_ms = 2});
    MeasuredPoint point;
    point.batch = BatchSize(batch);
    point.algorithm.name = "GEMM";
    point.time = Nanoseconds(1000);
    point.repeats = 5;
    ASSERT_TRUE(checking.Complete(
        {.lease = leased->at(0).lease(),
         .identity = {store_->Epoch().value(), ToString(kind_), problem},
         .max_workspace = task.max_workspace,
         .points = {point},
         .origin = {.device = "a", .driver = "1", .measured_ms = 1},
         .now_ms = 1}));
  }

  v1::LeaseTasksResponse Lease(CrossChecking& checking, const char* device) {
    v1::LeaseTasksResponse response;
    EXPECT_TRUE(checking.Lease(store_->agents.GetDevice(device).value(), 10, 1,
                               &response));
    return response;
  }

  // The device measures the cross-checks that are due.
  void Report(CrossChecking& checking, const char* device,
              std::int64_t time_ns = 1000) {
    const v1::LeaseTasksResponse due = Lease(checking, device);
    for (const v1::Task& task : due.tasks()) {
      v1::ReportTaskRequest report;
      report.set_device_id(device);
      report.set_driver("1");
      report.set_kind(task.kind());
      report.set_problem(task.problem());
      *report.mutable_cross_check() = task.cross_check();
      v1::Measurement& point = *report.add_measurements();
      point.set_batch(task.batch());
      point.set_algorithm("GEMM");
      point.set_precision("FP32");
      point.set_time_ns(time_ns);
      point.set_repeats(5);
      EXPECT_TRUE(checking.Report(report, 2));
    }
  }

  DeviceKind kind_;
  std::atomic<int> transactions_ = 0;
  std::unique_ptr<Store> store_ =
      OpenStore("sqlite::memory:", [this](bool, auto) {
        ++transactions_;
      }).value();
};

TEST_F(CrossCheckingTest, HasEachDeviceMeasureEachCrossCheckOnce) {
  CrossChecking checking(*store_);
  for (std::int64_t batch = 1; batch <= 5; ++batch) Complete(checking, batch);
  EXPECT_EQ(Lease(checking, "a").tasks_size(), 0);
  EXPECT_EQ(Lease(checking, "b").tasks_size(), kCrossChecksPerOp);
  Report(checking, "b");
  EXPECT_EQ(Lease(checking, "b").tasks_size(), 0);
}

TEST_F(CrossCheckingTest, AsksTheStoreNothingForIdleDevices) {
  CrossChecking checking(*store_);
  Complete(checking, 1);
  Report(checking, "b");
  const DeviceRecord device = store_->agents.GetDevice("b").value();
  const int before = transactions_;
  v1::LeaseTasksResponse response;
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(checking.Lease(device, 10, 1, &response));
  }
  EXPECT_EQ(transactions_, before);
}

TEST_F(CrossCheckingTest, LogsADeviationThatItFoundWhenItLoadedAgain) {
  std::ostringstream log;
  const auto logger = spdlog::default_logger();
  spdlog::set_default_logger(std::make_shared<spdlog::logger>(
      "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(log)));
  CrossChecking checking(*store_);
  CrossChecking other(*store_);
  for (std::int64_t batch = 1; batch <= 3; ++batch) Complete(checking, batch);
  Report(other, "b", 2000);
  log.str({});
  checking.LookAt(store_->changes.CountChanges().value());
  Complete(checking, 4);
  Report(checking, "b", 2000);
  spdlog::set_default_logger(logger);
  EXPECT_THAT(log.str(),
              ::testing::HasSubstr("event=device_deviates device=b"));
}

TEST_F(CrossCheckingTest, NoticesWhatAnotherCoordinatorChanged) {
  CrossChecking checking(*store_);
  CrossChecking other(*store_);
  EXPECT_EQ(Lease(checking, "b").tasks_size(), 0);
  Complete(other, 1);
  checking.LookAt(store_->changes.CountChanges().value());
  EXPECT_EQ(Lease(checking, "b").tasks_size(), 1);
  Report(other, "b");
  checking.LookAt(store_->changes.CountChanges().value());
  EXPECT_EQ(Lease(checking, "b").tasks_size(), 0);
}

}  // namespace
}  // namespace ucudnn
