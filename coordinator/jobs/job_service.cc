#include "coordinator/jobs/job_service.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/plan/job_plan.h"
#include "base/service/call.h"
#include "base/text.h"
#include "coordinator/actions.h"
#include "coordinator/limits.h"
#include "coordinator/page.h"
#include "coordinator/planning/drift.h"
#include "coordinator/planning/planner.h"
#include "proto/convert_plan.h"
#include "ucudnn/v1/coordinator.pb.h"

namespace ucudnn {
namespace {

v1::Job ToProto(const JobRecord& record) {
  v1::Job job;
  job.set_id(record.id);
  job.set_name(record.name);
  job.set_revision(record.revision);
  job.set_state(std::string(Name(record.state)));
  job.set_created_ms(record.created_ms);
  job.set_updated_ms(record.seen_ms);
  job.set_source(record.source);
  job.set_reason(record.reason);
  job.set_auto_replan(record.auto_replan);
  job.set_proposed_revision(record.proposed);
  return job;
}

// The kept steps of a rank, which its summary leaves out.
void AddKept(const JobStepsRecord& record, v1::JobRank* rank) {
  for (v1::StepTimes& steps : *rank->mutable_steps()) {
    if (steps.revision() != record.revision) continue;
    for (std::size_t i = 0; i < record.kept.size(); ++i) {
      const std::int64_t ns = record.kept[i].count();
      i < kFirstSteps ? steps.add_first_ns(ns) : steps.add_latest_ns(ns);
    }
  }
}

v1::JobRevision ToProto(const JobRevisionRecord& record) {
  v1::JobRevision revision;
  revision.set_revision(record.revision);
  revision.set_plan_id(record.plan.value_or(0));
  revision.set_reason(record.reason);
  revision.set_rejected(record.rejected);
  revision.set_created_ms(record.created_ms);
  revision.set_adopted_ms(record.adopted_ms);
  revision.set_predicted_ns(record.predicted.count());
  revision.set_proposed(record.offered == Offered::kProposed);
  return revision;
}

Result<v1::PlanRequest> RequestOf(const JobRecord& job) {
  v1::PlanRequest request;
  if (request.ParseFromString(job.request)) return request;
  return Fail(Code::kDataLoss, "job {} cannot be read back", job.id);
}

Result<PlanChange> ChangeOf(const v1::ReplanJobRequest& request) {
  PlanChange change;
  if (request.batch() != 0) change.batch = BatchSize(request.batch());
  if (request.has_workspace_limit_bytes()) {
    change.workspace_limit = Bytes(request.workspace_limit_bytes());
  }
  if (request.has_total_workspace_bytes()) {
    change.total_workspace = Bytes(request.total_workspace_bytes());
  }
  if (!request.batch_policy().empty()) {
    auto policy = ParseBatchPolicy(request.batch_policy());
    if (!policy) return Within("batch_policy", std::move(policy).error());
    change.policy = *policy;
  }
  for (const std::int64_t bytes : request.memory_budget_bytes()) {
    change.budgets.emplace_back(bytes);
  }
  change.exclude.insert(request.exclude_ranks().begin(),
                        request.exclude_ranks().end());
  change.include.insert(request.include_ranks().begin(),
                        request.include_ranks().end());
  return change;
}

// Changes the request; says how, for people, or nothing.
std::string Apply(const PlanChange& change, JobRequest* request) {
  std::vector<std::string> changes;
  if (change.batch) {
    request->batch = *change.batch;
    changes.push_back(fmt::format("batch {}", change.batch->count()));
  }
  if (change.workspace_limit) {
    request->workspace_limit = *change.workspace_limit;
    request->total_workspace = Bytes(0);
    request->concurrent = false;
    changes.push_back(fmt::format("{} for each kernel",
                                  FormatBytes(*change.workspace_limit)));
  }
  if (change.total_workspace) {
    request->total_workspace = *change.total_workspace;
    changes.push_back(
        fmt::format("{} in all", FormatBytes(*change.total_workspace)));
  }
  if (change.policy) {
    request->policy = *change.policy;
    changes.push_back(fmt::format("policy {}", Name(*change.policy)));
  }
  if (!change.budgets.empty() && request->memory) {
    request->memory->budgets = change.budgets;
    std::vector<std::string> sizes;
    for (const Bytes budget : change.budgets) {
      sizes.push_back(budget == Bytes(0) ? "all" : FormatBytes(budget));
    }
    changes.push_back(fmt::format("{} of memory", fmt::join(sizes, ", ")));
  }
  if (!change.exclude.empty()) {
    request->exclude_ranks.assign(change.exclude.begin(), change.exclude.end());
    changes.push_back("without " + RanksText(change.exclude));
  }
  if (!change.include.empty()) {
    std::erase_if(request->exclude_ranks, [&](std::int32_t rank) {
      return change.include.contains(rank);
    });
    changes.push_back(fmt::format("with {} again", RanksText(change.include)));
  }
  return fmt::format("{}", fmt::join(changes, ", "));
}

// kInvalidArgument unless the ranks that get a part again are among the first
// `ranks`, were `excluded` and are not excluded by the same change.
Status CheckIncluded(const PlanChange& change, std::int64_t ranks,
                     const std::set<std::int64_t>& excluded) {
  for (const std::int64_t rank : change.include) {
    if (rank < 0 || rank >= ranks) {
      return Fail(Code::kInvalidArgument,
                  "include_ranks has {}; ranks 0 to {} are accepted", rank,
                  ranks - 1);
    }
    if (change.exclude.contains(rank)) {
      return Fail(Code::kInvalidArgument,
                  "exclude_ranks and include_ranks both have {}; one of both "
                  "is accepted",
                  rank);
    }
    if (excluded.contains(rank)) continue;
    return Fail(
        Code::kInvalidArgument,
        "include_ranks has {}, which was not excluded; {}", rank,
        excluded.empty()
            ? "no rank was"
            : RanksText(excluded) +
                  (excluded.size() == 1 ? " is accepted" : " are accepted"));
  }
  return {};
}

const JobRevisionRecord& BaseOf(const JobDetails& details, BuildOn base) {
  const JobRevisionRecord& last = details.revisions.back();
  if (base == BuildOn::kProposedToo && last.offered == Offered::kProposed) {
    return last;
  }
  const JobRevisionRecord& asked = NewestToAdopt(details);
  return asked.rejected.empty()
             ? asked
             : *std::ranges::find(details.revisions, details.job.revision,
                                  &JobRevisionRecord::revision);
}

}  // namespace

const JobRevisionRecord& NewestToAdopt(const JobDetails& details) {
  return *std::find_if(details.revisions.rbegin(), details.revisions.rend(),
                       [](const JobRevisionRecord& revision) {
                         return revision.offered == Offered::kToAdopt;
                       });
}

std::string RanksText(const std::set<std::int64_t>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s",
                     fmt::join(ranks, ", "));
}

