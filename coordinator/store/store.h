#ifndef UCUDNN_COORDINATOR_STORE_STORE_H_
#define UCUDNN_COORDINATOR_STORE_STORE_H_

// What the coordinator remembers: agents and their devices, networks, the
// queue of benchmark tasks, measurements, plans and jobs.
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
#include <string_view>
#include <vector>

#include "base/clocks.h"
#include "base/profile.h"
#include "base/result.h"
#include "base/units.h"

namespace ucudnn {

using UnixMillis = std::int64_t;

// ---------------------------------------------------------------- agents

enum class AgentState {
  kOnline,    // heard of lately
  kDraining,  // finishes what it has and takes no more
  kGone,      // not heard of for too long, or ended
};
// "online", "draining", "gone".
std::string_view Name(AgentState state);
Result<AgentState> ParseAgentState(std::string_view text);

struct AgentRecord {
  std::string id;  // chosen by the agent, stable over its restarts
  std::string host;
  std::string version;
  AgentState state = AgentState::kOnline;
  UnixMillis registered_ms = 0;  // the first time; kept by later registrations
  UnixMillis last_seen_ms = 0;

  friend bool operator==(const AgentRecord&, const AgentRecord&) = default;
};

enum class DeviceState {
  kIdle,
  kBusy,       // somebody works on it; the reason says who
  kLost,       // not seen, or failed
  kDeviating,  // its measurements differ from those of its kind
};
// "idle", "busy", "lost", "deviating".
std::string_view Name(DeviceState state);
Result<DeviceState> ParseDeviceState(std::string_view text);

// A device kind: its key, device/device.h ToString(DeviceKind), and its parts.
struct KindRecord {
  std::string key;  // "NVIDIA H200/132u/139GiB/cudnn-9.19"
  std::string model;
  std::int64_t units = 0;
  Bytes memory;
  std::string library;

  friend bool operator==(const KindRecord&, const KindRecord&) = default;
};

struct DeviceRecord {
  std::string id;     // a UUID, unique in the cluster
  std::string agent;  // the id of the agent that registered it last
  KindRecord kind;
  std::string driver;
  DeviceState state = DeviceState::kIdle;
  std::string reason;  // for people; empty when idle
  UnixMillis last_seen_ms = 0;

  friend bool operator==(const DeviceRecord&, const DeviceRecord&) = default;
};

struct DeviceStatus {
  std::string id;
  DeviceState state = DeviceState::kIdle;
  std::string reason;
};

struct KindSummary {
  KindRecord kind;
  std::int64_t devices = 0;  // registered, whatever their state
  std::int64_t usable = 0;   // of these, idle or busy
};

// -------------------------------------------------------------- networks

enum class NetworkFormat { kCsv, kOnnx };
// "csv", "onnx".
std::string_view Name(NetworkFormat format);
Result<NetworkFormat> ParseNetworkFormat(std::string_view text);

// One revision of a network.
struct NetworkRecord {
  std::string name;
  std::int64_t revision = 0;  // 1, 2, ...; given by the store
  NetworkFormat format = NetworkFormat::kCsv;
  std::string source;         // the file's bytes, as uploaded
  std::string layers;         // the parsed convolutions; opaque to the store
  std::string hash;           // of the content; equal hash, equal content
  UnixMillis created_ms = 0;  // of this revision

  friend bool operator==(const NetworkRecord&, const NetworkRecord&) = default;
};

// ----------------------------------------------------------------- tasks

// What a task measures of one problem and batch on a kind.
struct TaskKey {
  std::string kind;     // KindRecord::key
  std::string problem;  // base/conv_problem.h ToString(ConvProblem)
  BatchSize batch;
  // base/goal.h ToString(TaskGoal): every algorithm of that batch, or what
  // plans for it need, of whichever smaller batch.
  std::string goal = {};

  friend auto operator<=>(const TaskKey&, const TaskKey&) = default;
};

struct NewTask {
  TaskKey key;
  Bytes max_workspace;        // algorithms that need more are not measured
  std::int64_t priority = 0;  // higher first
};

enum class TaskState { kPending, kLeased, kDone, kFailed };
// "pending", "leased", "done", "failed".
std::string_view Name(TaskState state);
Result<TaskState> ParseTaskState(std::string_view text);

// The lease of a task: its number and the number of the lease, which rises
// with every lease of that task (a fencing token).
struct LeaseRef {
  std::int64_t task = 0;
  std::int64_t token = 0;

