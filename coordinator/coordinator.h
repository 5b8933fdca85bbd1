#ifndef UCUDNN_COORDINATOR_COORDINATOR_H_
#define UCUDNN_COORDINATOR_COORDINATOR_H_

// What the coordinator does, over any wire: gRPC and REST decode a message,
// call one of these methods and encode what it returns, so both give the same
// answers and errors. Thread-safe. What a call acknowledges is stored, except
// heartbeats (heartbeats.h).
//
// Callers include ucudnn/v1/*.pb.h for the messages.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/service/clock.h"
#include "base/service/rate_limit.h"
#include "base/units.h"
#include "coordinator/activity.h"
#include "coordinator/background.h"
#include "coordinator/cross_checking.h"
#include "coordinator/heartbeats.h"
#include "coordinator/idle_devices.h"
#include "coordinator/limits.h"
#include "coordinator/liveness.h"
#include "coordinator/lost_ranks.h"
#include "coordinator/lru_cache.h"
#include "coordinator/plan_cache.h"
#include "coordinator/plan_uses.h"
#include "coordinator/retention.h"
#include "coordinator/single_flight.h"
#include "coordinator/store/store.h"
#include "proto/messages_fwd.h"

namespace ucudnn {

struct CoordinatorOptions {
  std::string version;
  std::string database;  // for people: sqlite or postgresql
  std::int64_t lease_ms = 30'000;
  std::int64_t heartbeat_ms = 2'000;
  // An agent that is silent for this long is gone.
  std::int64_t agent_timeout_ms = 10'000;
  // How long an idle device waits at least (kMaxPollsPerSecond).
  std::int64_t poll_after_ms = 300;
  std::int64_t report_after_ms = 2'000;  // how often ranks report their steps
  // A job that is silent for this long is lost.
  std::int64_t job_timeout_ms = 30'000;
  // The relative change of a rank's median step time that counts as drift
  // (planning/drift.h).
  double drift_tolerance = 0.10;
  // Algorithms are measured up to this workspace or a request's larger limit,
  // so that later requests with other limits need nothing new.
  Bytes measure_workspace = 1_GiB;
  // Measurements that may wait or be made at once, for all who ask together and
  // for each of them (Call::Caller). A plan of ResNet-50 for every batch up to
  // 1024 on three kinds needs some 180,000.
  std::int64_t max_queued_measurements = 1'000'000;
  std::int64_t max_queued_measurements_per_caller = 200'000;
  // Ranks of jobs that one caller may register in a day. A rank's row takes
  // some 200 bytes.
  std::int64_t max_job_ranks_per_caller = 1'000'000;
  // What ended is deleted after so long.
  KeepDays keep = {.plans = 90};
  // The search for a plan's memory plans ends with the best so far.
  std::chrono::milliseconds memory_plan_time{30'000};
};

// Where ranks of some nodes may run.
struct NodePlaces {
  std::set<std::string> hosts;
  std::set<std::string> devices;
  std::set<std::string> devices_of_others;  // of other nodes
};

class Coordinator {
 public:
  Coordinator(CoordinatorOptions options, Store& store, const Clock& clock)
      : options_(
            std::make_shared<const CoordinatorOptions>(std::move(options))),
        store_(store),
        clock_(clock),
        heartbeats_(store.agents, store.tasks),
        cross_checks_(store) {}

  // Calls that begin from now on go by these options.
  void Reconfigure(CoordinatorOptions options) {
    options_ = std::make_shared<const CoordinatorOptions>(std::move(options));
  }

  // For agents; see proto/ucudnn/v1/agent.proto.
  Result<v1::RegisterResponse> Register(const v1::RegisterRequest& request);
  Result<v1::LeaseTasksResponse> LeaseTasks(
      const v1::LeaseTasksRequest& request);
  Result<v1::ReportTaskResponse> ReportTask(
      const v1::ReportTaskRequest& request);
  Result<v1::ReportDeviceModelResponse> ReportDeviceModel(
      const v1::ReportDeviceModelRequest& request);
  Result<v1::HeartbeatResponse> Heartbeat(const v1::HeartbeatRequest& request);
  Result<v1::LeaveResponse> Leave(const v1::LeaveRequest& request);

