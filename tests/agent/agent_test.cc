#include "agent/agent.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/agent/scripted_link.h"

namespace ucudnn {
namespace {

using std::chrono::milliseconds;
using test::ScriptedLink;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A device that does nothing; the test's measurer stands in for it.
class NoDevice final : public Device {
 public:
  explicit NoDevice(std::string id) {
    info_.id = std::move(id);
    info_.kind = {"Test", 1, 1_GiB, "none-1.0"};
  }
  const DeviceInfo& info() const override { return info_; }
  Result<std::vector<Candidate>> ListAlgorithms(const ConvProblem&,
                                                BatchSize) override {
    return std::vector<Candidate>();
  }
  Result<std::unique_ptr<Convolution>> Prepare(const ConvProblem&, BatchSize,
                                               const Algorithm&) override {
    return Fail(Code::kNotFound, "none");
  }
  Result<DeviceBuffer> Allocate(Bytes) override { return DeviceBuffer(); }
  Status Upload(void*, const void*, Bytes) override { return {}; }
  Status Download(void*, const void*, Bytes) override { return {}; }
  Status Fill(void*, unsigned char, Bytes) override { return {}; }
  Result<Nanoseconds> Time(const std::function<Status()>&) override {
    return Nanoseconds(1);
  }
  Status Synchronize() override { return {}; }

 private:
  DeviceInfo info_;
};

constexpr const char* kProblem =
    "forward-c1-h4w4-k1-r1s1-pad0x0-str1x1-dil1x1-g1-FP32-NCHW";

v1::Task MakeTask(std::int64_t id, const std::string& problem = kProblem) {
  v1::Task task;
  task.set_id(id);
  task.set_problem(problem);
  task.set_batch(4);
  task.set_max_workspace_bytes(100);
  task.set_lease_token(7);
  task.set_kind("Test/1u/1GiB/none-1.0");
  task.set_epoch("e");
  return task;
}

Result<std::vector<MeasuredPoint>> OnePoint(Device&, const CampaignTask& task,
                                            const std::stop_token&,
                                            const PointsSink&) {
  MeasuredPoint point;
  point.batch = task.batch;
  point.algorithm.name = "GEMM";
  point.time = Nanoseconds(5);
  return std::vector<MeasuredPoint>{point};
}

class AgentTest : public ::testing::Test {
 protected:
  AgentTest() {
    options_.id = "a";
    options_.stop_grace = milliseconds(500);
    options_.reconnect_spread = milliseconds(0);
  }

  // Runs an agent on one device until `condition` of the link holds.
  template <class Condition>
  bool RunUntil(const Measurer& measure, const Condition& condition) {
    std::vector<std::unique_ptr<Device>> devices;
    devices.push_back(std::make_unique<NoDevice>("d"));
    Status status;
    bool reached = false;
    {
      std::jthread agent([&](std::stop_token stop) {
        status = RunAgent(options_, link_, devices, measure, std::move(stop));
      });
      reached = link_.Await(condition);
    }
    EXPECT_TRUE(status);
    return reached;
  }

