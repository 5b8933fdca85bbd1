#ifndef UCUDNN_COORDINATOR_MEASURING_TASK_STORE_H_
#define UCUDNN_COORDINATOR_MEASURING_TASK_STORE_H_

// The queue of benchmark tasks and their leases. stores.h states what holds for
// every call.

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/measured_point.h"
#include "base/result.h"
#include "base/units.h"
#include "coordinator/agents/agent_store.h"
#include "coordinator/measuring/measurement_store.h"
#include "coordinator/store/group_commit.h"
#include "coordinator/store/sql_database.h"
#include "coordinator/store/unix_millis.h"

namespace ucudnn {

// What a task measures.
struct TaskKey {
  std::string kind;     // base/device_kind.h ToString(DeviceKind)
  std::string problem;  // base/conv_problem.h ToString(ConvProblem)
  BatchSize batch;
  // base/goal.h ToString(TaskGoal). Empty: every algorithm at `batch`.
  // Otherwise the points that plans for `batch` need, at any smaller batch too.
  std::string goal = {};

  friend auto operator<=>(const TaskKey&, const TaskKey&) = default;
};

// On whose behalf tasks are opened, and how many may then be open, that is,
// wait or be measured.
struct Asker {
  std::string caller = {};  // empty: nobody knows
  // Of all callers together, and those that this caller opened.
  std::int64_t max_open = std::numeric_limits<std::int64_t>::max();
  std::int64_t max_open_of_caller = std::numeric_limits<std::int64_t>::max();
};

struct OpenTasks {
  std::int64_t all = 0;
  std::int64_t of_caller = 0;
};

// kResourceExhausted, naming the coordinator's option, if the asker may not
// have `added` more tasks open.
Status CheckOpen(const Asker& asker, const OpenTasks& open, std::int64_t added);

struct NewTask {
  TaskKey key;
  Bytes max_workspace;        // the cap: algorithms that need more are skipped
  std::int64_t priority = 0;  // higher first
};

enum class TaskState { kPending, kLeased, kDone, kFailed, kCancelled };
// "pending", "leased", "done", "failed", "cancelled".
std::string_view Name(TaskState state);
Result<TaskState> ParseTaskState(std::string_view text);

struct TaskRecord {
  std::int64_t id = 0;
  TaskKey key;
  Bytes max_workspace;
  std::int64_t priority = 0;
  TaskState state = TaskState::kPending;
  std::int64_t attempts = 0;  // leases taken and not released
  std::int64_t failures = 0;  // of these, reported as failed
  // The latest lease; agent and device are empty unless state is kLeased.
  std::int64_t lease_token = 0;
  std::string agent;
  std::string device;
  UnixMillis lease_until_ms = 0;
  std::string error;  // of the last failure; why it was cancelled
  UnixMillis created_ms = 0;
  UnixMillis finished_ms = 0;  // 0 until done, failed or cancelled
  // That it was done under last; empty if that is not known.
  std::string driver;
  std::string asked_by;  // the caller who opened it last

  LeaseRef lease() const { return {id, lease_token}; }
  friend bool operator==(const TaskRecord&, const TaskRecord&) = default;
};

// A task fails for good after this many reported failures, or when this many
// leases expired without a report: it seems to kill the agents that take it.
inline constexpr std::int64_t kMaxTaskFailures = 3;
inline constexpr std::int64_t kMaxTaskAttempts = 10;

struct EnqueueResult {
  std::int64_t added = 0;
  std::int64_t reopened = 0;  // had been done or failed under a smaller cap
};

struct LeaseRequest {
  std::string kind;
  std::string agent;
  std::string device;
  std::int64_t max_count = 1;
  UnixMillis now_ms = 0;
  UnixMillis until_ms = 0;  // when the leases expire
};

struct TaskCompletion {
  LeaseRef lease;
  ReportIdentity identity = {};
  Bytes max_workspace;  // the task's cap when it was leased
  // Empty if no algorithm fits max_workspace.
  std::vector<MeasuredPoint> points;
  PointOrigin origin;
  UnixMillis now_ms = 0;
  // One of the points, for the other devices of the kind to measure too.
  std::optional<CrossCheck> cross_check = {};
};

struct CompletionResult {
  bool already = false;   // the task was done before; nothing changed
  bool reopened = false;  // the cap rose meanwhile, so the task is not done
};

struct TaskFailure {
  LeaseRef lease;
  ReportIdentity identity = {};
  std::string error;
  bool retryable = true;  // false: another attempt cannot succeed
  UnixMillis now_ms = 0;
};

struct TaskFilter {
  std::string kind;                // empty: all
  std::optional<TaskState> state;  // absent: all
  std::int64_t after_id = 0;
  std::int64_t limit = 1000;
  // Leased tasks: only those whose leases have expired (lease_until_ms <=
  // now_ms), or only those whose leases have not; absent: all.
  std::optional<bool> expired = {};
  UnixMillis now_ms = 0;
};

struct TaskCounts {
  std::int64_t pending = 0;
  std::int64_t leased = 0;
  std::int64_t done = 0;
  std::int64_t failed = 0;
  std::int64_t cancelled = 0;
  std::int64_t total() const {
    return pending + leased + done + failed + cancelled;
  }

