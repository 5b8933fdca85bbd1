// Plans that the coordinator proposes to running jobs by itself.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/coordinator.h"
#include "proto/convert.h"
#include "tests/coordinator/tiny_cluster.h"
#include "tests/support/fake_clock.h"
#include "ucudnn/v1/agent.pb.h"
#include "ucudnn/v1/coordinator.pb.h"

namespace ucudnn {
namespace {

using std::chrono::seconds;
using test::kKind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class WatchTest : public ::testing::Test {
 protected:
  WatchTest() {
    UCUDNN_CHECK(coordinator_.networks.PutNetwork(test::PutTiny()).has_value());
    request_.set_network("tiny");
    request_.set_batch(4);
    request_.set_workspace_limit_bytes(1 << 20);
    request_.set_batch_policy("undivided");
    request_.add_device_kinds(kKind);
    request_.add_device_kinds(kKind);
    Measured(10, {2, 4});
  }

  // Everything about these batches, at so many microseconds for each image.
  void Measured(std::int64_t us, const std::vector<std::int64_t>& batches) {
    UCUDNN_CHECK(
        coordinator_.measuring.PutProfile(test::Measured(kKind, us, batches))
            .has_value());
  }

  void Begin(bool auto_replan = false, const std::string& host = "") {
    const auto plan = coordinator_.plans.CreatePlan(request_);
    ASSERT_TRUE(plan) << plan.error().message;
    v1::RegisterJobRequest job;
    job.set_job_id("job");
    job.set_auto_replan(auto_replan);
    *job.mutable_request() = request_;
    job.set_plan_id(plan->id());
    for (int r = 0; r < request_.device_kinds_size(); ++r) {
      v1::JobRank& rank = *job.add_ranks();
      rank.set_rank(r);
      rank.set_device_id("device-" + std::to_string(r));
      rank.set_host(host);
    }
    ASSERT_TRUE(coordinator_.jobs.RegisterJob(job));
  }

  // The answer to steps of so many milliseconds.
  v1::ReportStepsResponse Report(int rank, int steps, std::int64_t ms) {
    v1::ReportStepsRequest report;
    report.set_job_id("job");
    report.set_rank(rank);
    v1::StepBatch& batch = *report.add_batches();
    batch.set_revision(1);
    batch.set_first_step(taken_[rank]);
    for (int i = 0; i < steps; ++i) batch.add_step_ns(ms * 1'000'000);
    taken_[rank] += steps;
    return coordinator_.jobs.ReportSteps(report).value();
  }

  // A job whose steps take 40 % longer than its first ones.
  void Drift() {
    Report(0, kFirstSteps, 10);
    Report(0, 3 * kFirstSteps, 14);
  }

  void Watch() {
    clock_.Advance(seconds(5));
    ASSERT_TRUE(coordinator_.upkeep.Maintain());
    coordinator_.jobs.AwaitWatch();
  }

  v1::Job Job() {
    v1::GetRequest get;
    get.set_id("job");
    return coordinator_.jobs.GetJob(get).value();
  }

  void Adopt(std::int64_t revision) {
    v1::AnswerRevisionRequest answer;
    answer.set_job_id("job");
    answer.set_revision(revision);
    ASSERT_TRUE(coordinator_.jobs.AnswerRevision(answer));
  }

  void Reject(std::int64_t revision) {
    v1::AnswerRevisionRequest answer;
    answer.set_job_id("job");
    answer.set_revision(revision);
    answer.set_rejected("rank 0 cannot");
    ASSERT_TRUE(coordinator_.jobs.AnswerRevision(answer));
  }

  v1::JobRevision Replan(const v1::ReplanJobRequest& change) {
    v1::ReplanJobRequest replan = change;
    replan.set_job_id("job");
    const auto revision = coordinator_.jobs.ReplanJob(replan);
    UCUDNN_CHECK(revision.has_value());
    return *revision;
  }

  v1::JobRevision Exclude(int rank) {
    v1::ReplanJobRequest replan;
    replan.add_exclude_ranks(rank);
    return Replan(replan);
  }

  v1::JobRevision ReplanBatch(std::int64_t batch) {
    v1::ReplanJobRequest replan;
    replan.set_batch(batch);
    return Replan(replan);
  }

  // What the revision's plan was asked for.
  v1::PlanRequest RequestOf(const v1::JobRevision& revision) {
    v1::GetRequest get;
    get.set_id(std::to_string(revision.plan_id()));
    return coordinator_.plans.GetPlan(get)->request();
  }

  Result<v1::JobRevision> Accept() {
    v1::ReplanJobRequest accept;
    accept.set_job_id("job");
    accept.set_accept_proposed(true);
    return coordinator_.jobs.ReplanJob(accept);
  }

  // With memory plans within 12 MiB, whose search is cut off. Returns the
  // coordinator's options.
  CoordinatorOptions BeginWithMemory() {
    UCUDNN_CHECK(coordinator_.networks.PutNetwork(test::PutTiny(test::kChain))
                     .has_value());
    request_.set_batch(128);
    request_.set_batch_policy("powerOfTwo");
    request_.mutable_memory()->set_budget_bytes((12_MiB).count());
    constexpr std::array<std::int64_t, 7> kBatches = {1, 2, 4, 8, 16, 32, 64};
    v1::Profile profile = test::Measured(kKind, 10, kBatches, test::kChain);
    *profile.mutable_device_model()->mutable_model() =
        ToProto(DeviceModelPreset("K40").value());
    UCUDNN_CHECK(coordinator_.measuring.PutProfile(profile).has_value());
    CoordinatorOptions options;
    options.memory_plan_time = std::chrono::milliseconds(0);
    coordinator_.context.Reconfigure(options);
    Begin();
    return options;
  }

  FakeClock clock_{1'000'000};
  const std::unique_ptr<Store> store_ = OpenStore("sqlite::memory:").value();
  Coordinator coordinator_{CoordinatorOptions(), *store_, clock_};
  v1::PlanRequest request_;
  std::int64_t taken_[3] = {0, 0, 0};  // steps, by rank
};

TEST_F(WatchTest, ProposesThePlanOfNewMeasurementsToAJobThatDrifts) {
  Begin();
  Drift();
  Measured(14, {2, 4});
  Watch();
  EXPECT_EQ(Job().newest_revision(), 1);
  ASSERT_THAT(Job().revisions(), SizeIs(2));
  const v1::JobRevision proposed = Job().revisions(1);
  EXPECT_TRUE(proposed.proposed());
  EXPECT_THAT(proposed.reason(), HasSubstr("drift: rank 0: its last 48 steps"));
  EXPECT_EQ(coordinator_.jobs.ListJobs({})->jobs(0).proposed_revision(), 2);
  // The job goes on with what it has until somebody accepts.
  EXPECT_EQ(Report(0, 1, 14).newest().revision(), 1);
  Watch();
  EXPECT_THAT(Job().revisions(), SizeIs(2));
  EXPECT_EQ(Accept()->revision(), 2);
  EXPECT_EQ(Report(0, 1, 14).newest().revision(), 2);
  EXPECT_EQ(Job().proposed_revision(), 0);
  EXPECT_EQ(Accept().error().code, Code::kFailedPrecondition);
}

TEST_F(WatchTest, DoesNotSearchAgainForAPlanThatWasCutOff) {
  CoordinatorOptions options = BeginWithMemory();
  ASSERT_TRUE(coordinator_.plans.ListPlans({})->plans(0).cut_off());
  options.memory_plan_time = std::chrono::minutes(10);
  coordinator_.context.Reconfigure(options);
  Drift();
  Watch();
  EXPECT_THAT(Job().drift(), SizeIs(1));
  EXPECT_EQ(coordinator_.plans.ListPlans({})->plans_size(), 1);
  // Somebody who asks has it searched for.
  EXPECT_FALSE(coordinator_.plans.CreatePlan(request_)->cut_off());
}

TEST_F(WatchTest, ProposesNothingIfTheMeasurementsGiveTheSamePlan) {
  Begin();
  Drift();
  Watch();
  EXPECT_THAT(Job().drift(), SizeIs(1));
  EXPECT_THAT(Job().revisions(), SizeIs(1));
}

TEST_F(WatchTest, ProposesNothingToAJobThatDoesNotDrift) {
  Begin();
  Report(0, 4 * kFirstSteps, 10);
  Measured(14, {2, 4});
  Watch();
  EXPECT_THAT(Job().revisions(), SizeIs(1));
}

TEST_F(WatchTest, HasJobsAdoptThatReplanByThemselves) {
  Begin(/*auto_replan=*/true);
  Drift();
  Measured(14, {2, 4});
  Watch();
  EXPECT_EQ(Report(0, 1, 14).newest().revision(), 2);
  EXPECT_FALSE(Job().revisions(1).proposed());
  EXPECT_TRUE(Job().auto_replan());
  // What the ranks have not answered yet is not replaced.
  Measured(16, {2, 4});
  Watch();
  EXPECT_THAT(Job().revisions(), SizeIs(2));
}

TEST_F(WatchTest, ProposesAPlanWithoutARankThatIsSilent) {
  Begin();
  Report(1, 1, 10);
  for (int s = 0; s < 45; s += 5) {
    Report(0, 1, 10);
    Watch();
  }
  ASSERT_THAT(Job().revisions(), SizeIs(2));
  EXPECT_EQ(Job().revisions(1).reason(), "rank 1 is silent");
  v1::GetRequest get;
  get.set_id(std::to_string(Job().revisions(1).plan_id()));
  const v1::Plan plan = coordinator_.plans.GetPlan(get).value();
  EXPECT_THAT(plan.request().exclude_ranks(), ElementsAre(1));
  EXPECT_EQ(plan.ranks(0).batch(), 4);
  EXPECT_EQ(plan.ranks(1).batch(), 0);
}

TEST_F(WatchTest, ProposesAPlanWithARankThatReportsAgain) {
  Begin(/*auto_replan=*/true);
  Report(1, 1, 10);
  for (int s = 0; s < 45; s += 5) {
    Report(0, 1, 10);
    Watch();
  }
  ASSERT_THAT(Job().revisions(), SizeIs(2));
  Report(1, 1, 10);
  Watch();
  ASSERT_THAT(Job().revisions(), SizeIs(3));
  EXPECT_EQ(Job().revisions(2).reason(), "rank 1 reports again");
  EXPECT_EQ(Job().revisions(2).plan_id(), Job().revisions(0).plan_id());
  // Whoever leaves it out now means that.
  Watch();
  v1::ReplanJobRequest replan;
  replan.set_job_id("job");
  replan.add_exclude_ranks(1);
  ASSERT_EQ(coordinator_.jobs.ReplanJob(replan)->revision(), 4);
  Watch();
  EXPECT_THAT(Job().revisions(), SizeIs(4));
}

TEST_F(WatchTest, ReplacesAProposalByWhatIsAskedFor) {
  Begin();
  Drift();
  Measured(14, {2, 4});
  Watch();
  Measured(14, {1});
  v1::ReplanJobRequest replan;
  replan.set_job_id("job");
  replan.set_batch(2);
  const auto revision = coordinator_.jobs.ReplanJob(replan);
  ASSERT_TRUE(revision) << revision.error().message;
  EXPECT_EQ(revision->revision(), 3);
  EXPECT_EQ(Job().revisions(1).rejected(), "replaced by revision 3");
  EXPECT_EQ(Job().newest_revision(), 3);
  replan.set_accept_proposed(true);
  EXPECT_EQ(coordinator_.jobs.ReplanJob(replan).error().code,
            Code::kInvalidArgument);
  v1::ReplanJobRequest budget;
  budget.set_job_id("job");
  budget.add_memory_budget_bytes(1 << 20);
  EXPECT_EQ(coordinator_.jobs.ReplanJob(budget).error().message,
            "memory_budget_bytes: job 'job' has no memory plans");
}

TEST_F(WatchTest, RefusesWorkspaceLimitsForMemoryPlans) {
  v1::RegisterJobRequest job;
  job.set_job_id("job");
  *job.mutable_request() = request_;
  job.mutable_request()->mutable_memory()->set_budget_bytes(1 << 20);
  job.add_ranks()->set_device_id("device-0");
  ASSERT_TRUE(coordinator_.jobs.RegisterJob(job));
  for (const bool total : {false, true}) {
    v1::ReplanJobRequest replan;
    replan.set_job_id("job");
    if (total) {
      replan.set_total_workspace_bytes(1);
    } else {
      replan.set_workspace_limit_bytes(1);
    }
    const auto revision = coordinator_.jobs.ReplanJob(replan);
    ASSERT_FALSE(revision);
    EXPECT_EQ(revision.error().code, Code::kInvalidArgument);
    EXPECT_THAT(
        revision.error().message,
        HasSubstr(total ? "total_workspace_bytes: job 'job' has memory"
                        : "workspace_limit_bytes: job 'job' has memory"));
  }
}

TEST_F(WatchTest, DrainsAgainOnceMeasurementsAreMade) {
  ASSERT_TRUE(coordinator_.agents.Register(test::Agent("agent", "device-0")));
  request_.set_batch(8);
  Measured(10, {4});
  Begin();
  v1::HoldAgentRequest drain;
  drain.set_agent_id("agent");
  drain.set_what("drain");
  EXPECT_THAT(coordinator_.jobs.HoldAgent(drain)->jobs(0).error(),
              HasSubstr("measurements are missing"));
  Measured(10, {8});
  Watch();
  EXPECT_EQ(Job().newest_revision(), 2);
  EXPECT_EQ(Job().proposed_revision(), 0);
}

TEST_F(WatchTest, ProposesAPlanWithTheRanksOfANodeThatIsResumed) {
  ASSERT_TRUE(coordinator_.agents.Register(test::Agent("agent", "device-0")));
  Begin();
  v1::HoldAgentRequest hold;
  hold.set_agent_id("agent");
  hold.set_what("drain");
  ASSERT_EQ(coordinator_.jobs.HoldAgent(hold)->jobs(0).revision(), 2);
  Adopt(2);
  hold.set_what("resume");
  const auto resumed = coordinator_.jobs.HoldAgent(hold).value();
  ASSERT_THAT(resumed.jobs(), SizeIs(1));
  EXPECT_THAT(resumed.jobs(0).ranks(), ElementsAre(0));
  EXPECT_EQ(resumed.jobs(0).revision(), 3) << resumed.jobs(0).error();
  EXPECT_EQ(Job().proposed_revision(), 3);
  EXPECT_EQ(Job().revisions(2).reason(), "node agent of rank 0 is resumed");
  EXPECT_EQ(Job().revisions(2).plan_id(), Job().revisions(0).plan_id());
  EXPECT_EQ(Accept()->revision(), 3);
}

TEST_F(WatchTest, DrainsRanksOnTheNodesHostThatNoOtherNodeOffers) {
  // The agent offers none of the job's devices, another agent of the host one.
  v1::RegisterRequest agent = test::Agent("agent", "device-9");
  agent.set_host("host");
  ASSERT_TRUE(coordinator_.agents.Register(agent));
  agent = test::Agent("other", "device-1");
  agent.set_host("host");
  ASSERT_TRUE(coordinator_.agents.Register(agent));
  // Ranks may know the host by its full name.
  Begin(/*auto_replan=*/false, "host.cluster.example");
  v1::HoldAgentRequest hold;
  hold.set_agent_id("agent");
  hold.set_what("drain");
  const auto drained = coordinator_.jobs.HoldAgent(hold).value();
  ASSERT_THAT(drained.jobs(), SizeIs(1));
  EXPECT_THAT(drained.jobs(0).ranks(), ElementsAre(0));
  ASSERT_EQ(drained.jobs(0).revision(), 2);
  Watch();
  EXPECT_THAT(Job().revisions(), SizeIs(2));
  Adopt(2);
  hold.set_what("resume");
  EXPECT_THAT(coordinator_.jobs.HoldAgent(hold)->jobs(0).ranks(),
              ElementsAre(0));
}

TEST_F(WatchTest, ShowsTheRequestOfTheAdoptedPlan) {
  Begin();
  v1::ReplanJobRequest replan;
  replan.set_job_id("job");
  replan.set_batch(2);
  Measured(10, {1});
  ASSERT_EQ(coordinator_.jobs.ReplanJob(replan)->revision(), 2);
  EXPECT_EQ(Job().request().batch(), 4);
  EXPECT_EQ(coordinator_.jobs.ListJobs({})->jobs(0).request().batch(), 4);
  Adopt(2);
  EXPECT_EQ(Job().request().batch(), 2);
  EXPECT_EQ(coordinator_.jobs.ListJobs({})->jobs(0).request().batch(), 2);
}

TEST_F(WatchTest, WithdrawsAProposalWithoutARankThatReportsAgain) {
  Begin();
  Report(1, 1, 10);
  for (int s = 0; s < 45; s += 5) {
    Report(0, 1, 10);
    Watch();
  }
  ASSERT_EQ(Job().proposed_revision(), 2);
  Report(1, 1, 10);
  Watch();
  EXPECT_EQ(Job().proposed_revision(), 0);
  EXPECT_EQ(Job().revisions(1).rejected(), "withdrawn: rank 1 reports again");
  // Silent once more, it is left out once more.
  for (int s = 0; s < 45; s += 5) {
    Report(0, 1, 10);
    Watch();
  }
  EXPECT_EQ(Job().proposed_revision(), 3);
}

TEST_F(WatchTest, SeesNoDriftInRanksWithoutImages) {
  Begin();
  v1::ReplanJobRequest replan;
  replan.set_job_id("job");
  replan.add_exclude_ranks(0);
  ASSERT_EQ(coordinator_.jobs.ReplanJob(replan)->revision(), 2);
  Adopt(2);
  v1::ReportStepsRequest report;
  report.set_job_id("job");
  v1::StepBatch& batch = *report.add_batches();
  batch.set_revision(2);
  for (std::size_t i = 0; i < 4 * kFirstSteps; ++i) {
    batch.add_step_ns(i < kFirstSteps ? 10'000'000 : 14'000'000);
  }
  ASSERT_TRUE(coordinator_.jobs.ReportSteps(report));
  EXPECT_THAT(Job().drift(), SizeIs(0));
}

TEST_F(WatchTest, TellsOfIdleDevicesThatAJobWouldGainBy) {
  v1::RegisterRequest agent = test::Agent("agent", "device-0");
  for (int d = 1; d < 4; ++d) {
    *agent.add_devices() = agent.devices(0);
    agent.mutable_devices(d)->set_id("device-" + std::to_string(d));
  }
  // Idle, but on a node that is none of the job's.
  ASSERT_TRUE(coordinator_.agents.Register(test::Agent("other", "device-9")));
  Begin();
  const auto watch = [&] {
    // Neither the node nor the job is silent.
    ASSERT_TRUE(coordinator_.agents.Register(agent));
    Report(0, 1, 10);
    Report(1, 1, 10);
    Watch();
  };
  watch();
  // Less than half of two ranks' batch is not measured.
  EXPECT_EQ(Job().idle_devices_size(), 0);
  Measured(10, {1});
  watch();
  ASSERT_EQ(Job().idle_devices_size(), 1);
  const v1::IdleDevices idle = Job().idle_devices(0);
  EXPECT_EQ(idle.device_kind(), kKind);
  EXPECT_EQ(idle.count(), 2);
  EXPECT_EQ(idle.predicted_now_ns(), 2 * idle.predicted_ns());
  EXPECT_EQ(coordinator_.context.activity.jobs().with_idle_devices, 1);
  // Three devices take as long as two.
  agent.mutable_devices(3)->set_state("busy");
  watch();
  EXPECT_EQ(Job().idle_devices_size(), 0);
  agent.mutable_devices(3)->set_state("idle");
  watch();
  EXPECT_EQ(Job().idle_devices_size(), 1);
  // Another job takes them.
  v1::RegisterJobRequest other;
  other.set_job_id("other");
  *other.mutable_request() = request_;
  other.add_ranks()->set_device_id("device-2");
  other.add_ranks()->set_device_id("device-3");
  other.mutable_ranks(1)->set_rank(1);
  ASSERT_TRUE(coordinator_.jobs.RegisterJob(other));
  watch();
  EXPECT_EQ(Job().idle_devices_size(), 0);
  v1::FinishJobRequest finish;
  finish.set_job_id("other");
  ASSERT_TRUE(coordinator_.jobs.FinishJob(finish));
  watch();
  EXPECT_EQ(Job().idle_devices_size(), 1);
  // Devices of a cordoned node are not idle.
  v1::HoldAgentRequest hold;
  hold.set_agent_id("agent");
  hold.set_what("cordon");
  ASSERT_TRUE(coordinator_.jobs.HoldAgent(hold));
  watch();
  EXPECT_EQ(Job().idle_devices_size(), 0);
  hold.set_what("resume");
  ASSERT_TRUE(coordinator_.jobs.HoldAgent(hold));
  watch();
  EXPECT_EQ(Job().idle_devices_size(), 1);
  finish.set_job_id("job");
  ASSERT_TRUE(coordinator_.jobs.FinishJob(finish));
  EXPECT_EQ(Job().idle_devices_size(), 0);
}

TEST_F(WatchTest, GivesRanksAPartAgainThatAreAskedFor) {
  Begin();
  v1::ReplanJobRequest replan;
  replan.set_job_id("job");
  replan.add_exclude_ranks(1);
  ASSERT_EQ(coordinator_.jobs.ReplanJob(replan)->revision(), 2);
  Adopt(2);
  replan.clear_exclude_ranks();
  replan.add_include_ranks(1);
  const auto revision = coordinator_.jobs.ReplanJob(replan);
  ASSERT_TRUE(revision) << revision.error().message;
  EXPECT_EQ(revision->revision(), 3);
  EXPECT_EQ(revision->reason(), "with rank 1 again");
  EXPECT_EQ(revision->plan_id(), Job().revisions(0).plan_id());
}

TEST_F(WatchTest, KeepsWhatAnEarlierReplanAskedFor) {
  Measured(10, {1});
  Begin();
  ASSERT_EQ(Exclude(1).revision(), 2);
  // No rank has refreshed meanwhile.
  const v1::JobRevision second = ReplanBatch(2);
  EXPECT_EQ(second.revision(), 3);
  EXPECT_EQ(RequestOf(second).batch(), 2);
  EXPECT_THAT(RequestOf(second).exclude_ranks(), ElementsAre(1));
  // What the ranks rejected counts no more.
  Reject(3);
  v1::ReplanJobRequest limit;
  limit.set_workspace_limit_bytes(1 << 19);
  const v1::JobRevision third = Replan(limit);
  EXPECT_EQ(RequestOf(third).batch(), 4);
  EXPECT_THAT(RequestOf(third).exclude_ranks(), SizeIs(0));
}

TEST_F(WatchTest, MeasuresForAReplanWithWhatAnEarlierOneAskedFor) {
  Begin();
  ASSERT_EQ(Exclude(1).revision(), 2);
  v1::MeasureRequest measure;
  measure.mutable_replan()->set_job_id("job");
  measure.mutable_replan()->set_batch(2);
  measure.set_dry_run(true);
  // Rank 0 alone takes both images: no batch of one is needed.
  const auto progress = coordinator_.jobs.Measure(measure);
  ASSERT_TRUE(progress) << progress.error().message;
  EXPECT_EQ(progress->done(), progress->total());
}

TEST_F(WatchTest, ProposesOnTopOfWhatWasAskedFor) {
  Measured(10, {1});
  Begin();
  ASSERT_EQ(ReplanBatch(2).revision(), 2);
  Report(1, 1, 10);
  for (int s = 0; s < 45; s += 5) {
    Report(0, 1, 10);
    Watch();
  }
  ASSERT_EQ(Job().proposed_revision(), 3);
  EXPECT_EQ(RequestOf(Job().revisions(2)).batch(), 2);
  EXPECT_THAT(RequestOf(Job().revisions(2)).exclude_ranks(), ElementsAre(1));
  // Nobody has accepted that rank 1 is left out.
  EXPECT_THAT(RequestOf(ReplanBatch(4)).exclude_ranks(), SizeIs(0));
}

TEST_F(WatchTest, LeavesOutSilentRanksAsOthersReportAgain) {
  request_.add_device_kinds(kKind);
  Measured(10, {1});
  Begin();
  Report(1, 1, 10);
  for (int s = 0; s < 45; s += 5) {
    Report(0, 1, 10);
    Report(2, 1, 10);
    Watch();
  }
  ASSERT_EQ(Accept()->revision(), 2);
  Adopt(2);
  for (int s = 0; s < 45; s += 5) {
    Report(0, 1, 10);
    Watch();
  }
  ASSERT_EQ(Job().proposed_revision(), 3);
  ASSERT_THAT(RequestOf(Job().revisions(2)).exclude_ranks(), ElementsAre(1, 2));
  Report(1, 1, 10);
  Watch();
  ASSERT_EQ(Job().proposed_revision(), 4);
  EXPECT_EQ(Job().revisions(3).reason(), "rank 1 reports again");
  EXPECT_THAT(RequestOf(Job().revisions(3)).exclude_ranks(), ElementsAre(2));
}

TEST_F(WatchTest, GivesAPartAgainOnlyToRanksThatWereExcluded) {
  Begin();
  const auto refused = [&](const std::vector<int>& exclude,
                           const std::vector<int>& include) {
    v1::ReplanJobRequest replan;
    replan.set_job_id("job");
    for (const int rank : exclude) replan.add_exclude_ranks(rank);
    for (const int rank : include) replan.add_include_ranks(rank);
    const auto revision = coordinator_.jobs.ReplanJob(replan);
    if (revision) return std::string("accepted");
    EXPECT_EQ(revision.error().code, Code::kInvalidArgument);
    return revision.error().message;
  };
  EXPECT_EQ(refused({}, {1, 7}),
            "include_ranks has 1, which was not excluded; no rank was");
  EXPECT_EQ(refused({}, {7}), "include_ranks has 7; ranks 0 to 1 are accepted");
  EXPECT_EQ(refused({0}, {0}),
            "exclude_ranks and include_ranks both have 0; one of both is "
            "accepted");
  ASSERT_EQ(Exclude(1).revision(), 2);
  EXPECT_EQ(refused({}, {0}),
            "include_ranks has 0, which was not excluded; rank 1 is accepted");
  EXPECT_EQ(refused({}, {-1}),
            "include_ranks has -1; ranks 0 to 1 are accepted");
  EXPECT_EQ(Job().revisions_size(), 2);
  // The request may be repeated.
  EXPECT_EQ(refused({}, {1}), "accepted");
  EXPECT_EQ(refused({}, {1}), "accepted");
  EXPECT_EQ(Job().revisions_size(), 3);
}

TEST_F(WatchTest, SaysThatABudgetIsAllThatTheDeviceHas) {
  BeginWithMemory();
  v1::ReplanJobRequest replan;
  replan.add_memory_budget_bytes(0);
  EXPECT_EQ(Replan(replan).reason(), "all of memory");
}

}  // namespace
}  // namespace ucudnn
