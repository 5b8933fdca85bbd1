// Training jobs.

#include <algorithm>
#include <limits>

#include "tests/contract/store_contract.h"

namespace ucudnn {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

JobRecord TestJob(const std::string& id) {
  return {.id = id,
          .name = "train",
          .state = JobState::kRunning,
          .request = "{\"batch\":8}",
          .source = "coordinator",
          .reason = "plan 1",
          .revision = 1,
          .created_ms = 0,
          .seen_ms = 0};
}

std::vector<JobRankRecord> TestRanks(std::int64_t count) {
  std::vector<JobRankRecord> ranks;
  for (std::int64_t r = 0; r < count; ++r) {
    ranks.push_back({.rank = r,
                     .device = fmt::format("GPU-{}", r),
                     .kind = ToString(TestKind()),
                     .host = "node1",
                     .seen_ms = 0});
  }
  return ranks;
}

StepReport Steps(std::int64_t first, std::vector<std::int64_t> times,
                 std::int64_t rank = 0, std::int64_t revision = 1) {
  StepReport report{
      .rank = rank, .revision = revision, .first_step = first, .steps = {}};
  for (const std::int64_t time : times) report.steps.emplace_back(time);
  return report;
}

std::vector<std::int64_t> Counts(const std::vector<Nanoseconds>& times) {
  std::vector<std::int64_t> counts;
  for (const Nanoseconds time : times) counts.push_back(time.count());
  return counts;
}

TEST_P(StoreContract, RegistersAJobOnce) {
  const std::int64_t plan = store().plans.CreatePlan(TestPlan("k"))->plan.id;
  ASSERT_TRUE(store().jobs.RegisterJob(TestJob("j"), TestRanks(3), plan, 100));
  JobDetails job = store().jobs.GetJob("j").value();
  JobRecord expected = TestJob("j");
  expected.created_ms = 100;
  expected.seen_ms = 100;
  expected.plan = plan;
  EXPECT_EQ(job.job, expected);
  ASSERT_THAT(job.ranks, SizeIs(3));
  EXPECT_EQ(job.ranks[2].device, "GPU-2");
  EXPECT_EQ(job.ranks[2].seen_ms, 100);
  ASSERT_THAT(job.revisions, SizeIs(1));
  EXPECT_EQ(job.revisions[0].plan, plan);
  EXPECT_EQ(job.revisions[0].adopted_ms, 100);
  EXPECT_THAT(job.steps, IsEmpty());
  // Registering again only updates the time of the last sign of life.
  JobRecord other = TestJob("j");
  other.name = "another";
  ASSERT_TRUE(store().jobs.RegisterJob(other, TestRanks(1), std::nullopt, 200));
  job = store().jobs.GetJob("j").value();
  expected.seen_ms = 200;
  EXPECT_EQ(job.job, expected);
  EXPECT_THAT(job.ranks, SizeIs(3));
  EXPECT_EQ(job.revisions[0].plan, plan);
  EXPECT_EQ(store().jobs.GetJob("x").error().code, Code::kNotFound);
}

TEST_P(StoreContract, TreatsAnUnknownPlanAsNone) {
  ASSERT_TRUE(store().jobs.RegisterJob(TestJob("j"), TestRanks(1), 4711, 100));
  EXPECT_EQ(store().jobs.GetJob("j")->revisions[0].plan, std::nullopt);
}

TEST_P(StoreContract, RegistersJobsOfManyRanks) {
  ASSERT_TRUE(store().jobs.RegisterJob(TestJob("j"), TestRanks(2000),
                                       std::nullopt, 100));
  const JobDetails job = store().jobs.GetJob("j").value();
  ASSERT_THAT(job.ranks, SizeIs(2000));
  EXPECT_EQ(job.ranks[1999].rank, 1999);
}

TEST_P(StoreContract, CountsStepsOnceHoweverOftenTheyAreReported) {
  ASSERT_TRUE(
      store().jobs.RegisterJob(TestJob("j"), TestRanks(2), std::nullopt, 100));
  const auto report = [&](std::vector<StepReport> reports, UnixMillis now) {
    return store().jobs.ReportSteps("j", reports, now);
  };
  EXPECT_EQ(report({Steps(0, {5, 6})}, 200)->state, JobState::kRunning);
  ASSERT_TRUE(report({Steps(0, {5, 6})}, 210));
  ASSERT_TRUE(report({Steps(1, {6, 7}), Steps(0, {9}, 1)}, 220));
  // Unreported steps count, but have no time.
  ASSERT_TRUE(report({Steps(10, {8})}, 230));
  const JobDetails job = store().jobs.GetJob("j").value();
  ASSERT_THAT(job.steps, SizeIs(2));
  EXPECT_EQ(job.steps[0].count, 11);
  EXPECT_THAT(Counts(job.steps[0].kept), ElementsAre(5, 6, 7, 8));
  EXPECT_EQ(job.steps[1].count, 1);
  EXPECT_EQ(job.ranks[0].seen_ms, 230);
  EXPECT_EQ(job.ranks[1].seen_ms, 220);
  EXPECT_EQ(job.job.seen_ms, 230);
}

TEST_P(StoreContract, KeepsTheFirstAndTheLastSteps) {
  ASSERT_TRUE(
      store().jobs.RegisterJob(TestJob("j"), TestRanks(1), std::nullopt, 100));
  std::vector<std::int64_t> times(kMaxKeptSteps + 10);
  for (std::size_t i = 0; i < times.size(); ++i) {
    times[i] = static_cast<std::int64_t>(i);
  }
  const std::vector<StepReport> one = {Steps(0, times)};
  ASSERT_TRUE(store().jobs.ReportSteps("j", one, 200));
  const JobStepsRecord steps = store().jobs.GetJob("j")->steps.at(0);
  EXPECT_EQ(steps.count, std::ssize(times));
  times.erase(times.begin() + kFirstSteps, times.begin() + kFirstSteps + 10);
  EXPECT_EQ(Counts(steps.kept), times);
}

TEST_P(StoreContract, RefusesReportsOfUnknownRanksAndRevisions) {
  const auto code = [&](StepReport report) {
    const std::vector<StepReport> one = {std::move(report)};
    const auto heard = store().jobs.ReportSteps("j", one, 200);
    return heard ? Code::kOk : heard.error().code;
  };
  EXPECT_EQ(code(Steps(0, {1})), Code::kNotFound);
  ASSERT_TRUE(
      store().jobs.RegisterJob(TestJob("j"), TestRanks(1), std::nullopt, 100));
  EXPECT_EQ(code(Steps(0, {1}, 1)), Code::kInvalidArgument);
  EXPECT_EQ(code(Steps(0, {1}, 0, 2)), Code::kNotFound);
  EXPECT_EQ(code(Steps(0, {1}, 0, 0)), Code::kInvalidArgument);
  EXPECT_EQ(code(Steps(-1, {1})), Code::kInvalidArgument);
  EXPECT_EQ(code(Steps(0, {-1})), Code::kInvalidArgument);
  EXPECT_EQ(code(Steps(0, {1})), Code::kOk);
  EXPECT_EQ(store().jobs.GetJob("j")->steps.at(0).count, 1);
}

TEST_P(StoreContract, KnowsAJobThatRegistersAgainByItsRevision) {
  const std::int64_t plan = store().plans.CreatePlan(TestPlan("k"))->plan.id;
  const auto registers = [&](std::int64_t revision) {
    JobRecord job = TestJob("j");
    job.revision = revision;
    job.request = fmt::format("of revision {}", revision);
    return store().jobs.RegisterJob(job, TestRanks(2), plan, 100);
  };
  // Ranks may not have reported all steps of earlier revisions.
  const std::vector<StepReport> reports = {Steps(5, {7}, 1, 3),
                                           Steps(2, {8}, 1, 4)};
  ASSERT_TRUE(registers(3));
  const auto unknown = store().jobs.ReportSteps("j", reports, 200);
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, Code::kNotFound);
  EXPECT_EQ(unknown.error().message, "job 'j' has no revision 4");
  ASSERT_TRUE(registers(4));
  EXPECT_EQ(store().jobs.ReportSteps("j", reports, 200)->newest.revision, 4);
  ASSERT_TRUE(registers(4));
  ASSERT_TRUE(registers(1));
  const JobDetails job = store().jobs.GetJob("j").value();
  EXPECT_EQ(job.job.revision, 4);
  EXPECT_EQ(job.job.request, "of revision 4");
  EXPECT_EQ(job.job.plan, plan);
  EXPECT_THAT(job.ranks, SizeIs(2));
  ASSERT_THAT(job.revisions, SizeIs(2));
  EXPECT_EQ(job.revisions[1].reason, "the job registered again");
  ASSERT_THAT(job.steps, SizeIs(2));
  EXPECT_EQ(job.steps[0].count, 6);
  EXPECT_EQ(job.steps[1].count, 3);
  const std::int64_t other = store().plans.CreatePlan(TestPlan("l"))->plan.id;
  EXPECT_EQ(store().jobs.AddJobRevision("j", other, "", 300)->revision, 5);
}

