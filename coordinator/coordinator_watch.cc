// Looks at running jobs now and then: those with ranks on draining nodes, those
// that lost ranks, and those that drift get new plans.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/service/call.h"
#include "base/service/log.h"
#include "coordinator/content.h"
#include "coordinator/coordinator.h"
#include "ucudnn/v1/coordinator.pb.h"

namespace ucudnn {
namespace {

constexpr std::int64_t kWatchIntervalMs = 5'000;

v1::ReplanJobRequest Without(const std::string& job,
                             const std::set<std::int64_t>& ranks) {
  v1::ReplanJobRequest replan;
  replan.set_job_id(job);
  for (const std::int64_t rank : ranks) {
    replan.add_exclude_ranks(static_cast<std::int32_t>(rank));
  }
  return replan;
}

// The newest revision that the ranks are asked to adopt.
const JobRevisionRecord& NewestToAdopt(const JobDetails& details) {
  return *std::find_if(details.revisions.rbegin(), details.revisions.rend(),
                       [](const JobRevisionRecord& revision) {
                         return revision.offered == Offered::kToAdopt;
                       });
}

// What the job's ranks measured over what its plan predicts.
void AppendRatios(const v1::Job& job, std::vector<double>* ratios) {
  for (const v1::JobRank& rank : job.ranks()) {
    for (const v1::StepTimes& steps : rank.steps()) {
      if (steps.revision() != job.revision() || steps.predicted_ns() <= 0 ||
          steps.median_ns() <= 0) {
        continue;
      }
      ratios->push_back(static_cast<double>(steps.median_ns()) /
                        static_cast<double>(steps.predicted_ns()));
    }
  }
}

}  // namespace

Result<std::set<std::int64_t>> Coordinator::ExcludedBy(
    const JobRevisionRecord& revision) {
  if (!revision.plan) return std::set<std::int64_t>();
  UCUDNN_ASSIGN_OR_RETURN(const v1::Plan plan, PlanOf(*revision.plan));
  const auto& excluded = plan.request().exclude_ranks();
  return std::set<std::int64_t>(excluded.begin(), excluded.end());
}

Result<std::vector<v1::DrainedJob>> Coordinator::DrainJobs(
    const v1::Agent& node) {
  const std::set<std::string> devices(node.device_ids().begin(),
                                      node.device_ids().end());
  std::vector<v1::DrainedJob> drained;
  UCUDNN_ASSIGN_OR_RETURN(const auto running, store_.ListJobPulses());
  for (const Pulse& pulse : running) {
    const auto details = store_.GetJob(pulse.id);
    if (!details) continue;  // deleted meanwhile
    std::set<std::int64_t> ranks;
    for (const JobRankRecord& rank : details->ranks) {
      if (devices.contains(rank.device)) ranks.insert(rank.rank);
    }
    if (ranks.empty()) continue;
    v1::DrainedJob& job = drained.emplace_back();
    job.set_job_id(pulse.id);
    for (const std::int64_t rank : ranks) {
      job.add_ranks(static_cast<std::int32_t>(rank));
    }
    const JobRevisionRecord& newest = NewestToAdopt(*details);
    UCUDNN_ASSIGN_OR_RETURN(const auto before, ExcludedBy(newest));
    if (std::ranges::includes(before, ranks)) {
      job.set_revision(newest.revision);
      continue;
    }
    ranks.insert(before.begin(), before.end());
    const auto revision = ReplanJob(Without(pulse.id, ranks));
    if (revision) {
      job.set_revision(revision->revision());
    } else {
      job.set_error(revision.error().message);
    }
  }
  return drained;
}

Status Coordinator::Propose(const v1::ReplanJobRequest& replan,
                            const std::string& reason) {
  std::string change;
  UCUDNN_ASSIGN_OR_RETURN(const v1::PlanRequest wanted,
                          Replanned(replan, &change));
  UCUDNN_ASSIGN_OR_RETURN(const v1::Plan plan, CreatePlan(wanted));
  UCUDNN_ASSIGN_OR_RETURN(const auto revision,
                          store_.ProposeJobRevision(replan.job_id(), plan.id(),
                                                    reason, clock_.NowMs()));
  if (revision) {
    ++activity_.revisions_proposed;
    spdlog::info("event=revision_proposed job={} revision={} plan={} why={}",
                 Quoted(replan.job_id()), revision->revision, plan.id(),
                 Quoted(reason));
  }
  return {};
}

Status Coordinator::Advise(const JobDetails& details, const v1::Job& job,
                           const std::set<std::int64_t>& lost) {
  const JobRevisionRecord& newest = details.revisions.back();
  const bool waits = newest.revision > details.job.revision &&
                     newest.offered != Offered::kReplaced &&
                     newest.rejected.empty();
  UCUDNN_ASSIGN_OR_RETURN(std::set<std::int64_t> excluded,
                          ExcludedBy(waits ? newest : NewestToAdopt(details)));
  if (!std::ranges::includes(excluded, lost)) {
    excluded.insert(lost.begin(), lost.end());
    if (excluded.size() == details.ranks.size()) return {};
    return Propose(
        Without(details.job.id, excluded),
        fmt::format("rank{} {} {} silent", lost.size() == 1 ? "" : "s",
                    fmt::join(lost, ", "), lost.size() == 1 ? "is" : "are"));
  }
  if (waits) return {};
  if (job.drift().empty()) return {};
  return Propose(Without(job.id(), {}), "drift: " + job.drift(0));
}

Status Coordinator::WatchJobs() {
  UCUDNN_ASSIGN_OR_RETURN(const auto agents, store_.ListAgents());
  for (const AgentRecord& agent : agents) {
    if (!agent.hold || agent.hold->what != "drain") continue;
    v1::GetRequest get;
    get.set_id(agent.id);
    UCUDNN_ASSIGN_OR_RETURN(const v1::Agent node, GetAgent(get));
    UCUDNN_RETURN_IF_ERROR(DrainJobs(node));
  }
  UCUDNN_ASSIGN_OR_RETURN(const auto ranks, store_.ListRankPulses());
  auto lost =
      lost_ranks_.Find(ranks, clock_.SteadyMs(), options()->job_timeout_ms);
  UCUDNN_ASSIGN_OR_RETURN(const auto running, store_.ListJobPulses());
  JobGauges gauges;
  std::vector<double> ratios;
  for (const Pulse& pulse : running) {
    UCUDNN_RETURN_IF_ERROR(Call::Check());
    const auto details = store_.GetJob(pulse.id);
    const Result<v1::Job> job =
        details ? JobOf(*details) : tl::unexpected<Error>(details.error());
    if (!job) continue;  // deleted meanwhile
    if (!job->drift().empty()) ++gauges.drifting;
    if (job->proposed_revision() > 0) ++gauges.proposals;
    gauges.silent_ranks += std::ssize(lost[pulse.id]);
    AppendRatios(*job, &ratios);
    // Most often, measurements are missing that are being made.
    if (const Status advised = Advise(*details, *job, lost[pulse.id]);
        !advised) {
      spdlog::debug("event=nothing_proposed job={} why={}", Quoted(pulse.id),
                    Quoted(advised.error().message));
    }
  }
  AddRatios(std::move(ratios), &gauges);
  activity_.SetJobs(gauges);
  return {};
}

void Coordinator::BeginWatch() {
  const std::int64_t now = clock_.SteadyMs();
  if (now - watched_ms_ <
      std::min(kWatchIntervalMs, options()->job_timeout_ms / 4)) {
    return;
  }
  watched_ms_ = now;
  watch_.Begin([this] {
    const Status watched = WatchJobs();
    // Cancelled when the coordinator stops.
    if (watched || watched.error().code == Code::kCancelled) return;
    if (const auto left_out =
            log_limit_.Allow("watch_failed", clock_.SteadyMs())) {
      spdlog::warn("event=watch_failed error={} left_out={}",
                   Quoted(watched.error().message), *left_out);
    }
  });
}

}  // namespace ucudnn