  friend auto operator<=>(const LeaseRef&, const LeaseRef&) = default;
};

struct TaskRecord {
  std::int64_t id = 0;
  TaskKey key;
  Bytes max_workspace;
  std::int64_t priority = 0;
  TaskState state = TaskState::kPending;
  std::int64_t attempts = 0;  // leases given and not given back
  std::int64_t failures = 0;  // of these, reported as failed
  // The last lease; agent and device are empty unless state is kLeased.
  std::int64_t lease_token = 0;
  std::string agent;
  std::string device;
  UnixMillis lease_until_ms = 0;
  std::string error;  // of the last failure
  UnixMillis created_ms = 0;
  UnixMillis finished_ms = 0;  // 0 until done or failed

  LeaseRef lease() const { return {id, lease_token}; }
  friend bool operator==(const TaskRecord&, const TaskRecord&) = default;
};

// A task fails for good with this many reported failures, or when this many
// leases ended without any report: it seems to kill those who take it.
inline constexpr std::int64_t kMaxTaskFailures = 3;
inline constexpr std::int64_t kMaxTaskAttempts = 10;

struct EnqueueResult {
  std::int64_t added = 0;     // had not been in the queue
  std::int64_t reopened = 0;  // were done or failed under a smaller cap
};

struct LeaseRequest {
  std::string kind;
  std::string agent;
  std::string device;
  std::int64_t max_count = 1;
  UnixMillis now_ms = 0;
  UnixMillis until_ms = 0;  // when others may take the tasks
};

struct TaskCompletion {
  LeaseRef lease;
  Bytes max_workspace;  // the task's when leased: what the points are under
  // May be empty: no algorithm fits under max_workspace.
  std::vector<MeasuredPoint> points;
  std::string device;
  std::string driver;
  UnixMillis measured_ms = 0;
  UnixMillis now_ms = 0;
  DeviceClocks clocks = {};
};

struct CompletionResult {
  bool already = false;   // the task was done before; nothing was changed
  bool reopened = false;  // the cap has been raised meanwhile: not done yet
};

struct TaskFailure {
  LeaseRef lease;
  std::string error;
  bool retryable = true;  // false: no other try can do better
  UnixMillis now_ms = 0;
};

struct TaskFilter {
  std::string kind;                // empty: all
  std::optional<TaskState> state;  // absent: all
  std::int64_t after_id = 0;
  std::int64_t limit = 1000;
};

struct TaskCounts {
  std::int64_t pending = 0;
  std::int64_t leased = 0;
  std::int64_t done = 0;
  std::int64_t failed = 0;
  std::int64_t total() const { return pending + leased + done + failed; }

  friend bool operator==(const TaskCounts&, const TaskCounts&) = default;
};

// ---------------------------------------------------------- measurements

// One point of one kind's profile of one problem, and where it comes from.
// Unique by kind, problem, batch, algorithm and workspace.
struct Measurement {
  std::string kind;
  std::string problem;
  MeasuredPoint point;
  std::string device;  // id; may be one that was never registered (imports)
  std::string driver;  // what else it was measured under
  UnixMillis measured_ms = 0;
  DeviceClocks clocks = {};

  friend bool operator==(const Measurement&, const Measurement&) = default;
};

// Each problem's points sorted by batch, then algorithm, then workspace.
using PointsByProblem = std::map<std::string, std::vector<MeasuredPoint>>;

// All algorithms of a problem at a batch were measured; see TaskKey.
struct CompleteBatch {
  std::string kind;
  std::string problem;
  BatchSize batch;
  Bytes max_workspace;
  std::string driver;

  friend bool operator==(const CompleteBatch&, const CompleteBatch&) = default;
};

struct ProfileSummary {
  std::string kind;
  std::int64_t problems = 0;
  std::int64_t points = 0;
  UnixMillis last_measured_ms = 0;
  // How many points were measured under what.
  std::map<std::string, std::int64_t> points_by_driver;