  // For people and jobs; see proto/ucudnn/v1/coordinator.proto.
  Result<v1::ListAgentsResponse> ListAgents(const v1::ListRequest& request);
  Result<v1::Agent> GetAgent(const v1::GetRequest& request);
  Result<v1::HoldAgentResponse> HoldAgent(const v1::HoldAgentRequest& request);
  Result<v1::ListDevicesResponse> ListDevices(const v1::ListRequest& request);
  Result<v1::Device> GetDevice(const v1::GetRequest& request);
  Result<v1::Network> PutNetwork(const v1::PutNetworkRequest& request);
  Result<v1::ListNetworksResponse> ListNetworks(const v1::ListRequest& request);
  Result<v1::Network> GetNetwork(const v1::GetRequest& request);
  Result<v1::DeleteResponse> DeleteNetwork(const v1::DeleteRequest& request);
  Result<v1::ListProfilesResponse> ListProfiles(const v1::ListRequest& request);
  Result<v1::Profile> GetProfile(const v1::GetProfileRequest& request);
  Result<v1::ProblemProfile> GetProblemProfile(
      const v1::GetProblemProfileRequest& request);
  Result<v1::MeasuredDeviceModel> GetDeviceModel(const v1::GetRequest& request);
  Result<v1::ProfileSummary> PutProfile(const v1::Profile& request);
  Result<v1::MeasureProgress> Measure(const v1::MeasureRequest& request);
  Result<v1::ListCampaignsResponse> ListCampaigns(
      const v1::ListRequest& request);
  Result<v1::Campaign> GetCampaign(const v1::GetRequest& request);
  Result<v1::ListTasksResponse> ListTasks(const v1::ListRequest& request);
  Result<v1::QueuedTask> GetTask(const v1::GetRequest& request);
  Result<v1::CancelTasksResponse> CancelTasks(
      const v1::CancelTasksRequest& request);
  Result<v1::ListActionsResponse> ListActions(const v1::ListRequest& request);
  // A plan whose search was cut off answers no later request: that searches
  // again, and gets the faster of both plans.
  Result<v1::Plan> CreatePlan(const v1::PlanRequest& request);
  Result<v1::ListPlansResponse> ListPlans(const v1::ListRequest& request);
  Result<v1::Plan> GetPlan(const v1::GetRequest& request);
  // The same, serialised. Quick if the plan was read or made lately, but a plan
  // that another coordinator deletes is found for some seconds more.
  Result<PlanBytes> GetPlanBytes(const v1::GetRequest& request);
  Result<v1::DeleteResponse> DeletePlan(const v1::DeleteRequest& request);
  Result<v1::Front> GetFront(const v1::GetFrontRequest& request);
  Result<v1::ListJobsResponse> ListJobs(const v1::ListRequest& request);
  Result<v1::Job> GetJob(const v1::GetRequest& request);
  Result<v1::DeleteResponse> DeleteJob(const v1::DeleteRequest& request);
  Result<v1::DeleteResponse> DeleteAgent(const v1::DeleteRequest& request);
  Result<v1::JobRank> GetJobRank(const v1::GetJobRankRequest& request);
  Result<v1::RegisterJobResponse> RegisterJob(
      const v1::RegisterJobRequest& request);
  Result<v1::ReportStepsResponse> ReportSteps(
      const v1::ReportStepsRequest& request);
  Result<v1::AnswerRevisionResponse> AnswerRevision(
      const v1::AnswerRevisionRequest& request);
  Result<v1::FinishJobResponse> FinishJob(const v1::FinishJobRequest& request);
  Result<v1::JobRevision> ReplanJob(const v1::ReplanJobRequest& request);
  Result<v1::PruneResponse> Prune(const v1::PruneRequest& request);
  Result<v1::Allocation> Allocate(const v1::AllocateRequest& request);
  Result<v1::StatusResponse> GetStatus(const v1::StatusRequest& request);

  // Writes gathered heartbeats, expires silent agents and jobs, looks at the
  // running campaigns, and deletes some of what ended long ago. To be called
  // about twice per heartbeat interval, by one thread. Begins to look at the
  // running jobs (see Advise), which goes on after it has returned.
  Status Maintain();
  const Activity& activity() const { return activity_; }
  // Waits for what Maintain began.
  void AwaitWatch() const { watch_.Await(); }

 private:
  // The caller, with what they may have measured.
  Asker CallerAsks() const;

  // What a request's plan was made from.
  struct Planned {
    std::int64_t plan = 0;
    ChangeCounts counts;
    std::set<std::string> kinds;
    Bytes measure_workspace;
    bool cut_off = false;      // the plan's search
    std::int64_t made_ms = 0;  // when it ended, on the steady clock
  };
  // What answers a request for which there is a plan whose search was cut off.
  enum class IfCutOff { kSearchAgain, kTakeIt };