Status JobService::CheckQuota(const v1::RegisterJobRequest& request) {
  constexpr std::int64_t kDayMs = 24 * 3'600'000;
  UCUDNN_ASSIGN_OR_RETURN(
      const std::int64_t ranks,
      store_.jobs.CountRanksOf(Call::Caller(), clock_.NowMs() - kDayMs));
  const std::int64_t most = context_.options()->max_job_ranks_per_caller;
  if (ranks + request.ranks_size() <= most) return {};
  // A repeat adds nothing.
  if (store_.jobs.GetJob(request.job_id())) return {};
  return Fail(Code::kResourceExhausted,
              "this caller registered jobs of {} ranks within a day, and this "
              "one has {}; up to {} are accepted (--max-job-ranks-per-caller)",
              ranks, request.ranks_size(), most);
}

Result<std::optional<std::int64_t>> JobService::PlanOf(
    const v1::RegisterJobRequest& request) {
  if (request.plan_id() == 0) return std::nullopt;
  const Result<JobPlan> plan = plans_.OutlineOf(request.plan_id());
  if (!plan) {
    if (plan.error().code == Code::kNotFound) return std::nullopt;
    return tl::unexpected<Error>(plan.error());
  }
  if (request.has_request()) {
    auto wanted = FromProto(request.request()).and_then(Canonical);
    if (wanted && wanted->device_kinds.empty()) {
      wanted->device_kinds = plan->request.device_kinds;
    }
    if (!wanted || *wanted != plan->request) return std::nullopt;
  }
  if (std::ssize(plan->ranks) != request.ranks_size()) {
    return Fail(Code::kInvalidArgument,
                "the job has {} ranks; {} are accepted, as plan {} has",
                request.ranks_size(), plan->ranks.size(), request.plan_id());
  }
  return request.plan_id();
}

