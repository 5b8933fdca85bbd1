// An agent with real devices, some of which fail.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "agent/agent.h"
#include "device/open_devices.h"
#include "tests/agent/scripted_link.h"
#include "tests/support/failing_device.h"

namespace ucudnn {
namespace {

using test::FailingDevice;
using test::ScriptedLink;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kProblem =
    "forward-c8-h12w12-k8-r3s3-pad1x1-str1x1-dil1x1-g1-FP32-NCHW";

v1::Task TaskOf(std::int64_t id, std::int64_t batch,
                const std::string& goal = "") {
  v1::Task task;
  task.set_id(id);
  task.set_problem(kProblem);
  task.set_batch(batch);
  task.set_max_workspace_bytes((1_GiB).count());
  task.set_goal(goal);
  return task;
}

class FailuresTest : public ::testing::Test {
 protected:
  FailuresTest() {
    DeviceOptions options;
    options.gpus = false;
    options.cpu_devices = 2;
    options.cpu_threads = 1;
    auto opened = OpenDevices(options).value();
    for (auto& device : opened) {
      auto failing = std::make_unique<FailingDevice>(std::move(device));
      failing_.push_back(failing.get());
      devices_.push_back(std::move(failing));
    }
    link_.retry_failed = true;
    options_.id = "a";
    options_.reconnect_spread = std::chrono::milliseconds(0);
    // Reports every point at once.
    options_.partial_report = std::chrono::milliseconds(0);
    for (const auto& device : devices_) {
      benches_.try_emplace(device.get(), *device);
    }
  }

  // Runs the agent until `condition` holds, or it ends by itself.
  template <class Condition>
  Status RunUntil(const Condition& condition) {
    MeasureOptions measure;
    measure.max_repeats = 3;
    const Measurer measurer = [&](Device& device, const CampaignTask& task,
                                  const std::stop_token& stop,
                                  const PointsSink& sink) {
      return RunCampaign(device, benches_.at(&device), task, measure, stop, {},
                         sink);
    };
    Status status;
    std::jthread agent([&](std::stop_token stop) {
      status = RunAgent(options_, link_, devices_, measurer, std::move(stop));
    });
    EXPECT_TRUE(link_.Await(condition));
    agent.request_stop();
    agent.join();
    return status;
  }

  // Reports that end a task.
  int Done() const {
    int done = 0;
    for (const auto& report : link_.reports_) {
      done += !report.partial() && report.error().empty() ? 1 : 0;
    }
    return done;
  }

  AgentOptions options_;
  std::vector<FailingDevice*> failing_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::map<const Device*, MeasureBench> benches_;
  ScriptedLink link_;
};

TEST_F(FailuresTest, OtherDevicesContinueWhenOneIsLost) {
  for (int id = 1; id <= 4; ++id) link_.tasks.push_back(TaskOf(id, id));
  failing_[0]->timings_left = 3;
  const Status status = RunUntil([&] {
    return Done() == 4 && !link_.heartbeats_.empty() &&
           link_.heartbeats_.back().devices(0).state() == "lost";
  });
  EXPECT_TRUE(status) << status.error().message;
  EXPECT_THAT(link_.heartbeats_.back().devices(0).state_reason(),
              HasSubstr("fell off the bus"));
  EXPECT_EQ(link_.heartbeats_.back().devices(1).state(), "idle");
  int lost = 0;
  for (const auto& report : link_.reports_) {
    if (report.error().empty()) continue;
    ++lost;
    EXPECT_THAT(report.error(), HasSubstr("lost"));
    EXPECT_TRUE(report.retryable());
    EXPECT_EQ(report.device_id(), devices_[0]->info().id);
  }
  EXPECT_EQ(lost, 1);
}

TEST_F(FailuresTest, ReportsWhatItMeasuredBeforeTheDeviceWasLost) {
  link_.tasks = {TaskOf(1, 8, "adaptive")};
  failing_[0]->timings_left = 20;
  failing_[1]->timings_left = 20;
  const Status status = RunUntil([&] {
    int lost = 0;
    for (const auto& report : link_.reports_) lost += !report.error().empty();
    return lost == 2;
  });
  EXPECT_EQ(status.error().code, Code::kDataLoss);
  EXPECT_THAT(status.error().message, HasSubstr("every device is lost"));
  int points = 0;
  for (const auto& report : link_.reports_) {
    if (report.partial()) points += report.measurements_size();
  }
  EXPECT_GT(points, 2);
  EXPECT_TRUE(link_.left_);
}

TEST_F(FailuresTest, LeavesOutAlgorithmsThatDoNotFitInMemory) {
  // Enough for the tensors of 64 images, not for the largest workspaces.
  failing_[0]->memory = failing_[1]->memory = 64 * 8 * 12 * 12 * 4;
  link_.tasks = {TaskOf(1, 64)};
  EXPECT_TRUE(RunUntil([&] { return Done() == 1; }));
  const auto candidates =
      devices_[0]
          ->ListAlgorithms(ParseConvProblem(kProblem).value(), BatchSize(64))
          .value();
  std::size_t fit = 0;
  for (const Candidate& c : candidates) {
    fit += c.workspace.count() <= failing_[0]->memory ? 1U : 0U;
  }
  ASSERT_LT(fit, candidates.size());
  EXPECT_LE(std::size_t(link_.reports_.back().measurements_size()), fit);
  EXPECT_GE(link_.reports_.back().measurements_size(), 1);
}

TEST_F(FailuresTest, SaysHowMuchMemoryWasMissing) {
  failing_[0]->memory = failing_[1]->memory = 1024;
  link_.retry_failed = false;
  link_.tasks = {TaskOf(1, 64), TaskOf(2, 1, "adaptive")};
  EXPECT_TRUE(RunUntil([&] { return link_.reports_.size() >= 2; }));
  for (const auto& report : link_.reports_) {
    EXPECT_THAT(report.error(),
                AllOf(HasSubstr("requested"), HasSubstr("1.00 KiB free")));
    EXPECT_TRUE(report.retryable());
  }
}

}  // namespace
}  // namespace ucudnn