TEST_P(StoreContract, HearsOneAnswerToARevision) {
  const std::int64_t plan = store().plans.CreatePlan(TestPlan("k"))->plan.id;
  const std::int64_t other = store().plans.CreatePlan(TestPlan("l"))->plan.id;
  ASSERT_TRUE(
      store().jobs.RegisterJob(TestJob("j"), TestRanks(1), std::nullopt, 100));
  const auto refusal = [&](std::int64_t revision, const std::string& rejected) {
    const Status answered =
        store().jobs.AnswerJobRevision("j", revision, rejected, 200);
    return answered ? Error{Code::kOk, ""} : answered.error();
  };
  ASSERT_TRUE(store().jobs.AddJobRevision("j", plan, "", 150));
  EXPECT_EQ(refusal(2, "no memory").code, Code::kOk);
  EXPECT_EQ(refusal(2, "no time").code, Code::kOk);
  EXPECT_EQ(refusal(2, "").code, Code::kInvalidArgument);
  EXPECT_EQ(refusal(2, "").message,
            "rejected is ''; revision 2 of job 'j' was rejected before, and "
            "only that answer is accepted");
  EXPECT_EQ(refusal(1, "no memory").code, Code::kInvalidArgument);
  // Proposed, the ranks are not asked yet; replaced, no more.
  ASSERT_TRUE(
      store().jobs.ProposeJobRevision("j", std::nullopt, other, "", 160));
  EXPECT_EQ(refusal(3, "").message,
            "the ranks of job 'j' are not asked to adopt revision 3");
  ASSERT_TRUE(store().jobs.WithdrawJobRevision("j", 3, "it was wrong"));
  EXPECT_EQ(refusal(3, "").code, Code::kInvalidArgument);
  const JobDetails job = store().jobs.GetJob("j").value();
  EXPECT_EQ(job.job.revision, 1);
  EXPECT_EQ(job.revisions.at(1).rejected, "no memory");
  EXPECT_EQ(job.revisions.at(1).adopted_ms, 0);
  EXPECT_EQ(job.revisions.at(2).rejected, "it was wrong");
  EXPECT_EQ(store().jobs.AnswerJobRevision("x", 1, "", 1).error().code,
            Code::kNotFound);
}