Result<v1::RegisterJobResponse> JobService::RegisterJob(
    const v1::RegisterJobRequest& request) {
  if (request.ranks_size() < 1 || request.ranks_size() > kMaxRanks) {
    return Fail(Code::kInvalidArgument,
                "the job has {} ranks; 1 to {} are accepted",
                request.ranks_size(), kMaxRanks);
  }
  if (request.revision() > kMaxCount) {
    return Fail(Code::kInvalidArgument, "revision is {}; 0 to {} is accepted",
                request.revision(), kMaxCount);
  }
  UCUDNN_RETURN_IF_ERROR(CheckQuota(request));
  JobRecord job;
  job.id = request.job_id();
  job.asked_by = Call::Caller();
  job.name = request.name();
  job.request = request.request().SerializeAsString();
  job.revision = std::max<std::int64_t>(1, request.revision());
  job.auto_replan = request.auto_replan();
  job.source = request.source();
  job.reason = request.reason();
  std::vector<JobRankRecord> ranks;
  for (int r = 0; r < request.ranks_size(); ++r) {
    const v1::JobRank& rank = request.ranks(r);
    if (rank.rank() != r) {
      return Fail(Code::kInvalidArgument,
                  "ranks[{}].rank is {}; ranks must be listed in order from 0",
                  r, rank.rank());
    }
    for (const std::string* text :
         {&rank.device_id(), &rank.device_kind(), &rank.host()}) {
      if (text->size() <= kMaxRankTextBytes) continue;
      return Fail(Code::kInvalidArgument,
                  "ranks[{}] has the text '{}', {} bytes long; up to {} are "
                  "accepted",
                  r, Excerpt(*text, 40), text->size(), kMaxRankTextBytes);
    }
    ranks.push_back({.rank = r,
                     .device = rank.device_id(),
                     .kind = rank.device_kind(),
                     .host = rank.host(),
                     .seen_ms = 0});
  }
  UCUDNN_ASSIGN_OR_RETURN(const auto plan, PlanOf(request));
  UCUDNN_RETURN_IF_ERROR(
      store_.jobs.RegisterJob(job, ranks, plan, clock_.NowMs()));
  v1::RegisterJobResponse response;
  response.set_report_after_ms(context_.options()->report_after_ms);
  return response;
}

Result<v1::ReportStepsResponse> JobService::ReportSteps(
    const v1::ReportStepsRequest& request) {
  if (request.batches_size() > kMaxBatchesPerReport) {
    return Fail(Code::kInvalidArgument,
                "batches has {} entries; up to {} are accepted",
                request.batches_size(), kMaxBatchesPerReport);
  }
  std::vector<StepReport> reports;
  int steps = 0;
  for (const v1::StepBatch& batch : request.batches()) {
    steps += batch.step_ns_size();
    if (steps > kMaxStepsPerReport) {
      return Fail(Code::kInvalidArgument,
                  "a report has {} steps or more; up to {} are accepted", steps,
                  kMaxStepsPerReport);
    }
    StepReport report{.rank = request.rank(),
                      .revision = batch.revision(),
                      .first_step = batch.first_step(),
                      .steps = {}};
    for (const std::int64_t ns : batch.step_ns()) {
      report.steps.emplace_back(ns);
    }
    reports.push_back(std::move(report));
  }
  // A report without steps still shows that the rank is alive.
  if (reports.empty()) {
    reports.push_back(
        {.rank = request.rank(), .revision = 1, .first_step = 0, .steps = {}});
  }
  UCUDNN_ASSIGN_OR_RETURN(
      const JobHeard heard,
      store_.jobs.ReportSteps(request.job_id(), reports, clock_.NowMs()));
  context_.activity.steps_reported += steps;
  v1::ReportStepsResponse response;
  response.set_state(std::string(Name(heard.state)));
  *response.mutable_newest() = ToProto(heard.newest);
  response.set_report_after_ms(context_.options()->report_after_ms);
  return response;
}

