// What people see of measuring: campaigns with their estimate, and what each
// device measures.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

#include "base/service/clock.h"
#include "coordinator/coordinator.h"
#include "coordinator/store/store.h"
#include "ucudnn/v1/agent.pb.h"
#include "ucudnn/v1/coordinator.pb.h"

namespace ucudnn {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr char kKind[] = "TEST/1u/1GiB/test-1.0";
constexpr char kNetwork[] =
    "name,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,groups\n"
    "conv1,3,8,8,8,3,3,1,1,1,1,1\n"
    "conv2,8,8,8,8,3,3,1,1,1,1,1\n";

class CampaignsTest : public ::testing::Test {
 protected:
  CampaignsTest() {
    v1::PutNetworkRequest put;
    put.set_name("tiny");
    put.set_content(kNetwork);
    EXPECT_TRUE(coordinator_.PutNetwork(put));
    request_.set_network("tiny");
    request_.set_batch(4);
    request_.set_workspace_limit_bytes(1 << 20);
    request_.set_batch_policy("undivided");
    request_.add_device_kinds(kKind);
  }

  void Register() {
    v1::RegisterRequest request;
    request.set_agent_id("agent");
    v1::Device& device = *request.add_devices();
    device.set_id("device");
    device.set_kind(kKind);
    device.set_state("idle");
    v1::DeviceKind& kind = *device.mutable_kind_details();
    kind.set_model("TEST");
    kind.set_units(1);
    kind.set_memory_bytes(std::int64_t{1} << 30);
    kind.set_library("test-1.0");
    ASSERT_TRUE(coordinator_.Register(request));
  }

  v1::MeasureProgress Measure() {
    v1::MeasureRequest request;
    *request.mutable_plan() = request_;
    return coordinator_.Measure(request).value();
  }

  // The device takes a task; false if there is none.
  bool Lease() {
    v1::LeaseTasksRequest request;
    request.set_agent_id("agent");
    request.set_device_id("device");
    request.set_max_tasks(1);
    const auto leased = coordinator_.LeaseTasks(request).value();
    if (leased.tasks_size() == 0) return false;
    task_ = leased.tasks(0);
    return true;
  }

  void Report() {
    v1::ReportTaskRequest report;
    report.set_task_id(task_.id());
    report.set_lease_token(task_.lease_token());
    report.set_max_workspace_bytes(task_.max_workspace_bytes());
    report.set_device_id("device");
    report.set_epoch(store_->Epoch().value());
    report.set_kind(kKind);
    report.set_problem(task_.problem());
    for (const std::int64_t workspace : {0, 4096}) {
      v1::Measurement& measured = *report.add_measurements();
      measured.set_batch(task_.batch());
      measured.set_algorithm(workspace == 0 ? "GEMM" : "FFT");
      measured.set_math("FMA");
      measured.set_precision("FP32");
      measured.set_workspace_bytes(workspace);
      measured.set_time_ns(workspace == 0 ? 9000 : 4000);
      measured.set_repeats(1);
    }
    ASSERT_TRUE(coordinator_.ReportTask(report));
  }

  v1::Campaign Only() {
    const auto campaigns = coordinator_.ListCampaigns({}).value();
    EXPECT_THAT(campaigns.campaigns(), SizeIs(1));
    return campaigns.campaigns_size() == 1 ? campaigns.campaigns(0)
                                           : v1::Campaign();
  }