TEST_P(StoreContract, GivesAJobPlansToAdopt) {
  const std::int64_t first = store().plans.CreatePlan(TestPlan("a"))->plan.id;
  const std::int64_t second = store().plans.CreatePlan(TestPlan("b"))->plan.id;
  EXPECT_EQ(store().jobs.AddJobRevision("j", second, "", 1).error().code,
            Code::kNotFound);
  ASSERT_TRUE(store().jobs.RegisterJob(TestJob("j"), TestRanks(1), first, 100));
  EXPECT_EQ(store().jobs.AddJobRevision("j", 4711, "", 1).error().code,
            Code::kNotFound);
  // The plan that the job already has makes no new revision.
  EXPECT_EQ(store().jobs.AddJobRevision("j", first, "", 150)->revision, 1);
  const JobRevisionRecord added =
      store().jobs.AddJobRevision("j", second, "batch 16", 200).value();
  EXPECT_EQ(added.revision, 2);
  EXPECT_EQ(store().jobs.AddJobRevision("j", second, "again", 210).value(),
            added);
  const JobHeard heard = store().jobs.ReportSteps("j", {}, 220).value();
  EXPECT_EQ(heard.newest, added);
  EXPECT_EQ(store().jobs.GetJob("j")->job.revision, 1);

  ASSERT_TRUE(store().jobs.AnswerJobRevision("j", 2, "", 300));
  ASSERT_TRUE(store().jobs.AnswerJobRevision("j", 2, "", 310));
  EXPECT_EQ(store().jobs.GetJob("j")->job.revision, 2);
  EXPECT_EQ(store().jobs.GetJob("j")->revisions.at(1).adopted_ms, 300);

  EXPECT_EQ(store().jobs.AddJobRevision("j", first, "back", 400)->revision, 3);
  ASSERT_TRUE(store().jobs.AnswerJobRevision("j", 3, "rank 1: no memory", 500));
  const JobDetails job = store().jobs.GetJob("j").value();
  EXPECT_EQ(job.job.revision, 2);
  EXPECT_EQ(job.revisions.at(2).rejected, "rank 1: no memory");
  EXPECT_EQ(job.revisions.at(2).adopted_ms, 0);
  // A rejected plan may be requested again.
  EXPECT_EQ(store().jobs.AddJobRevision("j", first, "retry", 600)->revision, 4);
  EXPECT_EQ(store().jobs.AnswerJobRevision("j", 9, "", 1).error().code,
            Code::kNotFound);
}

