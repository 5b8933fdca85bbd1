#ifndef UCUDNN_COORDINATOR_STORE_STORE_H_
#define UCUDNN_COORDINATOR_STORE_STORE_H_

// The port that keeps what the coordinator remembers (records.h): agents and
// their devices, networks, the queue of benchmark tasks, measurements, plans
// and jobs.
//
//   UCUDNN_ASSIGN_OR_RETURN(auto store, OpenStore("sqlite:///var/lib/u.db"));
//   UCUDNN_ASSIGN_OR_RETURN(auto tasks, store->LeaseTasks({...}));
//
// Durable: a write that returned OK was committed and survives the death of
// any process and of the machine. A write that failed changed nothing, except
// after kUnavailable, where the outcome may be unknown: every write may be
// repeated, and a repeat changes nothing more.
//
// Thread-safe, and safe with other processes that have the same database open.
// Calls block on the disk or the network, never on each other's callers.
//
// The store reads no clock: times are given, in milliseconds since 1970 (UTC).
//
// Errors of every call, besides those named at it: kUnavailable (the database
// cannot be reached or is locked; retry later), kResourceExhausted (the disk is
// full), kDataLoss (the file is corrupt), kInvalidArgument (a name, key or id
// is empty or longer than 512 bytes, a text is not UTF-8 or holds a NUL),
// kInternal (a fault of ours).

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "coordinator/store/records.h"

namespace ucudnn {

class Store {
 public:
  virtual ~Store() = default;

  // OK if the database answers.
  virtual Status Ping() = 0;
  // The number of the last migration.
  virtual Result<std::int64_t> SchemaVersion() = 0;

  // Registers an agent and its devices, all or nothing. The agent becomes
  // online. Devices take the state given; one that another agent had passes to
  // this one; those that this agent had and no longer names become lost. Every
  // `agent` of `devices` is taken to be `agent.id`, and every last_seen_ms and
  // registered_ms to be `now_ms`; a known agent keeps its registered_ms.
  virtual Status RegisterAgent(const AgentRecord& agent,
                               std::span<const DeviceRecord> devices,
                               UnixMillis now_ms) = 0;
  // These agents live and say how their devices are; devices that one does not
  // name, or does not have, are left as they are. A gone agent is online again.
  // Returns those that never registered, sorted: they should. Each agent once.
  virtual Result<std::vector<std::string>> Heartbeat(
      std::span<const AgentBeat> beats) = 0;
  // With kGone its devices become lost, for `reason`. kNotFound.
  virtual Status SetAgentState(const std::string& agent, AgentState state,
                               const std::string& reason) = 0;
  // Those online or draining and last seen before `seen_before_ms` become gone
  // and their devices lost; returns their ids, sorted.
  virtual Result<std::vector<std::string>> ExpireAgents(
      UnixMillis seen_before_ms) = 0;
  // By id, in bytewise order, as every list below unless it says otherwise.
  virtual Result<std::vector<AgentRecord>> ListAgents() = 0;
  virtual Result<AgentRecord> GetAgent(const std::string& id) = 0;  // kNotFound
  // All kinds if `kind` is empty.
  virtual Result<std::vector<DeviceRecord>> ListDevices(
      const std::string& kind) = 0;
  virtual Result<DeviceRecord> GetDevice(const std::string& id) = 0;
  // The kinds that registered devices have.
  virtual Result<std::vector<KindSummary>> ListKinds() = 0;

  // Adds a revision, unless the latest one has the same hash and format: then
  // nothing changes. Returns the latest revision's number. `revision` is
  // ignored.
  virtual Result<std::int64_t> PutNetwork(const NetworkRecord& network) = 0;
  // The latest revision of each, without `source`.
  virtual Result<std::vector<NetworkRecord>> ListNetworks() = 0;
  // The latest revision if none is named. kNotFound.
  virtual Result<NetworkRecord> GetNetwork(
      const std::string& name,
      std::optional<std::int64_t> revision = std::nullopt) = 0;