Result<v1::AnswerRevisionResponse> JobService::AnswerRevision(
    const v1::AnswerRevisionRequest& request) {
  UCUDNN_RETURN_IF_ERROR(
      store_.jobs.AnswerJobRevision(request.job_id(), request.revision(),
                                    request.rejected(), clock_.NowMs()));
  return v1::AnswerRevisionResponse();
}

Result<v1::FinishJobResponse> JobService::FinishJob(
    const v1::FinishJobRequest& request) {
  UCUDNN_RETURN_IF_ERROR(
      store_.jobs.FinishJob(request.job_id(), clock_.NowMs()));
  return v1::FinishJobResponse();
}

Result<JobRequest> JobService::Replanned(const std::string& job,
                                         const PlanChange& change, BuildOn base,
                                         std::string* text) {
  UCUDNN_ASSIGN_OR_RETURN(const JobDetails details, store_.jobs.GetJob(job));
  if (details.job.state == JobState::kFinished) {
    return Fail(Code::kFailedPrecondition, "job '{}' is finished", job);
  }
  JobRequest wanted;
  if (const auto before = BaseOf(details, base).plan) {
    UCUDNN_ASSIGN_OR_RETURN(JobPlan plan, plans_.OutlineOf(*before));
    wanted = std::move(plan.request);
  } else {
    UCUDNN_ASSIGN_OR_RETURN(const v1::PlanRequest first,
                            RequestOf(details.job));
    UCUDNN_ASSIGN_OR_RETURN(wanted, FromProto(first));
  }
  if (!change.include.empty()) {
    // Of any revision, so that a request may be repeated.
    std::set<std::int64_t> excluded(wanted.exclude_ranks.begin(),
                                    wanted.exclude_ranks.end());
    for (const JobRevisionRecord& revision : details.revisions) {
      UCUDNN_ASSIGN_OR_RETURN(const auto by_it, ExcludedBy(revision));
      excluded.insert(by_it.begin(), by_it.end());
    }
    UCUDNN_RETURN_IF_ERROR(
        CheckIncluded(change, std::ssize(details.ranks), excluded));
  }
  if (!change.budgets.empty() && !wanted.memory) {
    return Fail(Code::kInvalidArgument,
                "memory_budget_bytes: job '{}' has no memory plans", job);
  }
  if (wanted.memory && (change.workspace_limit || change.total_workspace)) {
    return Fail(Code::kInvalidArgument,
                "{}: job '{}' has memory plans, which no workspace limits; "
                "memory_budget_bytes is accepted",
                change.workspace_limit ? "workspace_limit_bytes"
                                       : "total_workspace_bytes",
                job);
  }
  *text = Apply(change, &wanted);
  return wanted;
}

Result<JobRevisionRecord> JobService::Replan(const std::string& job,
                                             const PlanChange& change) {
  std::string reason;
  UCUDNN_ASSIGN_OR_RETURN(const JobRequest wanted,
                          Replanned(job, change, BuildOn::kAskedFor, &reason));
  if (reason.empty()) reason = "the same request over the current measurements";
  UCUDNN_ASSIGN_OR_RETURN(const MadePlan plan,
                          plans_.PlanFor(wanted, IfCutOff::kSearchAgain));
  return store_.jobs.AddJobRevision(job, plan.id, reason, clock_.NowMs());
}

Result<v1::JobRevision> JobService::ReplanJob(
    const v1::ReplanJobRequest& request) {
  UCUDNN_ASSIGN_OR_RETURN(const PlanChange change, ChangeOf(request));
  if (request.accept_proposed() && change != PlanChange()) {
    return Fail(Code::kInvalidArgument,
                "accept_proposed is given with a change; one of both is "
                "accepted");
  }
  UCUDNN_ASSIGN_OR_RETURN(const JobRevisionRecord revision,
                          request.accept_proposed()
                              ? store_.jobs.AcceptJobRevision(request.job_id())
                              : Replan(request.job_id(), change));
  return ToProto(revision);
}

