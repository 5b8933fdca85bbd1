#ifndef UCUDNN_COORDINATOR_STORE_RECORDS_H_
#define UCUDNN_COORDINATOR_STORE_RECORDS_H_

// What the coordinator remembers, as plain values: agents and their devices,
// networks, benchmark tasks, measurements, plans and jobs. The port that keeps
// them is store.h.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/device_kind.h"
#include "base/measured_point.h"
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
  kBusy,  // somebody works on it; the reason says who
  kLost,  // not seen, or failed
};
// "idle", "busy", "lost".
std::string_view Name(DeviceState state);
Result<DeviceState> ParseDeviceState(std::string_view text);

struct DeviceRecord {
  std::string id;     // a UUID, unique in the cluster
  std::string agent;  // the id of the agent that registered it last
  DeviceKind kind;
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

  friend bool operator==(const DeviceStatus&, const DeviceStatus&) = default;
};

// An agent that lives, and how its devices are.
struct AgentBeat {
  std::string agent;
  std::vector<DeviceStatus> devices;
  UnixMillis seen_ms = 0;
};

struct KindSummary {
  DeviceKind kind;
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
  std::string kind;     // base/device_kind.h ToString(DeviceKind)
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

// A point that several devices of a kind measure, so that they can be compared.
// Unique by kind, problem and batch.
struct CrossCheck {
  std::int64_t id = 0;  // given by the store
  std::string kind;
  std::string problem;
  BatchSize batch;
  Algorithm algorithm = {};
  Bytes workspace = {};

  friend bool operator==(const CrossCheck&, const CrossCheck&) = default;
};

struct TaskCompletion {
  LeaseRef lease;
  Bytes max_workspace;  // the task's when leased: what the points are under
  // May be empty: no algorithm fits under max_workspace.
  std::vector<MeasuredPoint> points;
  PointOrigin origin;
  UnixMillis now_ms = 0;
  // One of the points, for other devices of the kind to measure too.
  std::optional<CrossCheck> cross_check = {};
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
  PointOrigin origin;

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

// ---------------------------------------------------------- cross-checks

// What one device measured of a CrossCheck in one of its rounds.
struct CrossCheckMeasurement {
  std::int64_t check = 0;  // CrossCheck::id
  std::string device;
  std::int64_t round = 1;
  std::string driver;   // what else it was measured under
  Nanoseconds time{0};  // 0: the device could not measure it
  Nanoseconds spread{0};
  std::string throttle = {};
  UnixMillis measured_ms = 0;

  friend bool operator==(const CrossCheckMeasurement&,
                         const CrossCheckMeasurement&) = default;
};

struct KindCrossChecks {
  std::vector<CrossCheck> points;                   // by id
  std::vector<CrossCheckMeasurement> measurements;  // by check, device, round
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

// The steps of one rank under one revision: how many, and how long the first
// and the last of them took.
struct JobStepsRecord {
  std::int64_t revision = 1;
  std::int64_t rank = 0;
  std::int64_t count = 0;
  // At most kMaxKeptSteps, in order: the first kFirstSteps, then the last.
  std::vector<Nanoseconds> kept;

  friend bool operator==(const JobStepsRecord&,
                         const JobStepsRecord&) = default;
};
inline constexpr std::size_t kFirstSteps = 16;
inline constexpr std::size_t kMaxKeptSteps = 128;

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

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_STORE_RECORDS_H_