  // Adds the tasks whose keys are new. Of the others, the priority and the cap
  // only rise; where the cap does, one that is done or failed is pending again
  // with its attempts forgotten. All or nothing; O(tasks).
  virtual Result<EnqueueResult> EnqueueTasks(std::span<const NewTask> tasks,
                                             UnixMillis now_ms) = 0;
  // Takes up to `max_count` tasks of the kind that are pending, or whose lease
  // has expired (lease_until_ms <= now_ms), for the device: highest priority
  // first, then lowest id; in that order. No task is ever in two unexpired
  // leases. Returns none if there are none.
  virtual Result<std::vector<TaskRecord>> LeaseTasks(
      const LeaseRequest& request) = 0;
  // Extends those leases that are still held (expired ones too, while nobody
  // else took the task); returns these tasks' ids, sorted. Never shortens one.
  virtual Result<std::vector<std::int64_t>> RenewLeases(
      std::span<const LeaseRef> leases, UnixMillis until_ms) = 0;
  // Stores the points, marks the task done, and adds the cross-check unless
  // there is one of its kind, problem and batch, with the device's point as its
  // first round; in one transaction. The lease may be outdated: measurements
  // are facts. If the task's cap has been raised above the completion's, the
  // points are stored and the task is pending again (if another lease of it
  // runs, it goes on). kNotFound: there is no such task; kInvalidArgument: a
  // point is of another batch than the task, or of a larger one where the task
  // has a goal.
  virtual Result<CompletionResult> CompleteTask(
      const TaskCompletion& completion) = 0;
  // Stores the points without an end to the task, whose state stays as it is:
  // what was measured of it so far. Errors as CompleteTask.
  virtual Status AddToTask(const TaskCompletion& completion) = 0;
  // Makes the task pending again, or failed: see kMaxTaskFailures. Nothing
  // changes if the lease is not the task's running one. Returns the task's
  // state. kNotFound.
  virtual Result<TaskState> FailTask(const TaskFailure& failure) = 0;
  // Gives back all that the agent has leased, without counting the attempts;
  // returns how many.
  virtual Result<std::int64_t> ReleaseLeases(const std::string& agent) = 0;
  // Makes the failed tasks of a kind (all kinds if empty) pending again, with
  // their attempts forgotten; returns how many.
  virtual Result<std::int64_t> RetryFailedTasks(const std::string& kind) = 0;
  // Makes those of the tasks pending again that are of the kind and were done
  // under none of these drivers; returns how many.
  virtual Result<std::int64_t> ReopenStaleTasks(
      const std::string& kind, std::span<const TaskKey> keys,
      std::span<const std::string> drivers) = 0;
  // By id.
  virtual Result<std::vector<TaskRecord>> ListTasks(
      const TaskFilter& filter) = 0;
  virtual Result<TaskRecord> GetTask(std::int64_t id) = 0;  // kNotFound
  // How far the tasks with these keys are, by kind; a key that is not in the
  // queue is not counted, one that is given twice is counted once.
  virtual Result<std::map<std::string, TaskCounts>> Progress(
      std::span<const TaskKey> keys) = 0;
  // The whole queue, by kind.
  virtual Result<std::map<std::string, TaskCounts>> CountTasks() = 0;

  // All or nothing. Of two measurements of one point that with the greater
  // measured_ms stays; of equal ones, the one stored last.
  virtual Status PutMeasurements(std::span<const Measurement> measurements) = 0;
  // The same, and has the tasks that would measure these batches done, unless
  // they are already or somebody has begun with them.
  virtual Status ImportProfile(std::span<const Measurement> measurements,
                               std::span<const CompleteBatch> batches,
                               UnixMillis now_ms) = 0;
  // The kind's points of those problems that have any, or of all problems if
  // none is named; of those batches only unless `batches` is empty, and of
  // those drivers only unless `drivers` is. Points without a driver (imports)
  // count under every driver.
  virtual Result<PointsByProblem> LoadProfile(
      const std::string& kind, std::span<const std::string> problems,
      std::span<const BatchSize> batches,
      std::span<const std::string> drivers = {}) = 0;
  // The whole profile of a kind with where it comes from, by problem, batch,
  // algorithm and workspace.
  virtual Result<std::vector<Measurement>> LoadMeasurements(
      const std::string& kind) = 0;
  // What the kind's tasks have done completely, by problem and batch; of one
  // problem only, unless it is empty.
  virtual Result<std::vector<CompleteBatch>> ListCompleteBatches(
      const std::string& kind, const std::string& problem = {}) = 0;
  // By kind.
  virtual Result<std::vector<ProfileSummary>> ListProfiles() = 0;