TEST_P(StoreContract, ProposesPlansThatSomebodyAccepts) {
  const auto plan = [&](const char* key) {
    return store().plans.CreatePlan(TestPlan(key))->plan.id;
  };
  const std::int64_t a = plan("a");
  const std::int64_t b = plan("b");
  const std::int64_t c = plan("c");
  ASSERT_TRUE(store().jobs.RegisterJob(TestJob("j"), TestRanks(1), a, 100));
  EXPECT_EQ(
      store().jobs.ProposeJobRevision("x", std::nullopt, b, "", 1).error().code,
      Code::kNotFound);
  EXPECT_EQ(store()
                .jobs.ProposeJobRevision("j", std::nullopt, 4711, "", 1)
                .error()
                .code,
            Code::kNotFound);
  EXPECT_EQ(store().jobs.AcceptJobRevision("j").error().code,
            Code::kFailedPrecondition);
  // A plan that the job has is not proposed.
  EXPECT_EQ(
      store().jobs.ProposeJobRevision("j", std::nullopt, a, "", 150).value(),
      std::nullopt);
  const auto second =
      store()
          .jobs.ProposeJobRevision("j", std::nullopt, b, "drift", 200)
          .value();
  ASSERT_TRUE(second);
  EXPECT_EQ(second->revision, 2);
  EXPECT_EQ(second->offered, Offered::kProposed);
  EXPECT_EQ(store()
                .jobs.ProposeJobRevision("j", std::nullopt, b, "again", 210)
                .value(),
            std::nullopt);
  EXPECT_EQ(store().jobs.ListJobs(1, "")->at(0).proposed, 2);
  EXPECT_EQ(store().jobs.ReportSteps("j", {}, 220)->newest.revision, 1);
  // One that was planned before it is too late.
  EXPECT_EQ(store().jobs.ProposeJobRevision("j", 1, c, "late", 220).value(),
            std::nullopt);
  // A later proposal replaces it.
  EXPECT_EQ(
      store().jobs.ProposeJobRevision("j", 2, c, "", 300).value()->revision, 3);
  JobDetails job = store().jobs.GetJob("j").value();
  EXPECT_EQ(job.job.proposed, 3);
  EXPECT_EQ(job.revisions.at(1).offered, Offered::kReplaced);
  EXPECT_EQ(job.revisions.at(1).rejected, "replaced by revision 3");
  EXPECT_EQ(store().jobs.AcceptJobRevision("j")->revision, 3);
  EXPECT_EQ(store().jobs.ReportSteps("j", {}, 320)->newest.revision, 3);
  EXPECT_EQ(store().jobs.GetJob("j")->job.proposed, 0);
  // Replaced plans may be proposed again, and requested.
  EXPECT_EQ(store()
                .jobs.ProposeJobRevision("j", std::nullopt, b, "", 400)
                .value()
                ->revision,
            4);
  EXPECT_EQ(store().jobs.AddJobRevision("j", b, "", 410)->revision, 4);
  EXPECT_EQ(store().jobs.ReportSteps("j", {}, 420)->newest.revision, 4);
  // So may one that the ranks had before.
  EXPECT_EQ(store()
                .jobs.ProposeJobRevision("j", std::nullopt, a, "", 430)
                .value()
                ->revision,
            5);
  ASSERT_TRUE(
      store().jobs.ProposeJobRevision("j", std::nullopt, plan("d"), "", 500));
  ASSERT_TRUE(store().jobs.FinishJob("j", 600));
  EXPECT_EQ(store().jobs.AcceptJobRevision("j").error().code,
            Code::kFailedPrecondition);
  EXPECT_EQ(store().jobs.AcceptJobRevision("x").error().code, Code::kNotFound);
}