  FakeClock clock_{1'000'000};
  const std::unique_ptr<Store> store_ = OpenStore("sqlite::memory:").value();
  Coordinator coordinator_{CoordinatorOptions(), *store_, clock_};
  v1::PlanRequest request_;
  v1::Task task_;
};

TEST_F(CampaignsTest, TellWhatWaitsForADevice) {
  EXPECT_EQ(Measure().total(), 5);
  EXPECT_EQ(Measure().enqueued(), 0);
  const v1::Campaign campaign = Only();
  EXPECT_EQ(campaign.request().network(), "tiny");
  EXPECT_EQ(campaign.state(), "running");
  EXPECT_EQ(campaign.created_ms(), 1'000'000);
  EXPECT_EQ(campaign.total(), 5);
  EXPECT_EQ(campaign.done(), 0);
  EXPECT_THAT(campaign.kinds_without_device(), ElementsAre(kKind));
  EXPECT_FALSE(campaign.has_left_ms());
}

TEST_F(CampaignsTest, EstimateTheTimeLeftByThePaceSoFar) {
  Register();
  Measure();
  for (int task = 0; task < 2; ++task) {
    ASSERT_TRUE(Lease());
    clock_.Advance(std::chrono::milliseconds(3000));
    Report();
  }
  ASSERT_TRUE(coordinator_.Maintain());
  v1::Campaign campaign = Only();
  EXPECT_EQ(campaign.done(), 2);
  EXPECT_EQ(campaign.left_ms(), 9000);
  EXPECT_EQ(campaign.updated_ms(), 1'006'000);
  while (Lease()) Report();
  clock_.Advance(std::chrono::milliseconds(3000));
  ASSERT_TRUE(coordinator_.Maintain());
  campaign = Only();
  EXPECT_EQ(campaign.state(), "finished");
  EXPECT_EQ(campaign.finished_ms(), 1'009'000);
  EXPECT_FALSE(campaign.has_left_ms());
  // What is known needs no campaign.
  clock_.Advance(std::chrono::milliseconds(100'000));
  Measure();
  EXPECT_EQ(Only().state(), "finished");
}

TEST_F(CampaignsTest, FollowTheNetworkThatTheyBeganWith) {
  Register();
  Measure();
  v1::PutNetworkRequest put;
  put.set_name("tiny");
  put.set_content(std::string(kNetwork) + "conv3,8,8,8,8,1,1,0,0,1,1,1\n");
  ASSERT_TRUE(coordinator_.PutNetwork(put));
  while (Lease()) Report();
  clock_.Advance(std::chrono::milliseconds(3000));
  ASSERT_TRUE(coordinator_.Maintain());
  EXPECT_EQ(Only().state(), "finished");
  EXPECT_EQ(Only().total(), 5);
}

TEST_F(CampaignsTest, DevicesTellWhatTheyMeasure) {
  Register();
  Measure();
  v1::GetRequest get;
  get.set_id("device");
  EXPECT_FALSE(coordinator_.GetDevice(get)->has_measuring());
  ASSERT_TRUE(Lease());
  const auto devices = coordinator_.ListDevices({}).value();
  ASSERT_TRUE(devices.devices(0).has_measuring());
  EXPECT_EQ(devices.devices(0).measuring().problem(), task_.problem());
  EXPECT_EQ(devices.devices(0).measuring().batch(), 4);
  EXPECT_EQ(devices.devices(0).measuring().tasks(), 1);
  Report();
  EXPECT_FALSE(coordinator_.GetDevice(get)->has_measuring());
}

TEST_F(CampaignsTest, PlansShowTheFrontOfEachKernel) {
  Register();
  Measure();
  while (Lease()) Report();
  const auto plan = coordinator_.CreatePlan(request_);
  ASSERT_TRUE(plan) << plan.error().message;
  v1::GetFrontRequest request;
  request.set_plan_id(plan->id());
  request.set_layer("conv2");
  request.set_op("forward");
  const auto front = coordinator_.GetFront(request);
  ASSERT_TRUE(front) << front.error().message;
  EXPECT_THAT(front->problem(), StartsWith("forward-c8-"));
  ASSERT_THAT(front->points(), SizeIs(2));
  EXPECT_EQ(front->points(0).time_ns(), 9000);
  EXPECT_EQ(front->points(0).workspace_bytes(), 0);
  EXPECT_EQ(front->points(1).time_ns(), 4000);
  EXPECT_EQ(front->points(1).micro_batches(0).algorithm(), "FFT");
  request.set_layer("conv9");
  EXPECT_EQ(coordinator_.GetFront(request).error().code, Code::kNotFound);
  request.set_rank(1);
  EXPECT_EQ(coordinator_.GetFront(request).error().code, Code::kNotFound);
}

TEST_F(CampaignsTest, AreListedFromTheNewestOn) {
  Measure();
  request_.set_batch(8);
  Measure();
  v1::ListRequest list;
  list.set_limit(1);
  const auto newest = coordinator_.ListCampaigns(list).value();
  ASSERT_THAT(newest.campaigns(), SizeIs(1));
  EXPECT_EQ(newest.campaigns(0).request().batch(), 8);
  list.set_after(std::to_string(newest.campaigns(0).id()));
  EXPECT_EQ(coordinator_.ListCampaigns(list)->campaigns(0).request().batch(),
            4);
  v1::GetRequest get;
  get.set_id("99");
  EXPECT_EQ(coordinator_.GetCampaign(get).error().code, Code::kNotFound);
  get.set_id("first");
  EXPECT_EQ(coordinator_.GetCampaign(get).error().code, Code::kInvalidArgument);
}

}  // namespace
}  // namespace ucudnn