  // Of each cross-check, device and round, keeps the latest measurement.
  // kNotFound: there is no such cross-check.
  virtual Status PutCrossCheckMeasurement(
      const CrossCheckMeasurement& measurement) = 0;
  virtual Result<KindCrossChecks> LoadCrossChecks(const std::string& kind) = 0;

  // Stores the plan unless one has its key; `id` is ignored.
  virtual Result<CreatedPlan> CreatePlan(const PlanRecord& plan) = 0;
  // Newest first; below `before_id` if it is positive.
  virtual Result<std::vector<PlanRecord>> ListPlans(
      std::int64_t limit, std::int64_t before_id = 0) = 0;
  virtual Result<PlanRecord> GetPlan(std::int64_t id) = 0;  // kNotFound
  // By key; absent if there is none.
  virtual Result<std::optional<PlanRecord>> FindPlan(
      const std::string& key) = 0;

  // Adds the job, running, with its ranks and revision 1; state, revision and
  // all times are ignored. A job that is known is only heard of. `plan` that
  // does not exist counts as none.
  virtual Status RegisterJob(const JobRecord& job,
                             std::span<const JobRankRecord> ranks,
                             std::optional<std::int64_t> plan,
                             UnixMillis now_ms) = 0;
  // The job lives, and so do the ranks of the reports; one that was lost is
  // running again. kNotFound; kInvalidArgument: a report is of a rank or a
  // revision that the job does not have.
  virtual Result<JobHeard> ReportSteps(const std::string& job,
                                       std::span<const StepReport> reports,
                                       UnixMillis now_ms) = 0;
  // A plan that the job shall adopt. If its newest revision has this plan and
  // was not rejected, nothing changes. Returns the newest revision. kNotFound:
  // the job or the plan; kFailedPrecondition: the job is finished.
  virtual Result<JobRevisionRecord> AddJobRevision(const std::string& job,
                                                   std::int64_t plan,
                                                   const std::string& reason,
                                                   UnixMillis now_ms) = 0;
  // The ranks have adopted the revision or, if `rejected` is not empty, they
  // have not. kNotFound.
  virtual Status AnswerJobRevision(const std::string& job,
                                   std::int64_t revision,
                                   const std::string& rejected,
                                   UnixMillis now_ms) = 0;
  virtual Status FinishJob(const std::string& job, UnixMillis now_ms) = 0;
  // Those running and last seen before `seen_before_ms` become lost; returns
  // their ids, sorted.
  virtual Result<std::vector<std::string>> ExpireJobs(
      UnixMillis seen_before_ms) = 0;
  // Newest first, by created_ms, then id; the first `limit` of those that come
  // after the job `after`, or of all if it is empty. kInvalidArgument: there is
  // no job `after`.
  virtual Result<std::vector<JobRecord>> ListJobs(std::int64_t limit,
                                                  const std::string& after) = 0;
  virtual Result<JobDetails> GetJob(const std::string& id) = 0;  // kNotFound
};

// Opens the database, creating or migrating its tables as needed; several
// processes may do so at once.
//
//   sqlite:///var/lib/ucudnn/coordinator.db   a file; its folder must exist
//   sqlite::memory:                           gone with the Store; for tests
//   postgresql://user@host/database           as libpq reads it
//
// kInvalidArgument: `url` is none of these; kUnimplemented: PostgreSQL in a
// build without it; kFailedPrecondition: the database was written by a newer
// version; kUnavailable, kDataLoss: it cannot be opened.
Result<std::unique_ptr<Store>> OpenStore(const std::string& url);

// Whether `url` has one of these forms; opens nothing. kInvalidArgument.
Status CheckDatabaseUrl(const std::string& url);

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_STORE_STORE_H_