TEST_P(StoreContract, HasJobsAdoptProposedPlansThatReplanByThemselves) {
  const std::int64_t plan = store().plans.CreatePlan(TestPlan("k"))->plan.id;
  JobRecord job = TestJob("j");
  job.auto_replan = true;
  ASSERT_TRUE(store().jobs.RegisterJob(job, TestRanks(1), std::nullopt, 100));
  EXPECT_TRUE(store().jobs.GetJob("j")->job.auto_replan);
  EXPECT_EQ(store()
                .jobs.ProposeJobRevision("j", std::nullopt, plan, "", 200)
                .value()
                ->offered,
            Offered::kToAdopt);
  EXPECT_EQ(store().jobs.ReportSteps("j", {}, 220)->newest.plan, plan);
  ASSERT_TRUE(store().jobs.AnswerJobRevision("j", 2, "rank 0: no memory", 300));
  // What the ranks rejected is not proposed again.
  EXPECT_EQ(
      store().jobs.ProposeJobRevision("j", std::nullopt, plan, "", 400).value(),
      std::nullopt);
}

TEST_P(StoreContract, TellsTheRanksOfRunningJobsThatReport) {
  for (const char* id : {"a", "b", "ended"}) {
    ASSERT_TRUE(
        store().jobs.RegisterJob(TestJob(id), TestRanks(2), std::nullopt, 100));
  }
  ASSERT_TRUE(store().jobs.FinishJob("ended", 110));
  const std::vector<StepReport> reports = {Steps(0, {}, 1)};
  ASSERT_TRUE(store().jobs.ReportSteps("b", reports, 120));
  EXPECT_THAT(store().jobs.ListRankPulses().value(),
              ElementsAre(RankPulse{"a", 0, 0}, RankPulse{"a", 1, 0},
                          RankPulse{"b", 0, 0}, RankPulse{"b", 1, 1}));
}

TEST_P(StoreContract, LosesSilentJobsUntilTheyReportAgain) {
  for (const char* id : {"b", "a", "c"}) {
    ASSERT_TRUE(
        store().jobs.RegisterJob(TestJob(id), TestRanks(1), std::nullopt, 100));
  }
  ASSERT_TRUE(store().jobs.FinishJob("c", 110));
  ASSERT_TRUE(store().jobs.FinishJob("c", 120));
  auto pulses = store().jobs.ListJobPulses().value();
  EXPECT_THAT(pulses, SizeIs(2));
  ASSERT_TRUE(store().jobs.ReportSteps("b", {}, 100));
  EXPECT_THAT(store().jobs.ExpireJobs(pulses).value(), ElementsAre("a"));
  EXPECT_THAT(store().jobs.ExpireJobs(pulses).value(), IsEmpty());
  pulses = store().jobs.ListJobPulses().value();
  EXPECT_THAT(store().jobs.ExpireJobs(pulses).value(), ElementsAre("b"));
  EXPECT_EQ(store().jobs.GetJob("a")->job.state, JobState::kLost);
  EXPECT_EQ(store().jobs.ReportSteps("a", {}, 200)->state, JobState::kRunning);
  EXPECT_EQ(store().jobs.GetJob("a")->job.state, JobState::kRunning);
  EXPECT_EQ(store().jobs.GetJob("c")->job.state, JobState::kFinished);
  EXPECT_EQ(store().jobs.CountJobs()->running, 1);
  EXPECT_EQ(store().jobs.CountJobs()->lost, 1);
  EXPECT_EQ(store().jobs.CountJobs()->finished, 1);
  const std::int64_t plan = store().plans.CreatePlan(TestPlan("k"))->plan.id;
  EXPECT_EQ(store().jobs.AddJobRevision("c", plan, "", 1).error().code,
            Code::kFailedPrecondition);
  EXPECT_EQ(store().jobs.FinishJob("x", 1).error().code, Code::kNotFound);
}