Result<v1::MeasureProgress> JobService::Measure(
    const v1::MeasureRequest& request) {
  JobRequest wanted;
  if (request.has_replan()) {
    const v1::ReplanJobRequest& replan = request.replan();
    UCUDNN_ASSIGN_OR_RETURN(const PlanChange change, ChangeOf(replan));
    std::string text;
    UCUDNN_ASSIGN_OR_RETURN(
        wanted, Replanned(replan.job_id(), change, BuildOn::kAskedFor, &text));
  } else {
    UCUDNN_ASSIGN_OR_RETURN(wanted, FromProto(request.plan()));
  }
  return plans_.Measure(wanted, {.dry_run = request.dry_run(),
                                 .retry_failed = request.retry_failed(),
                                 .retry_cancelled = request.retry_cancelled(),
                                 .wait_for_device = request.wait_for_device()});
}

Result<v1::ListJobsResponse> JobService::ListJobs(
    const v1::ListRequest& request) {
  v1::ListJobsResponse response;
  PageBytes bytes;
  std::string after = request.after();
  UCUDNN_RETURN_IF_ERROR(FillPage(
      request, [&](int limit) { return store_.jobs.ListJobs(limit, after); },
      [&](const JobRecord& job) -> Result<bool> {
        after = job.id;
        v1::Job& added = *response.add_jobs();
        added = ToProto(job);
        UCUDNN_ASSIGN_OR_RETURN(*added.mutable_request(), RequestOf(job));
        if (job.plan && job.revision > 1) {
          UCUDNN_ASSIGN_OR_RETURN(const JobPlan plan,
                                  plans_.OutlineOf(*job.plan));
          *added.mutable_request() = ucudnn::ToProto(plan.request);
        }
        return bytes.Fill(added);
      }));
  return response;
}

Result<v1::Job> JobService::GetJob(const v1::GetRequest& request) {
  UCUDNN_ASSIGN_OR_RETURN(const JobDetails details,
                          store_.jobs.GetJob(request.id()));
  return JobOf(details);
}

Result<v1::JobRank> JobService::GetJobRank(
    const v1::GetJobRankRequest& request) {
  UCUDNN_ASSIGN_OR_RETURN(const JobDetails details,
                          store_.jobs.GetJob(request.job_id()));
  UCUDNN_ASSIGN_OR_RETURN(v1::Job job, JobOf(details));
  if (request.rank() < 0 || request.rank() >= job.ranks_size()) {
    return Fail(Code::kNotFound, "job '{}' has ranks 0 to {}, not {}",
                request.job_id(), job.ranks_size() - 1, request.rank());
  }
  v1::JobRank& rank = *job.mutable_ranks(request.rank());
  for (const JobStepsRecord& record : details.steps) {
    if (record.rank == request.rank()) AddKept(record, &rank);
  }
  return std::move(rank);
}

