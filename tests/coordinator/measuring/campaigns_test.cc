// What people see of measuring: campaigns with their estimate, and what each
// device measures.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

#include "coordinator/coordinator.h"
#include "coordinator/stores.h"
#include "tests/coordinator/tiny_cluster.h"
#include "tests/support/fake_clock.h"
#include "ucudnn/v1/agent.pb.h"
#include "ucudnn/v1/coordinator.pb.h"

namespace ucudnn {
namespace {

using test::kKind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr char kCampaignNetwork[] =
    "name,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,groups\n"
    "conv1,3,8,8,8,3,3,1,1,1,1,1\n"
    "conv2,8,8,8,8,3,3,1,1,1,1,1\n";

class CampaignsTest : public ::testing::Test {
 protected:
  CampaignsTest() {
    EXPECT_TRUE(
        coordinator_.networks.PutNetwork(test::PutTiny(kCampaignNetwork)));
    request_.set_network("tiny");
    request_.set_batch(4);
    request_.set_workspace_limit_bytes(1 << 20);
    request_.set_batch_policy("undivided");
    request_.add_device_kinds(kKind);
  }

  void Register() {
    ASSERT_TRUE(coordinator_.agents.Register(test::Agent("agent", "device")));
  }

  v1::MeasureProgress Measure() {
    v1::MeasureRequest request;
    request.set_wait_for_device(true);
    request.set_retry_cancelled(true);
    *request.mutable_plan() = request_;
    return coordinator_.jobs.Measure(request).value();
  }

  // The device takes a task; false if there is none.
  bool Lease() {
    v1::LeaseTasksRequest request;
    request.set_agent_id("agent");
    request.set_device_id("device");
    request.set_max_tasks(1);
    const auto leased = coordinator_.measuring.LeaseTasks(request).value();
    if (leased.tasks_size() == 0) return false;
    task_ = leased.tasks(0);
    return true;
  }

  void Report() {
    v1::ReportTaskRequest report;
    report.set_agent_id("agent");
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
    ASSERT_TRUE(coordinator_.measuring.ReportTask(report));
  }