TEST_P(StoreContract, ListsJobsNewestFirst) {
  ASSERT_TRUE(store().jobs.RegisterJob(TestJob("b"), {}, std::nullopt, 100));
  ASSERT_TRUE(store().jobs.RegisterJob(TestJob("c"), {}, std::nullopt, 200));
  ASSERT_TRUE(store().jobs.RegisterJob(TestJob("a"), {}, std::nullopt, 100));
  const auto ids = [&](std::int64_t limit, const std::string& after) {
    std::vector<std::string> listed;
    const auto jobs = store().jobs.ListJobs(limit, after).value();
    for (const JobRecord& job : jobs) {
      listed.push_back(job.id);
    }
    return listed;
  };
  EXPECT_THAT(ids(10, ""), ElementsAre("c", "a", "b"));
  EXPECT_THAT(ids(1, ""), ElementsAre("c"));
  EXPECT_THAT(ids(1, "c"), ElementsAre("a"));
  EXPECT_THAT(ids(10, "a"), ElementsAre("b"));
  EXPECT_THAT(ids(10, "b"), IsEmpty());
  EXPECT_EQ(store().jobs.ListJobs(-1, "").error().code, Code::kInvalidArgument);
  EXPECT_EQ(store().jobs.ListJobs(10, "none").error().code,
            Code::kInvalidArgument);
}

TEST_P(StoreContract, RefusesStepsThatWouldOverflow) {
  constexpr std::int64_t kMost = std::int64_t{1} << 62;
  ASSERT_TRUE(
      store().jobs.RegisterJob(TestJob("j"), TestRanks(1), std::nullopt, 100));
  const auto report = [&](std::int64_t first_step, std::int64_t ns) {
    const std::vector<StepReport> reports = {
        {.rank = 0,
         .revision = 1,
         .first_step = first_step,
         .steps = {Nanoseconds(ns), Nanoseconds(1)}}};
    return store().jobs.ReportSteps("j", reports, 200);
  };
  for (const auto& refused :
       {report(std::numeric_limits<std::int64_t>::max(), 1),
        report(kMost + 1, 1), report(0, kMost + 1)}) {
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  }
  EXPECT_THAT(store().jobs.GetJob("j")->steps, IsEmpty());
  ASSERT_TRUE(report(0, kMost));
  EXPECT_EQ(store().jobs.GetJob("j")->steps.at(0).count, 2);
}

TEST_P(StoreContract, WithdrawsAProposedRevision) {
  const std::int64_t first = store().plans.CreatePlan(TestPlan("1"))->plan.id;
  const std::int64_t other = store().plans.CreatePlan(TestPlan("2"))->plan.id;
  ASSERT_TRUE(store().jobs.RegisterJob(TestJob("j"), TestRanks(1), first, 100));
  ASSERT_TRUE(store().jobs.ProposeJobRevision("j", std::nullopt, other,
                                              "it drifts", 200));
  ASSERT_TRUE(
      store().jobs.WithdrawJobRevision("j", 2, "withdrawn: it was wrong"));
  EXPECT_EQ(store().jobs.GetJob("j")->job.proposed, 0);
  EXPECT_EQ(store().jobs.GetJob("j")->revisions[1].rejected,
            "withdrawn: it was wrong");
  EXPECT_EQ(store().jobs.AcceptJobRevision("j").error().code,
            Code::kFailedPrecondition);
  // It may be proposed again, and ends with the job.
  const auto again = store().jobs.ProposeJobRevision("j", std::nullopt, other,
                                                     "it drifts", 300);
  ASSERT_TRUE(again->has_value());
  EXPECT_EQ(store().jobs.GetJob("j")->job.proposed, 3);
  ASSERT_TRUE(store().jobs.FinishJob("j", 400));
  EXPECT_EQ(store().jobs.GetJob("j")->job.proposed, 0);
}

TEST_P(StoreContract, CountsTheRanksThatACallerRegistered) {
  const auto job = [](const std::string& id, const std::string& asked_by) {
    JobRecord made = TestJob(id);
    made.asked_by = asked_by;
    return made;
  };
  ASSERT_TRUE(
      store().jobs.RegisterJob(job("j", "a"), TestRanks(3), std::nullopt, 100));
  ASSERT_TRUE(
      store().jobs.RegisterJob(job("k", "a"), TestRanks(2), std::nullopt, 200));
  ASSERT_TRUE(
      store().jobs.RegisterJob(job("l", "b"), TestRanks(1), std::nullopt, 200));
  ASSERT_TRUE(store().jobs.FinishJob("k", 250));
  EXPECT_EQ(store().jobs.CountRanksOf("a", 0).value(), 5);
  EXPECT_EQ(store().jobs.CountRanksOf("a", 100).value(), 2);
  EXPECT_EQ(store().jobs.CountRanksOf("c", 0).value(), 0);
  EXPECT_EQ(store().jobs.GetJob("j")->job.asked_by, "a");
}

}  // namespace
}  // namespace ucudnn
