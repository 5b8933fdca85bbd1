// Taking leases of tasks, and failing them.

#include <sys/random.h>

#include <algorithm>

#include "coordinator/measuring/point_rows.h"
#include "coordinator/measuring/task_rows.h"

namespace ucudnn {
namespace {

// A token that nobody guesses.
std::int64_t NewToken() {
  std::uint64_t random = 0;
  UCUDNN_CHECK(getrandom(&random, sizeof(random), 0) == sizeof(random));
  return static_cast<std::int64_t>(random >> 2) + 1;
}

// The task that failed, locked until the transaction ends.
Result<TaskRecord> LockTask(SqlTransaction& sql, const LeaseRef& lease,
                            const ReportIdentity& identity) {
  const std::int64_t id = lease.task;
  UCUDNN_ASSIGN_OR_RETURN(const std::string epoch, ReadEpoch(sql));
  UCUDNN_ASSIGN_OR_RETURN(
      TaskRecord task,
      OneRecord(sql.Query(fmt::format("SELECT {} FROM tasks WHERE id = $1{}",
                                      kTaskColumns, sql.dialect().lock_rows),
                          {id}),
                TaskOf, fmt::format("task {}", id)));
  UCUDNN_RETURN_IF_ERROR(CheckIdentity(identity, epoch, task.key.kind,
                                       task.key.problem,
                                       fmt::format("task {}", id)));
  UCUDNN_RETURN_IF_ERROR(CheckLease(task, lease));
  return task;
}

// Whether there may be something to lease. Most devices ask in vain, and a
// write transaction would wait for other writers.
Result<bool> MayLease(SqlDatabase& database, const LeaseRequest& request) {
  return database.Read([&](SqlTransaction& sql) -> Result<bool> {
    UCUDNN_ASSIGN_OR_RETURN(
        const auto free,
        sql.Query("SELECT id FROM tasks WHERE kind = $1 AND "
                  "state IN ('pending', 'leased') AND "
                  "(state = 'pending' OR lease_until_ms <= $2) LIMIT 1",
                  {request.kind, request.now_ms}));
    return !free.empty();
  });
}

}  // namespace

Status CheckLease(const TaskRecord& task, const LeaseRef& lease) {
  if (task.lease() == lease && lease.token != 0) return {};
  return Fail(Code::kFailedPrecondition,
              "task {} is not leased under the report's token, or another "
              "lease followed that one",
              task.id);
}

Result<std::vector<TaskRecord>> TaskStore::LeaseTasks(
    const LeaseRequest& request) {
  UCUDNN_RETURN_IF_ERROR(CheckKey("the agent's id", request.agent));
  UCUDNN_RETURN_IF_ERROR(CheckKey("the device's id", request.device));
  UCUDNN_RETURN_IF_ERROR(CheckLimit(request.max_count));
  UCUDNN_ASSIGN_OR_RETURN(const bool may_lease, MayLease(database_, request));
  if (!may_lease) return std::vector<TaskRecord>();
  return database_.Write([&](SqlTransaction& sql)
                             -> Result<std::vector<TaskRecord>> {
    const std::string& skip_locked = database_.dialect().skip_locked;
    UCUDNN_RETURN_IF_ERROR(sql.Execute(
        fmt::format(
            "WITH deadly AS MATERIALIZED (SELECT id FROM tasks "
            "WHERE kind = $1 AND state = 'leased' AND "
            "lease_until_ms <= $2 AND attempts >= $3"
            "{}) UPDATE tasks SET state = 'failed', finished_ms = $2, "
            "error = 'given up: its leases expired without a report', {} "
            "WHERE id IN (SELECT id FROM deadly)",
            skip_locked, kNoLease),
        {request.kind, request.now_ms, kMaxTaskAttempts}));
    UCUDNN_ASSIGN_OR_RETURN(
        auto tasks,
        Records(
            sql.Query(
                fmt::format(
                    "WITH free AS MATERIALIZED (SELECT id FROM tasks "
                    "WHERE kind = $1 AND state IN ('pending', 'leased') "
                    "AND (state = 'pending' OR lease_until_ms <= $2) "
                    "ORDER BY priority DESC, id LIMIT $3{}) "
                    "UPDATE tasks SET state = 'leased', "
                    "attempts = attempts + 1, "
                    "lease_token = $7, agent = $4, "
                    "device = $5, lease_until_ms = $6 "
                    "WHERE id IN (SELECT id FROM free) RETURNING {}",
                    skip_locked, kTaskColumns),
                {request.kind, request.now_ms, request.max_count, request.agent,
                 request.device, request.until_ms, NewToken()}),
            TaskOf));
    std::ranges::sort(tasks, [](const TaskRecord& a, const TaskRecord& b) {
      return a.priority != b.priority ? a.priority > b.priority : a.id < b.id;
    });
    return tasks;
  });
}

Result<TaskState> TaskStore::FailTask(const TaskFailure& failure) {
  return database_.Write([&](SqlTransaction& sql) -> Result<TaskState> {
    UCUDNN_ASSIGN_OR_RETURN(const TaskRecord task,
                            LockTask(sql, failure.lease, failure.identity));
    if (task.state != TaskState::kLeased) return task.state;
    const bool again =
        failure.retryable && task.failures + 1 < kMaxTaskFailures;
    const TaskState state = again ? TaskState::kPending : TaskState::kFailed;
    UCUDNN_RETURN_IF_ERROR(sql.Execute(
        fmt::format("UPDATE tasks SET state = $2, failures = failures + 1, "
                    "error = $3, finished_ms = $4, {} WHERE id = $1",
                    kNoLease),
        {task.id, std::string(Name(state)), failure.error,
         again ? 0 : failure.now_ms}));
    return state;
  });
}

}  // namespace ucudnn