  v1::Campaign Only() {
    const auto campaigns = coordinator_.measuring.ListCampaigns({}).value();
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
  ASSERT_TRUE(coordinator_.upkeep.Maintain());
  v1::Campaign campaign = Only();
  EXPECT_EQ(campaign.done(), 2);
  EXPECT_EQ(campaign.left_ms(), 9000);
  EXPECT_EQ(campaign.updated_ms(), 1'006'000);
  while (Lease()) Report();
  clock_.Advance(std::chrono::milliseconds(3000));
  ASSERT_TRUE(coordinator_.upkeep.Maintain());
  campaign = Only();
  EXPECT_EQ(campaign.state(), "finished");
  EXPECT_EQ(campaign.finished_ms(), 1'009'000);
  EXPECT_FALSE(campaign.has_left_ms());
  // What is known needs no campaign.
  clock_.Advance(std::chrono::milliseconds(100'000));
  Measure();
  EXPECT_EQ(Only().state(), "finished");
}

TEST_F(CampaignsTest, TellHowLongAnotherPlanWillTakeAtTheirPace) {
  Register();
  Measure();
  while (Lease()) {
    clock_.Advance(std::chrono::milliseconds(3000));
    Report();
  }
  ASSERT_TRUE(coordinator_.upkeep.Maintain());
  v1::MeasureRequest request;
  *request.mutable_plan() = request_;
  request.mutable_plan()->set_batch(8);
  request.set_dry_run(true);
  const auto told = coordinator_.jobs.Measure(request).value();
  EXPECT_EQ(told.unasked(), 5);
  EXPECT_EQ(told.estimate_ms(), 15'000);
  EXPECT_EQ(told.kinds(0).devices(), 1);
  EXPECT_EQ(told.kinds(0).ahead(), 0);
  // Others' tasks come first.
  request_.set_batch(16);
  Measure();
  const auto later = coordinator_.jobs.Measure(request).value();
  EXPECT_EQ(later.kinds(0).ahead(), 5);
  EXPECT_EQ(later.estimate_ms(), 30'000);
}

TEST_F(CampaignsTest, AreCancelledButForWhatOthersNeed) {
  Register();
  const std::int64_t first = Measure().campaign_id();
  ASSERT_GT(first, 0);
  // The same kernels, and those of twice the batch.
  request_.set_batch(8);
  request_.set_batch_policy("powerOfTwo");
  const std::int64_t second = Measure().campaign_id();
  ASSERT_TRUE(Lease());
  v1::CancelTasksRequest cancel;
  cancel.set_campaign_id(second);
  cancel.set_who("alice@host");
  cancel.set_reason("a wrong batch");
  const auto cancelled = coordinator_.measuring.CancelTasks(cancel).value();
  EXPECT_EQ(cancelled.kept(), 5);
  EXPECT_EQ(cancelled.cancelled(), 15);
  EXPECT_EQ(cancelled.running(), 0);
  const auto campaigns = coordinator_.measuring.ListCampaigns({}).value();
  EXPECT_EQ(campaigns.campaigns(0).state(), "cancelled");
  EXPECT_EQ(campaigns.campaigns(0).cancelled(), 15);
  EXPECT_EQ(campaigns.campaigns(0).cancelled_why(),
            "by alice@host: a wrong batch");
  EXPECT_EQ(campaigns.campaigns(1).state(), "running");
  // A job that asks for the plan does not request them again.
  const auto plan = coordinator_.plans.CreatePlan(request_);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(plan.error().message,
              HasSubstr("15 of 20 measurements were cancelled by alice@host: "
                        "a wrong batch"));
  const auto actions = coordinator_.upkeep.ListActions({}).value();
  ASSERT_THAT(actions.actions(), SizeIs(1));
  EXPECT_EQ(actions.actions(0).who(), "alice@host");
  EXPECT_EQ(actions.actions(0).made_ms(), 1'000'000);
  EXPECT_EQ(coordinator_.measuring.CancelTasks(cancel).error().code,
            Code::kFailedPrecondition);
  // Requested anew, everything is measured.
  EXPECT_EQ(Measure().cancelled(), 0);
  Report();
  while (Lease()) Report();
  EXPECT_TRUE(coordinator_.plans.CreatePlan(request_));
}

TEST_F(CampaignsTest, AreCancelledTaskByTask) {
  Register();
  Measure();
  ASSERT_TRUE(Lease());
  v1::CancelTasksRequest cancel;
  EXPECT_EQ(coordinator_.measuring.CancelTasks(cancel).error().code,
            Code::kInvalidArgument);
  cancel.add_task_ids(99);
  EXPECT_EQ(coordinator_.measuring.CancelTasks(cancel).error().code,
            Code::kNotFound);
  cancel.clear_task_ids();
  cancel.set_kind(kKind);
  const auto cancelled = coordinator_.measuring.CancelTasks(cancel).value();
  EXPECT_EQ(cancelled.cancelled(), 5);
  EXPECT_EQ(cancelled.running(), 1);
  v1::ListRequest list;
  list.set_state("cancelled");
  EXPECT_THAT(coordinator_.measuring.ListTasks(list)->tasks(), SizeIs(5));
  clock_.Advance(std::chrono::milliseconds(3000));
  ASSERT_TRUE(coordinator_.upkeep.Maintain());
  EXPECT_EQ(Only().state(), "cancelled");
  // What the device had begun counts all the same.
  Report();
  EXPECT_THAT(coordinator_.measuring.ListTasks(list)->tasks(), SizeIs(4));
}

TEST_F(CampaignsTest, ListTheirTasks) {
  Register();
  const std::int64_t campaign = Measure().campaign_id();
  request_.set_batch(8);
  Measure();
  ASSERT_TRUE(Lease());
  v1::ListRequest list;
  EXPECT_THAT(coordinator_.measuring.ListTasks(list)->tasks(), SizeIs(10));
  list.set_campaign_id(campaign);
  list.set_limit(3);
  const auto page = coordinator_.measuring.ListTasks(list).value();
  ASSERT_THAT(page.tasks(), SizeIs(3));
  list.set_after(std::to_string(page.tasks(2).id()));
  EXPECT_THAT(coordinator_.measuring.ListTasks(list)->tasks(), SizeIs(2));
  list = {};
  list.set_state("running");
  const auto running = coordinator_.measuring.ListTasks(list).value();
  ASSERT_THAT(running.tasks(), SizeIs(1));
  EXPECT_EQ(running.tasks(0).device_id(), "device");
  // Its device is silent: another may take it.
  clock_.Advance(std::chrono::milliseconds(30'000));
  EXPECT_THAT(coordinator_.measuring.ListTasks(list)->tasks(), SizeIs(0));
  list.set_state("expired");
  EXPECT_EQ(coordinator_.measuring.ListTasks(list)->tasks(0).state(),
            "expired");
  EXPECT_EQ(coordinator_.upkeep.GetStatus({})->tasks_pending(), 10);
  list.set_state("leased");
  EXPECT_EQ(coordinator_.measuring.ListTasks(list).error().code,
            Code::kInvalidArgument);
}

TEST_F(CampaignsTest, HeldNodesTakeNoTasks) {
  Register();
  Measure();
  v1::HoldAgentRequest hold;
  hold.set_agent_id("agent");
  hold.set_what("cordon");
  hold.set_who("alice@host");
  hold.set_reason("a new fan");
  EXPECT_EQ(coordinator_.jobs.HoldAgent(hold)->agent().state(), "cordoned");
  EXPECT_FALSE(Lease());
  // Also after a restart of the agent.
  Register();
  EXPECT_FALSE(Lease());
  v1::GetRequest get;
  get.set_id("agent");
  EXPECT_EQ(coordinator_.agents.GetAgent(get)->hold().reason(), "a new fan");
  v1::ListRequest devices;
  const v1::Device listed =
      coordinator_.measuring.ListDevices(devices)->devices(0);
  EXPECT_EQ(listed.state(), "cordoned");
  EXPECT_EQ(listed.state_reason(), "by alice@host: a new fan");
  v1::MeasureRequest other;
  *other.mutable_plan() = request_;
  other.mutable_plan()->set_batch(2);
  EXPECT_EQ(coordinator_.jobs.Measure(other).error().code,
            Code::kFailedPrecondition);
  hold.set_what("resume");
  EXPECT_EQ(coordinator_.jobs.HoldAgent(hold)->agent().state(), "online");
  EXPECT_EQ(coordinator_.measuring.ListDevices(devices)->devices(0).state(),
            "idle");
  EXPECT_TRUE(Lease());
  hold.set_what("drain");
  ASSERT_TRUE(coordinator_.jobs.HoldAgent(hold));
  get.set_id("device");
  EXPECT_EQ(coordinator_.measuring.GetDevice(get)->state(), "draining");
  v1::LeaveRequest leave;
  leave.set_agent_id("agent");
  ASSERT_TRUE(coordinator_.agents.Leave(leave));
  EXPECT_EQ(coordinator_.measuring.GetDevice(get)->state(), "lost");
  hold.set_what("stop");
  EXPECT_EQ(coordinator_.jobs.HoldAgent(hold).error().code,
            Code::kInvalidArgument);
  hold.set_what("drain");
  hold.set_agent_id("nobody");
  EXPECT_EQ(coordinator_.jobs.HoldAgent(hold).error().code, Code::kNotFound);
}

TEST_F(CampaignsTest, DrainsProposePlansWithoutTheNodesRanks) {
  Register();
  // Rank 0 runs on the node, rank 1 elsewhere.
  request_.add_device_kinds(kKind);
  Measure();
  while (Lease()) Report();
  const v1::Plan plan = coordinator_.plans.CreatePlan(request_).value();
  v1::RegisterJobRequest job;
  job.set_job_id("job");
  *job.mutable_request() = request_;
  job.set_plan_id(plan.id());
  job.add_ranks()->set_device_id("device");
  job.add_ranks()->set_device_id("elsewhere");
  job.mutable_ranks(1)->set_rank(1);
  ASSERT_TRUE(coordinator_.jobs.RegisterJob(job));
  v1::HoldAgentRequest drain;
  drain.set_agent_id("agent");
  drain.set_what("drain");
  // The other rank's new share has to be measured, which no other node can.
  const auto missing = coordinator_.jobs.HoldAgent(drain).value();
  ASSERT_THAT(missing.jobs(), SizeIs(1));
  EXPECT_EQ(missing.jobs(0).revision(), 0);
  EXPECT_THAT(missing.jobs(0).error(), HasSubstr("measurements are missing"));
  drain.set_what("resume");
  ASSERT_TRUE(coordinator_.jobs.HoldAgent(drain));
  while (Lease()) Report();
  drain.set_what("drain");
  const auto drained = coordinator_.jobs.HoldAgent(drain).value();
  ASSERT_THAT(drained.jobs(), SizeIs(1));
  EXPECT_EQ(drained.jobs(0).revision(), 2) << drained.jobs(0).error();
  EXPECT_THAT(drained.jobs(0).ranks(), ElementsAre(0));
  v1::GetRequest get;
  get.set_id("job");
  const v1::Job found = coordinator_.jobs.GetJob(get).value();
  EXPECT_EQ(found.newest_revision(), 2);
  get.set_id(std::to_string(found.revisions(1).plan_id()));
  const v1::Plan without = coordinator_.plans.GetPlan(get).value();
  EXPECT_THAT(without.request().exclude_ranks(), ElementsAre(0));
  EXPECT_EQ(without.ranks(0).batch(), 0);
  EXPECT_EQ(without.ranks(1).batch(), 4);
  // It is proposed once.
  clock_.Advance(std::chrono::milliseconds(10'000));
  ASSERT_TRUE(coordinator_.upkeep.Maintain());
  get.set_id("job");
  EXPECT_EQ(coordinator_.jobs.GetJob(get)->newest_revision(), 2);
}

TEST_F(CampaignsTest, KeepTheirNetwork) {
  Register();
  v1::DeleteRequest request;
  request.set_id("tiny");
  request.set_who("alice@host");
  const std::int64_t campaign = Measure().campaign_id();
  EXPECT_EQ(coordinator_.upkeep.DeleteNetwork(request).error().code,
            Code::kFailedPrecondition);
  v1::CancelTasksRequest cancel;
  cancel.set_campaign_id(campaign);
  ASSERT_TRUE(coordinator_.measuring.CancelTasks(cancel));
  ASSERT_TRUE(coordinator_.upkeep.DeleteNetwork(request));
  EXPECT_THAT(coordinator_.networks.ListNetworks({})->networks(), SizeIs(0));
  EXPECT_EQ(coordinator_.upkeep.ListActions({})->actions(0).object(),
            "network tiny");
  ASSERT_TRUE(coordinator_.upkeep.Maintain());
}

TEST_F(CampaignsTest, FollowTheNetworkThatTheyBeganWith) {
  Register();
  Measure();
  v1::PutNetworkRequest put;
  put.set_name("tiny");
  put.set_content(std::string(kCampaignNetwork) +
                  "conv3,8,8,8,8,1,1,0,0,1,1,1\n");
  ASSERT_TRUE(coordinator_.networks.PutNetwork(put));
  while (Lease()) Report();
  clock_.Advance(std::chrono::milliseconds(3000));
  ASSERT_TRUE(coordinator_.upkeep.Maintain());
  EXPECT_EQ(Only().state(), "finished");
  EXPECT_EQ(Only().total(), 5);
}

TEST_F(CampaignsTest, DevicesTellWhatTheyMeasure) {
  Register();
  Measure();
  v1::GetRequest get;
  get.set_id("device");
  EXPECT_FALSE(coordinator_.measuring.GetDevice(get)->has_measuring());
  ASSERT_TRUE(Lease());
  const auto devices = coordinator_.measuring.ListDevices({}).value();
  ASSERT_TRUE(devices.devices(0).has_measuring());
  EXPECT_EQ(devices.devices(0).measuring().problem(), task_.problem());
  EXPECT_EQ(devices.devices(0).measuring().batch(), 4);
  EXPECT_EQ(devices.devices(0).measuring().tasks(), 1);
  EXPECT_EQ(devices.devices(0).measuring().layer(), "tiny conv2 backward_data");
  Report();
  EXPECT_FALSE(coordinator_.measuring.GetDevice(get)->has_measuring());
}

TEST_F(CampaignsTest, PlansShowTheFrontOfEachKernel) {
  Register();
  Measure();
  while (Lease()) Report();
  const auto plan = coordinator_.plans.CreatePlan(request_);
  ASSERT_TRUE(plan) << plan.error().message;
  v1::GetFrontRequest request;
  request.set_plan_id(plan->id());
  request.set_layer("conv2");
  request.set_op("forward");
  const auto front = coordinator_.plans.GetFront(request);
  ASSERT_TRUE(front) << front.error().message;
  EXPECT_THAT(front->problem(), StartsWith("forward-c8-"));
  ASSERT_THAT(front->points(), SizeIs(2));
  EXPECT_EQ(front->points(0).time_ns(), 9000);
  EXPECT_EQ(front->points(0).workspace_bytes(), 0);
  EXPECT_EQ(front->points(1).time_ns(), 4000);
  EXPECT_EQ(front->points(1).micro_batches(0).algorithm(), "FFT");
  request.set_layer("conv9");
  EXPECT_EQ(coordinator_.plans.GetFront(request).error().code, Code::kNotFound);
  request.set_rank(1);
  EXPECT_EQ(coordinator_.plans.GetFront(request).error().code, Code::kNotFound);
}

TEST_F(CampaignsTest, AreListedFromTheNewestOn) {
  Measure();
  request_.set_batch(8);
  Measure();
  v1::ListRequest list;
  list.set_limit(1);
  const auto newest = coordinator_.measuring.ListCampaigns(list).value();
  ASSERT_THAT(newest.campaigns(), SizeIs(1));
  EXPECT_EQ(newest.campaigns(0).request().batch(), 8);
  list.set_after(std::to_string(newest.campaigns(0).id()));
  EXPECT_EQ(coordinator_.measuring.ListCampaigns(list)
                ->campaigns(0)
                .request()
                .batch(),
            4);
  v1::GetRequest get;
  get.set_id("99");
  EXPECT_EQ(coordinator_.measuring.GetCampaign(get).error().code,
            Code::kNotFound);
  get.set_id("first");
  EXPECT_EQ(coordinator_.measuring.GetCampaign(get).error().code,
            Code::kInvalidArgument);
}

}  // namespace
}  // namespace ucudnn
