// The queue of benchmark tasks.

#include <algorithm>
#include <map>

#include "coordinator/store/sql_store.h"

namespace ucudnn {
namespace {

// Each key once, with the highest cap and priority, sorted by key: one
// statement must not update a row twice, and writers that lock rows in the same
// order do not deadlock.
std::vector<NewTask> Merged(std::span<const NewTask> tasks) {
  std::map<TaskKey, NewTask> by_key;
  for (const NewTask& task : tasks) {
    const auto [it, is_new] = by_key.emplace(task.key, task);
    if (is_new) continue;
    it->second.max_workspace =
        std::max(it->second.max_workspace, task.max_workspace);
    it->second.priority = std::max(it->second.priority, task.priority);
  }
  std::vector<NewTask> merged;
  merged.reserve(by_key.size());
  for (auto& [key, task] : by_key) merged.push_back(std::move(task));
  return merged;
}

Status AddTasks(SqlTransaction& sql, std::span<const NewTask> tasks,
                UnixMillis now_ms, EnqueueResult* result) {
  SqlRows rows("($, $, $, $, $, $, 'pending', 0, 0, 0, '', '', 0, '', $, 0)");
  for (const NewTask& task : tasks) {
    rows.Add({task.key.kind, task.key.problem, task.key.batch.count(),
              task.key.goal, task.max_workspace.count(), task.priority,
              now_ms});
  }
  UCUDNN_ASSIGN_OR_RETURN(
      const auto added,
      sql.Query(
          "INSERT INTO tasks (kind, problem, batch, goal, max_workspace_bytes, "
          "priority, state, attempts, failures, lease_token, agent, "
          "device, lease_until_ms, error, created_ms, finished_ms) "
          "VALUES " +
              rows.Text() +
              " ON CONFLICT (kind, problem, batch, goal) DO NOTHING "
              "RETURNING id",
          rows.parameters()));
  result->added += static_cast<std::int64_t>(added.size());
  return {};
}

Status RaiseTasks(SqlTransaction& sql, std::span<const NewTask> tasks,
                  EnqueueResult* result) {
  SqlRows rows(
      "($, $, CAST($ AS BIGINT), $, CAST($ AS BIGINT), CAST($ AS BIGINT))");
  for (const NewTask& task : tasks) {
    rows.Add({task.key.kind, task.key.problem, task.key.batch.count(),
              task.key.goal, task.max_workspace.count(), task.priority});
  }
  const std::string asked =
      "WITH asked (kind, problem, batch, goal, cap, priority) AS (VALUES " +
      rows.Text() + ") ";
  const std::string same_key =
      "FROM asked WHERE tasks.kind = asked.kind AND "
      "tasks.problem = asked.problem AND tasks.batch = asked.batch AND "
      "tasks.goal = asked.goal AND ";
  UCUDNN_ASSIGN_OR_RETURN(
      const auto reopened,
      sql.Query(asked +
                    "UPDATE tasks SET state = 'pending', attempts = 0, "
                    "failures = 0, error = '', finished_ms = 0, "
                    "max_workspace_bytes = asked.cap " +
                    same_key +
                    "tasks.state IN ('done', 'failed') AND "
                    "tasks.max_workspace_bytes < asked.cap RETURNING tasks.id",
                rows.parameters()));
  result->reopened += static_cast<std::int64_t>(reopened.size());
  return sql.Execute(
      asked +
          "UPDATE tasks SET "
          "max_workspace_bytes = CASE WHEN tasks.max_workspace_bytes < "
          "asked.cap THEN asked.cap ELSE tasks.max_workspace_bytes END, "
          "priority = CASE WHEN tasks.priority < asked.priority "
          "THEN asked.priority ELSE tasks.priority END " +
          same_key +
          "(tasks.max_workspace_bytes < asked.cap OR "
          "tasks.priority < asked.priority)",
      rows.parameters());
}

// Adds the counts of rows (kind, state, count).
Status AddCounts(const std::vector<SqlRow>& rows,
                 std::map<std::string, TaskCounts>* counts) {
  for (const SqlRow& row : rows) {
    const auto state = ParseTaskState(row.Text(1));
    if (!state) return tl::unexpected<Error>(Unreadable(state.error()));
    TaskCounts& of_kind = (*counts)[row.Text(0)];
    switch (*state) {
      case TaskState::kPending:
        of_kind.pending += row.Int(2);
        break;
      case TaskState::kLeased:
        of_kind.leased += row.Int(2);
        break;
      case TaskState::kDone:
        of_kind.done += row.Int(2);
        break;
      case TaskState::kFailed:
        of_kind.failed += row.Int(2);
        break;
      case TaskState::kCancelled:
        of_kind.cancelled += row.Int(2);
        break;
    }
  }
  return {};
}

}  // namespace

SqlRows KeyRows(std::span<const TaskKey> keys, std::vector<SqlValue> first) {
  SqlRows rows("($, $, CAST($ AS BIGINT), $)", std::move(first));
  for (const TaskKey& key : keys) {
    rows.Add({key.kind, key.problem, key.batch.count(), key.goal});
  }
  return rows;
}

Result<TaskRecord> TaskOf(const SqlRow& row) {
  UCUDNN_ASSIGN_OR_RETURN(const TaskState state, ParseTaskState(row.Text(6)));
  return TaskRecord{.id = row.Int(0),
                    .key = {.kind = row.Text(1),
                            .problem = row.Text(2),
                            .batch = BatchSize(row.Int(3)),
                            .goal = row.Text(16)},
                    .max_workspace = Bytes(row.Int(4)),
                    .priority = row.Int(5),
                    .state = state,
                    .attempts = row.Int(7),
                    .failures = row.Int(8),
                    .lease_token = row.Int(9),
                    .agent = row.Text(10),
                    .device = row.Text(11),
                    .lease_until_ms = row.Int(12),
                    .error = row.Text(13),
                    .created_ms = row.Int(14),
                    .finished_ms = row.Int(15),
                    .driver = row.Text(17)};
}

Result<EnqueueResult> SqlStore::EnqueueTasks(std::span<const NewTask> tasks,
                                             UnixMillis now_ms) {
  for (const NewTask& task : tasks) {
    UCUDNN_RETURN_IF_ERROR(CheckKey("a task's kind", task.key.kind));
    UCUDNN_RETURN_IF_ERROR(CheckKey("a task's problem", task.key.problem));
  }
  const std::vector<NewTask> merged = Merged(tasks);
  return InTransaction(
      *database_, Access::kWrite,
      [&](SqlTransaction& sql) -> Result<EnqueueResult> {
        EnqueueResult result;
        UCUDNN_RETURN_IF_ERROR(InPieces(
            sql.dialect(), std::span<const NewTask>(merged),
            [&](auto piece) -> Status {
              const Status status = AddTasks(sql, piece, now_ms, &result);
              return status ? RaiseTasks(sql, piece, &result) : status;
            }));
        return result;
      });
}

Result<std::vector<TaskRecord>> SqlStore::ListTasks(const TaskFilter& filter) {
  UCUDNN_RETURN_IF_ERROR(CheckLimit(filter.limit));
  std::vector<SqlValue> parameters = {filter.after_id, filter.limit};
  std::string conditions = "id > $1";
  const auto add = [&](std::string_view condition, SqlValue value) {
    parameters.push_back(std::move(value));
    conditions += fmt::format(" AND {}${}", condition, parameters.size());
  };
  if (!filter.kind.empty()) add("kind = ", filter.kind);
  if (filter.state) add("state = ", std::string(Name(*filter.state)));
  if (filter.expired) {
    add(*filter.expired ? "lease_until_ms <= " : "lease_until_ms > ",
        filter.now_ms);
  }
  return InTransaction(*database_, Access::kRead, [&](SqlTransaction& sql) {
    return Records(
        sql.Query(
            fmt::format("SELECT {} FROM tasks WHERE {} ORDER BY id LIMIT $2",
                        kTaskColumns, conditions),
            parameters),
        TaskOf);
  });
}

Result<std::vector<TaskRecord>> SqlStore::FindTasks(
    std::span<const TaskKey> keys) {
  using Found = std::vector<TaskRecord>;
  return InTransaction(
      *database_, Access::kRead, [&](SqlTransaction& sql) -> Result<Found> {
        Found tasks;
        UCUDNN_RETURN_IF_ERROR(
            InPieces(sql.dialect(), keys, [&](auto piece) -> Status {
              const SqlRows rows = KeyRows(piece);
              UCUDNN_ASSIGN_OR_RETURN(
                  const Found found,
                  Records(sql.Query(fmt::format("SELECT {} FROM tasks WHERE "
                                                "(kind, problem, batch, goal) "
                                                "IN (VALUES {})",
                                                kTaskColumns, rows.Text()),
                                    rows.parameters()),
                          TaskOf));
              tasks.insert(tasks.end(), found.begin(), found.end());
              return {};
            }));
        std::ranges::sort(tasks, {}, &TaskRecord::id);
        return tasks;
      });
}

Result<TaskRecord> SqlStore::GetTask(std::int64_t id) {
  return InTransaction(*database_, Access::kRead, [&](SqlTransaction& sql) {
    return OneRecord(sql.Query(fmt::format("SELECT {} FROM tasks WHERE id = $1",
                                           kTaskColumns),
                               {id}),
                     TaskOf, fmt::format("task {}", id));
  });
}

Result<std::vector<TaskRecord>> SqlStore::ListLeases(UnixMillis now_ms) {
  return InTransaction(*database_, Access::kRead, [&](SqlTransaction& sql) {
    return Records(
        sql.Query(fmt::format("SELECT {} FROM tasks WHERE state = 'leased' AND "
                              "lease_until_ms > $1 ORDER BY device, id",
                              kTaskColumns),
                  {now_ms}),
        TaskOf);
  });
}

Result<std::map<std::string, TaskCounts>> SqlStore::CountTasks(
    UnixMillis now_ms) {
  using Counts = std::map<std::string, TaskCounts>;
  return InTransaction(
      *database_, Access::kRead, [&](SqlTransaction& sql) -> Result<Counts> {
        UCUDNN_ASSIGN_OR_RETURN(
            const auto rows,
            sql.Query("SELECT kind, state, CAST(SUM(n) AS BIGINT) FROM "
                      "task_counts GROUP BY kind, state HAVING SUM(n) <> 0"));
        Counts counts;
        UCUDNN_RETURN_IF_ERROR(AddCounts(rows, &counts));
        UCUDNN_ASSIGN_OR_RETURN(
            const auto expired,
            sql.Query("SELECT kind, COUNT(*) FROM tasks WHERE "
                      "state = 'leased' AND lease_until_ms <= $1 "
                      "GROUP BY kind",
                      {now_ms}));
        for (const SqlRow& row : expired) {
          TaskCounts& of_kind = counts[row.Text(0)];
          of_kind.leased -= row.Int(1);
          of_kind.pending += row.Int(1);
        }
        return counts;
      });
}

}  // namespace ucudnn