  Result<v1::Plan> PlanFor(const v1::PlanRequest& request, IfCutOff if_cut_off);
  // The plan of an equal request, if nothing that it was made from changed
  // since. To search again, a plan that was cut off is that of requests only
  // that waited for it: `asked_ms` is before it was made. In `counts`, what is
  // counted now.
  Result<std::optional<v1::Plan>> PlanAgain(const std::string& request,
                                            IfCutOff if_cut_off,
                                            std::int64_t asked_ms,
                                            ChangeCounts* counts);
  // The plan with these inputs, made anew unless it is stored. Of plans that
  // were cut off, the fastest so far.
  Result<v1::Plan> MakeOrFindPlan(const v1::PlanRequest& request,
                                  IfCutOff if_cut_off);
  // Plans as lists show them: without ranks and memory plans. Newest first;
  // some may be missing that were deleted meanwhile.
  using PlanSummary = std::shared_ptr<const v1::Plan>;
  Result<std::vector<PlanSummary>> PlanSummaries(std::int64_t limit,
                                                 std::int64_t before);

  // The request for the job's next plan, and in `change` what it changes, for
  // people; empty if nothing.
  Result<v1::PlanRequest> Replanned(const v1::ReplanJobRequest& request,
                                    std::string* change);

  // The proposed revision, which the job's ranks are now asked to adopt.
  Result<v1::JobRevision> AcceptProposed(const v1::ReplanJobRequest& request);
  Result<v1::Plan> PlanOf(std::int64_t id);

  // Has each running job with ranks on the node adopt a plan that gives those
  // no part of the batch, unless its newest plan does already.
  Result<std::vector<v1::DrainedJob>> DrainJobs(const v1::Agent& node);
  // The same for these ranks of one job.
  Result<v1::DrainedJob> DrainJob(const JobDetails& details,
                                  std::set<std::int64_t> ranks);
  // Proposes to each running job whose ranks on the node get no part of the
  // batch a plan that gives them one.
  Result<std::vector<v1::DrainedJob>> ResumeJobs(const v1::Agent& node);
  // kResourceExhausted if the caller has registered too many ranks lately.
  Status CheckQuota(const v1::RegisterJobRequest& request);
  Result<NodePlaces> PlacesOf(const std::set<std::string>& nodes);
  // Those of all draining nodes.
  Result<NodePlaces> DrainingPlaces();

  // The ranks that the revision's plan gives no part of the batch.
  Result<std::set<std::int64_t>> ExcludedBy(const JobRevisionRecord& revision);
  // Proposes the plan that ReplanJob would make. Returns no revision if the job
  // has that plan already, or a newer revision than `seen`.
  Result<std::optional<JobRevisionRecord>> Propose(
      const v1::ReplanJobRequest& replan, const std::string& reason,
      std::optional<std::int64_t> seen = std::nullopt);
  // Proposes a plan to the running job if ranks are silent or report again, or
  // if it drifts. `job` is what JobOf makes of the details.
  Result<std::optional<JobRevisionRecord>> Advise(const JobDetails& details,
                                                  const v1::Job& job,
                                                  const RankNews& news);
  // DrainJob for the job's ranks on draining nodes, or else Advise.
  Status LookAfter(const JobDetails& details, const v1::Job& job,
                   const RankNews& news,
                   const std::set<std::int64_t>& draining);
  // Writes that an agent or a job is lost, unless too many are.
  void LogLost(const char* event, const char* what, const std::string& id,
               std::int64_t silent_for_ms);
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
  // Deletes a piece of what ended long ago, about once an hour until nothing is
  // left.
  Status PruneSome();
  // Begins WatchJobs beside the caller, once a few seconds.
  void BeginWatch();

  // The job with its revisions, ranks and drift.
  Result<v1::Job> JobOf(const JobDetails& details);
  std::shared_ptr<const CoordinatorOptions> options() const { return options_; }
  // How long an idle device is to wait before it asks for work again.
  std::int64_t PollAfterMs() const;

  std::atomic<std::shared_ptr<const CoordinatorOptions>> options_;
  Store& store_;
  const Clock& clock_;
  Heartbeats heartbeats_;
  CrossChecking cross_checks_;
  std::atomic<std::int64_t> devices_ = 0;  // online, as Maintain last saw
  SingleFlight planning_;                  // by request
  Activity activity_;
  RateLimit log_limit_{20, 10'000};  // by event
  IdleAdvice idle_;
  PlanCache plans_{kMaxCachedPlanBytes};
  LruCache<std::int64_t, v1::Plan> plan_summaries_{kMaxCachedSummaryBytes};
  PlanUses plan_uses_;
  LruCache<std::string, Planned> planned_{kMaxCachedRequestBytes};
  // Used by Maintain only.
  Liveness agents_;
  Liveness jobs_;
  std::optional<RetentionPass> pass_;
  std::optional<std::int64_t> pruned_ms_;  // when the last pass began
  std::int64_t watched_ms_ = 0;            // when it last began WatchJobs
  LostRanks lost_ranks_;                   // used by WatchJobs only
  Background watch_;  // the last member, so that it ends first
};

// "by alice@host: no longer needed"
std::string ByWhomAndWhy(const std::string& who, const std::string& reason);

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_COORDINATOR_H_