  friend bool operator==(const ProfileSummary&,
                         const ProfileSummary&) = default;
};

// -------------------------------------------------------- plans and jobs

struct PlanRecord {
  std::int64_t id = 0;  // rises from plan to plan, with gaps; by the store
  std::int64_t revision = 1;
  std::string key;      // hash of the canonical inputs; unique
  std::string request;  // opaque to the store, as is the body
  std::string body;
  UnixMillis created_ms = 0;

  friend bool operator==(const PlanRecord&, const PlanRecord&) = default;
};

struct CreatedPlan {
  PlanRecord plan;
  bool already = false;  // a plan with this key existed; `plan` is that one
};

enum class JobState {
  kRunning,
  kFinished,  // it said so
  kLost,      // not heard of for too long
};
// "running", "finished", "lost".
std::string_view Name(JobState state);
Result<JobState> ParseJobState(std::string_view text);

struct JobRecord {
  std::string id;  // chosen by the job
  std::string name;
  JobState state = JobState::kRunning;
  std::string request;  // what it runs; opaque to the store
  std::string source;   // where its first plan came from, and why
  std::string reason;
  std::int64_t revision = 1;  // the one that its ranks have adopted
  UnixMillis created_ms = 0;
  UnixMillis seen_ms = 0;

  friend bool operator==(const JobRecord&, const JobRecord&) = default;
};

struct JobRankRecord {
  std::int64_t rank = 0;
  std::string device;
  std::string kind;
  std::string host;
  UnixMillis seen_ms = 0;

  friend bool operator==(const JobRankRecord&, const JobRankRecord&) = default;
};

// A plan that a job has, or was told to have.
struct JobRevisionRecord {
  std::int64_t revision = 1;
  std::optional<std::int64_t> plan;  // none: it was not made here
  std::string reason;                // why there is this revision
  std::string rejected;              // why its ranks do not adopt it
  UnixMillis created_ms = 0;
  UnixMillis adopted_ms = 0;  // 0: not yet

  friend bool operator==(const JobRevisionRecord&,
                         const JobRevisionRecord&) = default;
};

// The steps of one rank under one revision: how many, and how long the last of
// them took.
struct JobStepsRecord {
  std::int64_t revision = 1;
  std::int64_t rank = 0;
  std::int64_t count = 0;
  std::vector<Nanoseconds> recent;  // at most kMaxRecentSteps, oldest first

  friend bool operator==(const JobStepsRecord&,
                         const JobStepsRecord&) = default;
};
inline constexpr std::size_t kMaxRecentSteps = 128;

struct JobDetails {
  JobRecord job;
  std::vector<JobRevisionRecord> revisions;  // in order
  std::vector<JobRankRecord> ranks;          // in order
  std::vector<JobStepsRecord> steps;         // by revision, then rank
};

// Steps that a rank took, in order. `first_step` counts those it took under
// this revision before, so that a repeat of the report adds nothing.
struct StepReport {
  std::int64_t rank = 0;
  std::int64_t revision = 1;
  std::int64_t first_step = 0;
  std::vector<Nanoseconds> steps;
};

// What a job that reports is told.
struct JobHeard {
  JobState state = JobState::kRunning;
  JobRevisionRecord newest;
};

// ----------------------------------------------------------------- store

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
  // The agent lives and says how its devices are; devices it does not name, or
  // does not have, are left as they are. A gone agent is online again.
  // kNotFound if it never registered: it should.
  virtual Status Heartbeat(const std::string& agent,
                           std::span<const DeviceStatus> devices,
                           UnixMillis now_ms) = 0;
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
  // Stores the points and marks the task done, in one transaction. The lease
  // may be outdated: measurements are facts. If the task's cap has been raised
  // above the completion's, the points are stored and the task is pending again
  // (if another lease of it runs, it goes on). kNotFound: there is no such
  // task; kInvalidArgument: a point is of another batch than the task, or of a
  // larger one where the task has a goal.
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
  // those drivers only unless `drivers` is.
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
  // Newest first, by created_ms, then id.
  virtual Result<std::vector<JobRecord>> ListJobs(std::int64_t limit) = 0;
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

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_STORE_STORE_H_