  AgentOptions options_;
  ScriptedLink link_;
};

TEST_F(AgentTest, RegistersMeasuresReportsAndLeaves) {
  link_.tasks = {MakeTask(1), MakeTask(2)};
  ASSERT_TRUE(RunUntil(OnePoint, [&] { return link_.reports_.size() == 2; }));
  EXPECT_EQ(link_.registered_.devices(0).kind(), "Test/1u/1GiB/none-1.0");
  EXPECT_EQ(link_.reports_[0].task_id(), 1);
  EXPECT_EQ(link_.reports_[0].lease_token(), 7);
  EXPECT_EQ(link_.reports_[0].epoch(), "e");
  EXPECT_EQ(link_.reports_[0].kind(), "Test/1u/1GiB/none-1.0");
  EXPECT_EQ(link_.reports_[0].problem(), kProblem);
  EXPECT_EQ(link_.reports_[0].max_workspace_bytes(), 100);
  EXPECT_EQ(link_.reports_[0].measurements(0).algorithm(), "GEMM");
  EXPECT_EQ(link_.reports_[1].task_id(), 2);
  EXPECT_TRUE(link_.left_);
}

constexpr const char* kHash =
    "00000000000000000000000000000000000000000000000000000000000000ff";

std::string TasksProblem() { return fmt::format("tasks-{}-FP32-NCHW", kHash); }

// Debian's protobuf is not instrumented, and maps of messages have another
// layout under the thread sanitizer.
#ifndef __SANITIZE_THREAD__
TEST_F(AgentTest, MeasuresTheTasksOfTheNetworkThatCameWithThem) {
  link_.networks = {{kHash, "model"}};
  link_.tasks = {MakeTask(1, TasksProblem()), MakeTask(2, TasksProblem())};
  v1::CrossCheck& check = *link_.tasks[1].mutable_cross_check();
  check.set_algorithm("relu.forward");
  std::vector<std::string> asked;
  options_.measure_tasks =
      [&](Device&, const OtherTasksCampaign& campaign,
          const std::stop_token&) -> Result<std::vector<MeasuredPoint>> {
    asked.push_back(fmt::format("{} of {} at {}", campaign.only, campaign.model,
                                campaign.batch.count()));
    MeasuredPoint point;
    point.batch = campaign.batch;
    point.algorithm.name = "relu.forward";
    return std::vector<MeasuredPoint>{point};
  };
  ASSERT_TRUE(RunUntil(OnePoint, [&] { return link_.reports_.size() == 2; }));
  EXPECT_THAT(asked,
              ElementsAre(" of model at 4", "relu.forward of model at 4"));
  EXPECT_EQ(link_.reports_[0].measurements_size(), 1);
  EXPECT_EQ(link_.reports_[0].problem(), TasksProblem());
  EXPECT_EQ(link_.reports_[1].measurements_size(), 1);
}
#endif  // __SANITIZE_THREAD__

TEST_F(AgentTest, SaysIfItMeasuresNothingButConvolutions) {
  link_.tasks = {MakeTask(1, TasksProblem())};
  ASSERT_TRUE(RunUntil(OnePoint, [&] { return link_.reports_.size() == 1; }));
  EXPECT_THAT(link_.reports_[0].error(), HasSubstr("nothing but convolutions"));
  EXPECT_FALSE(link_.reports_[0].retryable());
}

TEST_F(AgentTest, RepeatsAReportUntilItIsAcknowledged) {
  link_.tasks = {MakeTask(1)};
  link_.report_errors = {{Code::kUnavailable, "away"},
                         {Code::kDeadlineExceeded, "slow"}};
  ASSERT_TRUE(RunUntil(OnePoint, [&] { return link_.reports_.size() == 1; }));
  EXPECT_EQ(link_.report_tries_, 3);
}

TEST_F(AgentTest, DropsAReportThatIsOfAnotherDatabase) {
  link_.tasks = {MakeTask(1), MakeTask(2)};
  link_.report_errors = {{Code::kFailedPrecondition, "another database"}};
  ASSERT_TRUE(RunUntil(OnePoint, [&] { return link_.reports_.size() == 1; }));
  EXPECT_EQ(link_.reports_[0].task_id(), 2);
}

TEST_F(AgentTest, RegistersAgainWhenItWasForgotten) {
  link_.lease_errors = {{Code::kNotFound, "no such device"}};
  link_.tasks = {MakeTask(1)};
  ASSERT_TRUE(RunUntil(OnePoint, [&] { return link_.reports_.size() == 1; }));
  EXPECT_EQ(link_.registrations_, 2);
}

TEST_F(AgentTest, WaitsForAnUnavailableCoordinator) {
  EXPECT_EQ(AgentOptions().reconnect_spread, kReconnectSpread);
  link_.register_errors = {{Code::kUnavailable, "away"},
                           {Code::kUnavailable, "away"}};
  link_.lease_errors = {{Code::kUnavailable, "away again"}};
  link_.tasks = {MakeTask(1)};
  ASSERT_TRUE(RunUntil(OnePoint, [&] { return link_.reports_.size() == 1; }));
  EXPECT_EQ(link_.registrations_, 3);
}

TEST_F(AgentTest, EndsIfAnotherMachineHasAnAgentOfItsName) {
  options_.machine_id = "1234";
  link_.register_errors = {{Code::kAlreadyExists, "on another machine"}};
  std::vector<std::unique_ptr<Device>> devices;
  devices.push_back(std::make_unique<NoDevice>("d"));
  const Status status = RunAgent(options_, link_, devices, OnePoint, {});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "on another machine");
  EXPECT_EQ(link_.registered_.machine_id(), "1234");
  EXPECT_FALSE(link_.left_);
}

TEST_F(AgentTest, WaitsForItsNameOnceItHasWorked) {
  link_.tasks = {MakeTask(1)};
  link_.lease_errors = {{Code::kNotFound, "no such agent"}};
  link_.register_errors = {{Code::kOk, ""},
                           {Code::kAlreadyExists, "on another machine"}};
  ASSERT_TRUE(RunUntil(OnePoint, [&] { return link_.reports_.size() == 1; }));
  EXPECT_EQ(link_.registrations_, 3);
}

TEST_F(AgentTest, ReportsWhyATaskFailed) {
  link_.tasks = {MakeTask(1, "nonsense"), MakeTask(2)};
  const Measurer measure =
      [](Device&, const CampaignTask&, const std::stop_token&,
         const PointsSink&) -> Result<std::vector<MeasuredPoint>> {
    return Fail(Code::kResourceExhausted, "out of memory");
  };
  ASSERT_TRUE(RunUntil(measure, [&] { return link_.reports_.size() == 2; }));
  EXPECT_THAT(link_.reports_[0].error(), HasSubstr("nonsense"));
  EXPECT_FALSE(link_.reports_[0].retryable());
  EXPECT_EQ(link_.reports_[1].error(), "out of memory");
  EXPECT_TRUE(link_.reports_[1].retryable());
}

TEST_F(AgentTest, KeepsItsLeasesAliveWhileItMeasures) {
  link_.tasks = {MakeTask(1)};
  const Measurer measure = [&](Device& device, const CampaignTask& task,
                               const std::stop_token& stop,
                               const PointsSink& sink) {
    EXPECT_TRUE(link_.Await([&] {
      return !link_.heartbeats_.empty() &&
             link_.heartbeats_.back().leases_size() == 1;
    }));
    return OnePoint(device, task, stop, sink);
  };
  ASSERT_TRUE(RunUntil(measure, [&] { return link_.reports_.size() == 1; }));
}

TEST_F(AgentTest, StopsInTheMiddleOfATaskWithoutReportingIt) {
  link_.tasks = {MakeTask(1)};
  std::atomic<bool> measuring = false;
  const Measurer measure =
      [&](Device&, const CampaignTask&, const std::stop_token& stop,
          const PointsSink&) -> Result<std::vector<MeasuredPoint>> {
    measuring = true;
    while (!stop.stop_requested()) std::this_thread::yield();
    return Fail(Code::kCancelled, "stopped");
  };
  // A heartbeat arrives while the task is being measured, if not before.
  ASSERT_TRUE(RunUntil(
      measure, [&] { return measuring.load() && !link_.heartbeats_.empty(); }));
  EXPECT_TRUE(link_.reports_.empty());
  EXPECT_TRUE(link_.left_);
}

TEST_F(AgentTest, GivesItsLeasesBackWhileARunContinues) {
  link_.tasks = {MakeTask(1)};
  std::atomic<bool> measuring = false;
  // Simulates a library that cannot be interrupted.
  const Measurer measure =
      [&](Device&, const CampaignTask&, const std::stop_token&,
          const PointsSink&) -> Result<std::vector<MeasuredPoint>> {
    measuring = true;
    EXPECT_TRUE(link_.Await([&] { return link_.left_; }));
    return Fail(Code::kCancelled, "stopped");
  };
  ASSERT_TRUE(RunUntil(
      measure, [&] { return measuring.load() && !link_.heartbeats_.empty(); }));
  EXPECT_TRUE(link_.reports_.empty());
}

TEST_F(AgentTest, GivesUpAReportSomeTimeAfterItWasAskedToStop) {
  link_.tasks = {MakeTask(1)};
  link_.report_errors.assign(1000, {Code::kUnavailable, "away"});
  ASSERT_TRUE(RunUntil(OnePoint, [&] { return link_.report_tries_ >= 2; }));
  EXPECT_TRUE(link_.reports_.empty());
}

// Measures devices with these ids, each with a task, and returns how many were
// measured at the same time at most.
int MostAtOnce(const std::vector<std::string>& ids, bool meet) {
  constexpr int kTasks = 6;
  ScriptedLink link;
  for (int i = 1; i <= kTasks; ++i) link.tasks.push_back(MakeTask(i));
  std::vector<std::unique_ptr<Device>> devices;
  for (const std::string& id : ids) {
    devices.push_back(std::make_unique<NoDevice>(id));
  }
  std::atomic<int> inside = 0;
  std::atomic<int> most = 0;
  const Measurer measure = [&](Device& device, const CampaignTask& task,
                               const std::stop_token& stop,
                               const PointsSink& sink) {
    const int now = ++inside;
    int before = most;
    while (before < now && !most.compare_exchange_weak(before, now)) {
    }
    // The other devices have tasks too, and wait only for us.
    EXPECT_TRUE(link.Await([&] { return link.leased_.size() >= ids.size(); }));
    for (int i = 0; i < 20; ++i) std::this_thread::yield();
    while (meet && most < 2 && !stop.stop_requested()) {
      std::this_thread::yield();
    }
    --inside;
    return OnePoint(device, task, stop, sink);
  };
  AgentOptions options;
  options.id = "a";
  std::jthread agent([&](std::stop_token stop) {
    EXPECT_TRUE(RunAgent(options, link, devices, measure, std::move(stop)));
  });
  EXPECT_TRUE(link.Await([&] { return link.reports_.size() == kTasks; }));
  return most;
}

TEST(AgentTurnsTest, DevicesAreMeasuredAtOnce) {
  EXPECT_EQ(MostAtOnce({"GPU-1", "GPU-2/16sm"}, true), 2);
}

TEST(AgentTurnsTest, SlicesOfOneGpuAreMeasuredInTurns) {
  EXPECT_EQ(MostAtOnce({"GPU-1/16sm", "GPU-1/32sm", "GPU-1/64sm"}, false), 1);
}

TEST_F(AgentTest, RegistersAgainWhenAPowerCapIsSet) {
  std::atomic<bool> capped = false;
  options_.conditions = [&](const DeviceInfo&) -> std::string {
    return capped ? "driver, power cap 500 of 700 W" : "driver";
  };
  // Set while the first task is measured, so its points have mixed conditions.
  link_.tasks = {MakeTask(1), MakeTask(2)};
  const Measurer measure = [&](Device& device, const CampaignTask& task,
                               const std::stop_token& stop,
                               const PointsSink& sink) {
    capped = true;
    return OnePoint(device, task, stop, sink);
  };
  ASSERT_TRUE(RunUntil(measure, [&] { return link_.reports_.size() == 2; }));
  EXPECT_THAT(link_.reports_[0].error(), HasSubstr("power cap 500 of 700 W"));
  EXPECT_TRUE(link_.reports_[0].retryable());
  EXPECT_EQ(link_.reports_[0].measurements_size(), 0);
  EXPECT_EQ(link_.registrations_, 2);
  EXPECT_EQ(link_.registered_.devices(0).driver(),
            "driver, power cap 500 of 700 W");
  EXPECT_EQ(link_.reports_[1].error(), "");
  EXPECT_EQ(link_.reports_[1].driver(), "driver, power cap 500 of 700 W");
}

DeviceModel TestModel() {
  DeviceModel model;
  model.name = "Test/1u/1GiB/none-1.0";
  model.memory = 1_GiB;
  model.arithmetic = {.fp32 = 2e6, .tf32 = 2e6, .half = 2e6};
  model.memory_rate = 1e5;
  model.d2h_rate = model.h2d_rate = 1e4;
  return model;
}

TEST_F(AgentTest, MeasuresADeviceModelWhenTheCoordinatorAsksForIt) {
  options_.conditions = [](const DeviceInfo&) { return "driver 1"; };
  options_.measure_model = [](Device&, const std::stop_token&) {
    return TestModel();
  };
  link_.asks_for_models = 100;
  link_.tasks = {MakeTask(1)};
  ASSERT_TRUE(RunUntil(OnePoint, [&] { return link_.reports_.size() == 1; }));
  ASSERT_EQ(link_.models_.size(), 1U);
  EXPECT_EQ(link_.models_[0].device_id(), "d");
  EXPECT_EQ(link_.models_[0].driver(), "driver 1");
  EXPECT_EQ(link_.models_[0].model().arithmetic_tflops().fp32(), 2);
}

TEST_F(AgentTest, OffersADeviceModelOnlyIfItCanMeasureOne) {
  link_.asks_for_models = 100;
  link_.tasks = {MakeTask(1)};
  ASSERT_TRUE(RunUntil(OnePoint, [&] { return link_.reports_.size() == 1; }));
  EXPECT_THAT(link_.takes_device_models_, ::testing::Each(false));
}

TEST_F(AgentTest, MeasuresTasksAfterADeviceModelThatFailed) {
  options_.measure_model = [](Device&,
                              const std::stop_token&) -> Result<DeviceModel> {
    return Fail(Code::kResourceExhausted, "no memory");
  };
  link_.asks_for_models = 100;
  link_.tasks = {MakeTask(1)};
  ASSERT_TRUE(RunUntil(OnePoint, [&] { return link_.reports_.size() == 1; }));
  EXPECT_TRUE(link_.models_.empty());
  EXPECT_EQ(link_.asks_for_models, 99);
}

TEST_F(AgentTest, MeasuresTheModelAgainUnderAnotherDriver) {
  std::atomic<bool> changed = false;
  options_.conditions = [&](const DeviceInfo&) -> std::string {
    return changed ? "driver 2" : "driver 1";
  };
  options_.measure_model = [&](Device&, const std::stop_token&) {
    return TestModel();
  };
  link_.asks_for_models = 100;
  link_.tasks = {MakeTask(1)};
  const Measurer measure = [&](Device& device, const CampaignTask& task,
                               const std::stop_token& stop,
                               const PointsSink& sink) {
    changed = true;
    return OnePoint(device, task, stop, sink);
  };
  ASSERT_TRUE(RunUntil(measure, [&] { return link_.models_.size() == 2; }));
  EXPECT_EQ(link_.models_[0].driver(), "driver 1");
  EXPECT_EQ(link_.models_[1].driver(), "driver 2");
}

TEST(AgentTurnsTest, DeviceModelsAreMeasuredOneAtATime) {
  ScriptedLink link;
  link.asks_for_models = 100;
  std::vector<std::unique_ptr<Device>> devices;
  for (const char* id : {"GPU-1", "GPU-2", "GPU-3"}) {
    devices.push_back(std::make_unique<NoDevice>(id));
  }
  std::atomic<int> inside = 0;
  std::atomic<int> most = 0;
  AgentOptions options;
  options.id = "a";
  options.measure_model = [&](Device&, const std::stop_token&) {
    most = std::max<int>(most, ++inside);
    for (int i = 0; i < 100; ++i) std::this_thread::yield();
    --inside;
    return TestModel();
  };
  {
    std::jthread agent([&](std::stop_token stop) {
      EXPECT_TRUE(RunAgent(options, link, devices, OnePoint, std::move(stop)));
    });
    EXPECT_TRUE(link.Await([&] { return link.models_.size() == 3; }));
  }
  EXPECT_EQ(most, 1);
}

TEST_F(AgentTest, RefusesToRunWithoutADevice) {
  const Status status =
      RunAgent(options_, link_, {}, OnePoint, std::stop_token());
  EXPECT_EQ(status.error().code, Code::kFailedPrecondition);
}

}  // namespace
}  // namespace ucudnn
