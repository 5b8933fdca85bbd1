// Looks at running jobs now and then: those with ranks on draining nodes, those
// that lost ranks, and those that drift get new plans.

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/service/call.h"
#include "base/service/host.h"
#include "base/service/log.h"
#include "base/text.h"
#include "coordinator/jobs/job_service.h"
#include "ucudnn/v1/coordinator.pb.h"

namespace ucudnn {
namespace {

constexpr std::int64_t kWatchIntervalMs = 5'000;

constexpr char kCordon[] = "cordon";
constexpr char kDrain[] = "drain";

// Ranks may run on devices that their host's agent does not offer, or knows
// under other names; those that another node offers are that node's.
std::set<std::int64_t> RanksOn(const NodePlaces& nodes,
                               const JobDetails& details) {
  std::set<std::int64_t> ranks;
  for (const JobRankRecord& rank : details.ranks) {
    if (nodes.devices.contains(rank.device) ||
        (std::ranges::any_of(nodes.hosts,
                             [&](const std::string& host) {
                               return SameHost(host, rank.host);
                             }) &&
         !nodes.devices_of_others.contains(rank.device))) {
      ranks.insert(rank.rank);
    }
  }
  return ranks;
}

std::set<std::string> DevicesOf(const JobDetails& details) {
  std::set<std::string> devices;
  for (const JobRankRecord& rank : details.ranks) devices.insert(rank.device);
  return devices;
}

v1::DrainedJob DrainedJob(const JobDetails& details,
                          const std::set<std::int64_t>& ranks) {
  v1::DrainedJob job;
  job.set_job_id(details.job.id);
  for (const std::int64_t rank : ranks) {
    job.add_ranks(static_cast<std::int32_t>(rank));
  }
  return job;
}

std::set<std::int64_t> Both(const std::set<std::int64_t>& a,
                            const std::set<std::int64_t>& b) {
  std::set<std::int64_t> both;
  std::ranges::set_intersection(a, b, std::inserter(both, both.end()));
  return both;
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

Result<std::set<std::int64_t>> JobService::ExcludedBy(
    const JobRevisionRecord& revision) {
  if (!revision.plan) return std::set<std::int64_t>();
  UCUDNN_ASSIGN_OR_RETURN(const JobPlan plan, plans_.OutlineOf(*revision.plan));
  const auto& excluded = plan.request.exclude_ranks;
  return std::set<std::int64_t>(excluded.begin(), excluded.end());
}

Result<v1::DrainedJob> JobService::DrainJob(const JobDetails& details,
                                            std::set<std::int64_t> ranks) {
  v1::DrainedJob job = DrainedJob(details, ranks);
  const JobRevisionRecord& newest = NewestToAdopt(details);
  UCUDNN_ASSIGN_OR_RETURN(const auto before, ExcludedBy(newest));
  if (std::ranges::includes(before, ranks)) {
    job.set_revision(newest.revision);
    return job;
  }
  ranks.insert(before.begin(), before.end());
  const auto revision = Replan(details.job.id, {.exclude = std::move(ranks)});
  if (revision) {
    job.set_revision(revision->revision);
  } else {
    job.set_error(revision.error().message);
  }
  return job;
}

Result<NodePlaces> JobService::PlacesOf(const std::set<std::string>& nodes) {
  NodePlaces places;
  UCUDNN_ASSIGN_OR_RETURN(const auto agents, store_.agents.ListAgents());
  for (const AgentRecord& agent : agents) {
    if (nodes.contains(agent.id) && !agent.host.empty()) {
      places.hosts.insert(agent.host);
    }
  }
  UCUDNN_ASSIGN_OR_RETURN(const auto devices, store_.agents.ListDevices(""));
  for (const DeviceRecord& device : devices) {
    (nodes.contains(device.agent) ? places.devices : places.devices_of_others)
        .insert(device.id);
  }
  return places;
}

Result<std::vector<v1::DrainedJob>> JobService::DrainJobs(
    const std::string& node) {
  std::vector<v1::DrainedJob> drained;
  UCUDNN_ASSIGN_OR_RETURN(const NodePlaces places, PlacesOf({node}));
  UCUDNN_ASSIGN_OR_RETURN(const auto running, store_.jobs.ListJobPulses());
  for (const Pulse& pulse : running) {
    const auto details = store_.jobs.GetJob(pulse.id);
    if (!details) continue;  // deleted meanwhile
    const auto ranks = RanksOn(places, *details);
    if (ranks.empty()) continue;
    UCUDNN_ASSIGN_OR_RETURN(drained.emplace_back(), DrainJob(*details, ranks));
  }
  return drained;
}

Result<std::vector<v1::DrainedJob>> JobService::ResumeJobs(
    const std::string& node) {
  std::vector<v1::DrainedJob> resumed;
  UCUDNN_ASSIGN_OR_RETURN(const NodePlaces places, PlacesOf({node}));
  UCUDNN_ASSIGN_OR_RETURN(const auto running, store_.jobs.ListJobPulses());
  for (const Pulse& pulse : running) {
    const auto details = store_.jobs.GetJob(pulse.id);
    if (!details) continue;  // deleted meanwhile
    UCUDNN_ASSIGN_OR_RETURN(const auto excluded,
                            ExcludedBy(NewestToAdopt(*details)));
    const auto ranks = Both(excluded, RanksOn(places, *details));
    if (ranks.empty()) continue;
    v1::DrainedJob& job = resumed.emplace_back(DrainedJob(*details, ranks));
    const auto revision = Propose(
        pulse.id, {.include = ranks},
        fmt::format("node {} of {} is resumed", node, RanksText(ranks)));
    if (!revision) {
      job.set_error(revision.error().message);
    } else if (*revision) {
      job.set_revision((*revision)->revision);
    }
  }
  return resumed;
}

Result<v1::HoldAgentResponse> JobService::HoldAgent(
    const v1::HoldAgentRequest& request) {
  const std::string& what = request.what();
  if (what != kCordon && what != kDrain && what != "resume") {
    return Fail(Code::kInvalidArgument,
                "what is '{}'; cordon, drain and resume are accepted",
                Excerpt(what));
  }
  const UnixMillis now = clock_.NowMs();
  std::optional<HoldRecord> hold;
  if (what != "resume") {
    hold = HoldRecord{.what = what,
                      .who = request.who(),
                      .reason = request.reason(),
                      .since_ms = now,
                      .deadline_ms = request.deadline_ms()};
  }
  UCUDNN_RETURN_IF_ERROR(
      store_.agents.HoldAgent(request.agent_id(), hold,
                              {.made_ms = now,
                               .who = request.who(),
                               .what = what,
                               .object = "node " + request.agent_id(),
                               .reason = request.reason(),
                               .outcome = ""},
                              request.who().starts_with("agent ")));
  spdlog::info("event={} node={} who={} why={}", what,
               Quoted(request.agent_id()), Quoted(request.who()),
               Quoted(request.reason()));
  v1::HoldAgentResponse response;
  UCUDNN_ASSIGN_OR_RETURN(const ShownAgent shown,
                          agents_.Show(request.agent_id()));
  *response.mutable_agent() = ucudnn::ToProto(shown);
  if (what == kCordon) return response;
  UCUDNN_ASSIGN_OR_RETURN(const auto jobs, what == kDrain
                                               ? DrainJobs(shown.agent.id)
                                               : ResumeJobs(shown.agent.id));
  for (const v1::DrainedJob& job : jobs) *response.add_jobs() = job;
  return response;
}

Result<std::optional<JobRevisionRecord>> JobService::Propose(
    const std::string& job, const PlanChange& change, const std::string& reason,
    std::optional<std::int64_t> seen) {
  std::string text;
  UCUDNN_ASSIGN_OR_RETURN(const JobRequest wanted,
                          Replanned(job, change, BuildOn::kProposedToo, &text));
  // Looking at the job every few seconds is no reason to search again.
  UCUDNN_ASSIGN_OR_RETURN(const MadePlan plan,
                          plans_.PlanFor(wanted, IfCutOff::kTakeIt));
  UCUDNN_ASSIGN_OR_RETURN(
      auto revision, store_.jobs.ProposeJobRevision(job, seen, plan.id, reason,
                                                    clock_.NowMs()));
  if (revision) {
    ++context_.activity.revisions_proposed;
    spdlog::info("event=revision_proposed job={} revision={} plan={} why={}",
                 Quoted(job), revision->revision, plan.id, Quoted(reason));
  }
  return revision;
}

Result<std::optional<JobRevisionRecord>> JobService::Advise(
    const JobDetails& details, const v1::Job& job, const RankNews& news) {
  const std::string& id = details.job.id;
  const JobRevisionRecord& newest = details.revisions.back();
  const bool waits = newest.revision > details.job.revision &&
                     newest.offered != Offered::kReplaced &&
                     newest.rejected.empty();
  UCUDNN_ASSIGN_OR_RETURN(const auto excluded,
                          ExcludedBy(NewestToAdopt(details)));
  UCUDNN_ASSIGN_OR_RETURN(
      std::set<std::int64_t> without,
      waits ? ExcludedBy(newest) : Result<std::set<std::int64_t>>(excluded));
  if (!std::ranges::includes(without, news.lost)) {
    without.insert(news.lost.begin(), news.lost.end());
    if (without.size() == details.ranks.size()) return std::nullopt;
    return Propose(id, {.exclude = without},
                   fmt::format("{} {} silent", RanksText(news.lost),
                               news.lost.size() == 1 ? "is" : "are"),
                   newest.revision);
  }
  if (waits && newest.offered == Offered::kProposed) {
    std::set<std::int64_t> without_reason;
    std::ranges::set_difference(
        Both(without, news.back), excluded,
        std::inserter(without_reason, without_reason.end()));
    if (!without_reason.empty()) {
      UCUDNN_RETURN_IF_ERROR(store_.jobs.WithdrawJobRevision(
          id, newest.revision,
          fmt::format("withdrawn: {} {} again", RanksText(without_reason),
                      without_reason.size() == 1 ? "reports" : "report")));
      spdlog::info("event=revision_withdrawn job={} revision={}", Quoted(id),
                   newest.revision);
      return std::nullopt;
    }
  }
  const std::set<std::int64_t> back = Both(excluded, news.back);
  if (!back.empty()) {
    return Propose(id, {.include = back},
                   fmt::format("{} {} again", RanksText(back),
                               back.size() == 1 ? "reports" : "report"),
                   newest.revision);
  }
  for (const std::int64_t rank : news.back) lost_ranks_.Settle(id, rank);
  if (waits || job.drift().empty()) return std::nullopt;
  return Propose(id, {}, "drift: " + job.drift(0), newest.revision);
}

Result<NodePlaces> JobService::DrainingPlaces() {
  UCUDNN_ASSIGN_OR_RETURN(const auto agents, store_.agents.ListAgents());
  std::set<std::string> draining;
  for (const AgentRecord& agent : agents) {
    if (agent.hold && agent.hold->what == kDrain) draining.insert(agent.id);
  }
  if (draining.empty()) return NodePlaces();
  return PlacesOf(draining);
}

Status JobService::WatchJobs() {
  UCUDNN_ASSIGN_OR_RETURN(const NodePlaces draining, DrainingPlaces());
  UCUDNN_ASSIGN_OR_RETURN(const auto ranks, store_.jobs.ListRankPulses());
  auto news = lost_ranks_.Find(ranks, clock_.SteadyMs(),
                               context_.options()->job_timeout_ms);
  UCUDNN_ASSIGN_OR_RETURN(const auto running, store_.jobs.ListJobPulses());
  JobGauges gauges;
  std::vector<double> ratios;
  std::vector<RunningJob> jobs;
  for (const Pulse& pulse : running) {
    UCUDNN_RETURN_IF_ERROR(Call::Check());
    const auto details = store_.jobs.GetJob(pulse.id);
    const Result<v1::Job> job =
        details ? JobOf(*details) : tl::unexpected<Error>(details.error());
    if (!job) continue;  // deleted meanwhile
    const RankNews& of_job = news[pulse.id];
    if (!job->drift().empty()) ++gauges.drifting;
    if (job->proposed_revision() > 0) ++gauges.proposals;
    gauges.silent_ranks += std::ssize(of_job.lost);
    AppendRatios(*job, &ratios);
    jobs.push_back({pulse.id, DevicesOf(*details),
                    NewestToAdopt(*details).plan.value_or(0)});
    UCUDNN_RETURN_IF_ERROR(
        LookAfter(*details, *job, of_job, RanksOn(draining, *details)));
  }
  AddRatios(std::move(ratios), &gauges);
  UCUDNN_ASSIGN_OR_RETURN(gauges.with_idle_devices, LookForIdle(jobs));
  context_.activity.SetJobs(gauges);
  return {};
}

Status JobService::LookAfter(const JobDetails& details, const v1::Job& job,
                             const RankNews& news,
                             const std::set<std::int64_t>& draining) {
  if (!draining.empty()) {
    UCUDNN_ASSIGN_OR_RETURN(const v1::DrainedJob drained,
                            DrainJob(details, draining));
    // A new revision is looked at next time.
    if (drained.revision() != NewestToAdopt(details).revision) return {};
  }
  // Most often, measurements are missing that are being made.
  if (const auto advised = Advise(details, job, news); !advised) {
    spdlog::debug("event=nothing_proposed job={} why={}",
                  Quoted(details.job.id), Quoted(advised.error().message));
  }
  return {};
}

void JobService::BeginWatch() {
  const std::int64_t now = clock_.SteadyMs();
  if (now - watched_ms_ <
      std::min(kWatchIntervalMs, context_.options()->job_timeout_ms / 4)) {
    return;
  }
  watched_ms_ = now;
  watch_.Begin([this] {
    const Call::By by("coordinator");
    const Status watched = WatchJobs();
    // Cancelled when the coordinator stops.
    if (watched || watched.error().code == Code::kCancelled) return;
    if (const auto left_out =
            context_.log_limit.Allow("watch_failed", clock_.SteadyMs())) {
      spdlog::warn("event=watch_failed error={} left_out={}",
                   Quoted(watched.error().message), *left_out);
    }
  });
}

}  // namespace ucudnn
