#ifndef UCUDNN_COORDINATOR_JOBS_JOB_SERVICE_H_
#define UCUDNN_COORDINATOR_JOBS_JOB_SERVICE_H_

// Training jobs: what they report, the plans that they run, and what is
// proposed to them. Callers include ucudnn/v1/*.pb.h for the messages.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/plan/plan.h"
#include "base/result.h"
#include "base/units.h"
#include "coordinator/agents/agent_service.h"
#include "coordinator/agents/liveness.h"
#include "coordinator/context.h"
#include "coordinator/jobs/background.h"
#include "coordinator/jobs/idle_devices.h"
#include "coordinator/jobs/lost_ranks.h"
#include "coordinator/plans/plan_service.h"
#include "proto/messages_fwd.h"

namespace ucudnn {

// "rank 1", "ranks 1, 2"
std::string RanksText(const std::set<std::int64_t>& ranks);

// The newest revision that the ranks are asked to adopt.
const JobRevisionRecord& NewestToAdopt(const JobDetails& details);

// What a job's next plan keeps that it does not change. What awaits acceptance
// is nobody's wish yet, but another proposal takes its place.
enum class BuildOn {
  kAskedFor,     // the newest revision that the ranks are asked to adopt, or,
                 // once they rejected it, the one that they have
  kProposedToo,  // the revision that awaits acceptance, if any, or else that
};

// Where ranks of some nodes may run.
struct NodePlaces {
  std::set<std::string> hosts;
  std::set<std::string> devices;
  std::set<std::string> devices_of_others;  // of other nodes
};

// What a job's next plan changes; what is absent stays as it is.
struct PlanChange {
  std::optional<BatchSize> batch = {};
  std::optional<Bytes> workspace_limit = {};
  std::optional<Bytes> total_workspace = {};
  std::optional<BatchPolicy> policy = {};
  std::vector<Bytes> budgets = {};  // of JobMemory; empty: the same
  // All ranks that get no part of the batch, and some that get one again.
  std::set<std::int64_t> exclude = {};
  std::set<std::int64_t> include = {};

  friend bool operator==(const PlanChange&, const PlanChange&) = default;
};

// Thread-safe. What a call acknowledges is stored.
class JobService {
 public:
  JobService(Context& context, AgentService& agents, PlanService& plans)
      : context_(context),
        store_(context.store),
        clock_(context.clock),
        agents_(agents),
        plans_(plans) {}

  // See proto/ucudnn/v1/coordinator.proto.
  Result<v1::RegisterJobResponse> RegisterJob(
      const v1::RegisterJobRequest& request);
  Result<v1::ReportStepsResponse> ReportSteps(
      const v1::ReportStepsRequest& request);
  Result<v1::AnswerRevisionResponse> AnswerRevision(
      const v1::AnswerRevisionRequest& request);
  Result<v1::FinishJobResponse> FinishJob(const v1::FinishJobRequest& request);
  Result<v1::ListJobsResponse> ListJobs(const v1::ListRequest& request);
  Result<v1::Job> GetJob(const v1::GetRequest& request);
  Result<v1::JobRank> GetJobRank(const v1::GetJobRankRequest& request);
  Result<v1::DeleteResponse> DeleteJob(const v1::DeleteRequest& request);
  Result<v1::JobRevision> ReplanJob(const v1::ReplanJobRequest& request);
  // For a plan, or for a job's next one.
  Result<v1::MeasureProgress> Measure(const v1::MeasureRequest& request);
  // Moves jobs away from a node that is drained, and back. In watch.cc.
  Result<v1::HoldAgentResponse> HoldAgent(const v1::HoldAgentRequest& request);

  // kFailedPrecondition if a running job runs the network or step, which is
  // `what` its request has as `named`.
  Status CheckUnneeded(std::string_view what, const std::string& name,
                       const std::string& (v1::PlanRequest::*named)() const);
  // Marks jobs that have been silent too long as lost, and starts WatchJobs in
  // the background, where it may go on after the return. Called by one thread.
  Status Maintain();
  // Waits for what Maintain began.
  void AwaitWatch() const { watch_.Await(); }