Result<v1::Job> JobService::JobOf(const JobDetails& details) {
  v1::Job job = ToProto(details.job);
  UCUDNN_ASSIGN_OR_RETURN(*job.mutable_request(), RequestOf(details.job));
  // By revision and rank.
  std::map<std::pair<std::int64_t, std::int64_t>, Nanoseconds> predicted;
  // What no step is shorter than: a framework may run other tasks faster.
  std::map<std::pair<std::int64_t, std::int64_t>, Nanoseconds> least;
  std::set<std::pair<std::int64_t, std::int64_t>> without_images;
  for (const JobRevisionRecord& record : details.revisions) {
    *job.add_revisions() = ToProto(record);
    if (record.offered == Offered::kToAdopt) {
      job.set_newest_revision(record.revision);
    }
    if (record.revision == details.job.revision) {
      job.set_plan_id(record.plan.value_or(0));
    }
    if (!record.plan) continue;
    UCUDNN_ASSIGN_OR_RETURN(const JobPlan plan, plans_.OutlineOf(*record.plan));
    if (record.revision == details.job.revision) {
      *job.mutable_request() = ucudnn::ToProto(plan.request);
      job.set_whole_steps(CountsWholeSteps(plan));
    }
    for (std::size_t r = 0; r < plan.ranks.size(); ++r) {
      const std::pair place(record.revision, static_cast<std::int64_t>(r));
      const RankPlan& rank = plan.ranks[r];
      // Its steps only wait for the others'.
      if (rank.batch == BatchSize(0)) without_images.insert(place);
      predicted[place] = rank.workspace->total_time;
      if (plan.request.step.empty()) {
        least[place] = rank.workspace->total_time - rank.workspace->other_time;
      }
    }
  }
  if (details.job.state == JobState::kRunning) {
    for (const GainByIdle& idle : idle_.Of(details.job.id)) {
      v1::IdleDevices& added = *job.add_idle_devices();
      added.set_device_kind(idle.kind);
      added.set_count(idle.count);
      added.set_predicted_now_ns(idle.now.count());
      added.set_predicted_ns(idle.predicted.count());
    }
  }
  for (const JobRankRecord& record : details.ranks) {
    v1::JobRank& rank = *job.add_ranks();
    rank.set_rank(static_cast<std::int32_t>(record.rank));
    rank.set_device_id(record.device);
    rank.set_device_kind(record.kind);
    rank.set_host(record.host);
    rank.set_last_seen_ms(record.seen_ms);
  }
  for (const JobStepsRecord& record : details.steps) {
    if (record.rank >= job.ranks_size()) continue;
    const StepHistory history = HistoryOf(record.kept);
    const StepSummary& summary = history.last;
    const std::pair place(record.revision, record.rank);
    v1::StepTimes& steps =
        *job.mutable_ranks(static_cast<int>(record.rank))->add_steps();
    steps.set_revision(record.revision);
    steps.set_count(record.count);
    steps.set_samples(summary.samples);
    steps.set_last_ns(summary.last.count());
    steps.set_median_ns(summary.median.count());
    steps.set_p90_ns(summary.p90.count());
    steps.set_predicted_ns(predicted[place].count());
    steps.set_first_median_ns(
        history.first_median.value_or(Nanoseconds(0)).count());
    if (record.revision != details.job.revision ||
        without_images.contains(place)) {
      continue;
    }
    if (const auto drift = Drift(record.rank, history, least[place],
                                 context_.options()->drift_tolerance)) {
      job.add_drift(*drift);
    }
  }
  return job;
}

Result<v1::DeleteResponse> JobService::DeleteJob(
    const v1::DeleteRequest& request) {
  return Delete(request, "job " + request.id(), clock_.NowMs(),
                [&](const ActionRecord& action) {
                  return store_.jobs.DeleteJob(request.id(), action);
                });
}

Status JobService::CheckUnneeded(std::string_view what, const std::string& name,
                                 const std::string& (v1::PlanRequest::*named)()
                                     const) {
  UCUDNN_ASSIGN_OR_RETURN(const auto running, store_.jobs.ListJobPulses());
  for (const Pulse& pulse : running) {
    const auto details = store_.jobs.GetJob(pulse.id);
    if (!details) continue;  // deleted meanwhile
    UCUDNN_ASSIGN_OR_RETURN(const v1::PlanRequest request,
                            RequestOf(details->job));
    if ((request.*named)() != name) continue;
    return Fail(Code::kFailedPrecondition,
                "job '{}' runs {} '{}'; it is deleted once the job has ended",
                pulse.id, what, name);
  }
  return {};
}

Status JobService::Maintain() {
  UCUDNN_ASSIGN_OR_RETURN(const auto jobs, store_.jobs.ListJobPulses());
  if (const auto silent = heard_.Silent(jobs, clock_.SteadyMs(),
                                        context_.options()->job_timeout_ms);
      !silent.empty()) {
    UCUDNN_ASSIGN_OR_RETURN(const auto lost, store_.jobs.ExpireJobs(silent));
    context_.activity.jobs_lost += std::ssize(lost);
    for (const std::string& id : lost) {
      context_.LogLost("job_lost", "job", id,
                       context_.options()->job_timeout_ms);
    }
  }
  BeginWatch();
  return {};
}

}  // namespace ucudnn