  TaskCounts& operator+=(const TaskCounts& other) {
    pending += other.pending;
    leased += other.leased;
    done += other.done;
    failed += other.failed;
    cancelled += other.cancelled;
    return *this;
  }
  friend bool operator==(const TaskCounts&, const TaskCounts&) = default;
};

// What an agent measured of its task: all, or some of it.
struct TaskReport {
  const TaskCompletion& completion;
  bool partial;
};

// TaskStore::CompleteTask and AddToTask for the first of the reports, as many
// as suit one transaction. One that is refused does not affect the others.
std::vector<Result<CompletionResult>> StoreReports(
    SqlDatabase& database, std::span<const TaskReport* const> reports);

// Calls that open tasks (make them pending that were not there, or had ended)
// do so for an Asker. They change nothing and return the error of CheckOpen if
// too many would be open then, whatever other calls and other stores of the
// database open meanwhile.
class TaskStore {
 public:
  explicit TaskStore(SqlDatabase& database)
      : database_(database),
        reports_(
            [&database](std::span<const TaskReport* const> reports) {
              return StoreReports(database, reports);
            },
            database.dialect().writers) {}

  // Adds the tasks whose keys are new. Priority and cap of a known task can
  // only rise; if the cap of a done or failed task rises, the task is pending
  // again and its attempts start from zero; a cancelled one stays cancelled.
  // All or nothing; O(tasks).
  Result<EnqueueResult> EnqueueTasks(std::span<const NewTask> tasks,
                                     const Asker& asker, UnixMillis now_ms);
  // Leases to the device up to `max_count` tasks of the kind that are pending
  // or whose lease has expired (lease_until_ms <= now_ms), in order of priority
  // (highest first) and id. A task never has two unexpired leases.
  Result<std::vector<TaskRecord>> LeaseTasks(const LeaseRequest& request);
  // In one transaction: stores the points, marks the task done, and adds the
  // cross-check, with the device's point as its first round, unless there is
  // one of its kind, problem and batch. The lease may have expired or ended,
  // but must be the task's latest. If the task's cap has risen above the
  // completion's, the points are stored and the task is pending again.
  // kNotFound: there is no such task; kFailedPrecondition: it is another than
  // the report says, or the lease is not its latest;
  // kInvalidArgument: a point has another batch than the task or, if the task
  // has a goal, a larger one.
  Result<CompletionResult> CompleteTask(const TaskCompletion& completion);
  // Stores the points measured so far; the task's state does not change. Errors
  // of CompleteTask.
  Status AddToTask(const TaskCompletion& completion);
  // Makes the task pending again, or failed after kMaxTaskFailures or a failure
  // that is not retryable. Changes nothing if the lease has ended. Returns
  // the task's state. kNotFound; kFailedPrecondition as
  // for CompleteTask.
  Result<TaskState> FailTask(const TaskFailure& failure);
  // Makes the failed tasks of a kind (of all kinds if empty) pending again,
  // with their attempts starting from zero. Returns their number.
  Result<std::int64_t> RetryFailedTasks(const std::string& kind,
                                        const Asker& asker);
  // Makes those tasks of the kind among `keys` pending again that were done
  // under none of `drivers`. Returns their number.
  Result<std::int64_t> ReopenStaleTasks(const std::string& kind,
                                        std::span<const TaskKey> keys,
                                        std::span<const std::string> drivers,
                                        const Asker& asker);
  // Cancels those of the tasks that are pending or leased, for the reason
  // `why`. Whoever measures one may still complete it. Returns how many were
  // pending, and how many were leased until after `now_ms`.
  Result<TaskCounts> CancelTasks(std::span<const std::int64_t> tasks,
                                 const std::string& why, UnixMillis now_ms);
  // Makes the cancelled tasks with these keys pending again, with their
  // attempts starting from zero. Returns their number.
  Result<std::int64_t> ReopenCancelledTasks(std::span<const TaskKey> keys,
                                            const Asker& asker);
  Result<std::vector<TaskRecord>> ListTasks(const TaskFilter& filter);
  // The tasks with these keys.
  Result<std::vector<TaskRecord>> FindTasks(std::span<const TaskKey> keys);
  Result<TaskRecord> GetTask(std::int64_t id);  // kNotFound
  // The tasks whose leases have not expired (lease_until_ms > now_ms), by
  // device, then id.
  Result<std::vector<TaskRecord>> ListLeases(UnixMillis now_ms);
  // The states of all tasks, by kind. Tasks whose leases have expired
  // (lease_until_ms <= now_ms) count as pending.
  Result<std::map<std::string, TaskCounts>> CountTasks(UnixMillis now_ms);
  // The tasks that are pending or leased. O(the caller's).
  Result<OpenTasks> CountOpenTasks(const std::string& caller);

 private:
  SqlDatabase& database_;
  GroupCommit<TaskReport, Result<CompletionResult>> reports_;
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_MEASURING_TASK_STORE_H_