 private:
  // The request for the job's next plan, and in `text` what it changes, for
  // people; empty if nothing.
  Result<JobRequest> Replanned(const std::string& job, const PlanChange& change,
                               BuildOn base, std::string* text);
  // Adds the revision with that plan, for the job's ranks to adopt.
  Result<JobRevisionRecord> Replan(const std::string& job,
                                   const PlanChange& change);

  // Has each running job with ranks on the node adopt a plan that gives those
  // no part of the batch, unless its newest plan does already.
  Result<std::vector<v1::DrainedJob>> DrainJobs(const std::string& node);
  // The same for these ranks of one job.
  Result<v1::DrainedJob> DrainJob(const JobDetails& details,
                                  std::set<std::int64_t> ranks);
  // Proposes to each running job whose ranks on the node get no part of the
  // batch a plan that gives them one.
  Result<std::vector<v1::DrainedJob>> ResumeJobs(const std::string& node);
  // kResourceExhausted if the caller has registered too many ranks lately.
  Status CheckQuota(const v1::RegisterJobRequest& request);
  // The plan that the job names; absent if there is none with that number and
  // the job's request. kInvalidArgument if it has other ranks.
  Result<std::optional<std::int64_t>> PlanOf(
      const v1::RegisterJobRequest& request);
  Result<NodePlaces> PlacesOf(const std::set<std::string>& nodes);
  // Those of all draining nodes.
  Result<NodePlaces> DrainingPlaces();

  // The ranks that the revision's plan gives no part of the batch.
  Result<std::set<std::int64_t>> ExcludedBy(const JobRevisionRecord& revision);
  // Proposes a plan with the change. Returns no revision if the job
  // has that plan already, or a newer revision than `seen`.
  Result<std::optional<JobRevisionRecord>> Propose(
      const std::string& job, const PlanChange& change,
      const std::string& reason,
      std::optional<std::int64_t> seen = std::nullopt);
  // Proposes a new plan to a running job if some of its ranks fell silent, if
  // silent ones report again, or if its step times drift. `job` is JobOf of
  // `details`.
  Result<std::optional<JobRevisionRecord>> Advise(const JobDetails& details,
                                                  const v1::Job& job,
                                                  const RankNews& news);
  // DrainJob for the job's ranks on draining nodes, or else Advise.
  Status LookAfter(const JobDetails& details, const v1::Job& job,
                   const RankNews& news,
                   const std::set<std::int64_t>& draining);
  // LookAfter each running job: jobs may register, and measurements for their
  // new plans complete, after a drain was asked for. It may take long, since it
  // makes plans.
  Status WatchJobs();
  struct RunningJob {
    std::string id;
    std::set<std::string> devices;
    std::int64_t plan = 0;  // that its ranks have or adopt; 0: not made here
  };
  // Looks for idle devices on the nodes of these jobs, which are all that run;
  // returns how many of them would gain by some.
  Result<std::int64_t> LookForIdle(const std::vector<RunningJob>& jobs);
  // What the job would gain with so many devices of these kinds more.
  Result<std::vector<GainByIdle>> GainsWith(
      const RunningJob& job, const std::map<std::string, std::int64_t>& idle);
  // Begins WatchJobs beside the caller, once a few seconds.
  void BeginWatch();

  // The job with its revisions, ranks and drift.
  Result<v1::Job> JobOf(const JobDetails& details);

  Context& context_;
  Store& store_;
  const Clock& clock_;
  AgentService& agents_;
  PlanService& plans_;
  IdleAdvice idle_;
  Liveness heard_;               // used by Maintain only
  std::int64_t watched_ms_ = 0;  // when Maintain last began WatchJobs
  LostRanks lost_ranks_;         // used by WatchJobs only
  Background watch_;             // the last member, so that it ends first
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_JOBS_JOB_SERVICE_H_
