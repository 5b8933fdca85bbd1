#include "coordinator/measuring/task_store.h"

#include <algorithm>
#include <array>
#include <map>

#include "coordinator/measuring/task_rows.h"

namespace ucudnn {
namespace {

constexpr std::array<std::string_view, 5> kTaskStates = {
    "pending", "leased", "done", "failed", "cancelled"};

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

SqlRows RowsOf(std::span<const NewTask> tasks) {
  SqlRows rows(
      "kind TEXT, problem TEXT, batch BIGINT, goal TEXT, "
      "max_workspace_bytes BIGINT, priority BIGINT");
  for (const NewTask& task : tasks) {
    rows.Add({task.key.kind, task.key.problem, task.key.batch.count(),
              task.key.goal, task.max_workspace.count(), task.priority});
  }
  return rows;
}

// Adds those that are new; returns their number.
Result<std::int64_t> AddTasks(SqlTransaction& sql,
                              std::span<const NewTask> tasks,
                              const std::string& caller, UnixMillis now_ms) {
  const SqlRows rows = RowsOf(tasks);
  UCUDNN_ASSIGN_OR_RETURN(
      const auto added,
      sql.Query(
          fmt::format("INSERT INTO tasks ({0}, state, attempts, failures, "
                      "lease_token, agent, device, lease_until_ms, error, "
                      "created_ms, finished_ms, asked_by) SELECT {0}, "
                      "'pending', 0, 0, 0, '', '', 0, '', "
                      "CAST($1 AS BIGINT), 0, CAST($2 AS TEXT) FROM $rows "
                      "WHERE true ON CONFLICT (kind, problem, batch, goal) "
                      "DO NOTHING RETURNING id",
                      rows.Names()),
          rows, {now_ms, caller}));
  return std::ssize(added);
}

// Raises caps and priorities of the others; returns how many are reopened.
Result<std::int64_t> RaiseTasks(SqlTransaction& sql,
                                std::span<const NewTask> tasks,
                                const std::string& caller) {
  const SqlRows rows = RowsOf(tasks);
  UCUDNN_ASSIGN_OR_RETURN(
      const auto reopened,
      sql.Query(
          fmt::format("UPDATE tasks SET {}, asked_by = $1, "
                      "max_workspace_bytes = rows.max_workspace_bytes "
                      "FROM $rows WHERE {} AND "
                      "tasks.state IN ('done', 'failed') AND "
                      "tasks.max_workspace_bytes < rows.max_workspace_bytes "
                      "RETURNING tasks.id",
                      kOpenAgain, kTaskHasRowsKey),
          rows, {caller}));
  UCUDNN_RETURN_IF_ERROR(sql.Execute(
      fmt::format(
          "UPDATE tasks SET "
          "max_workspace_bytes = CASE WHEN tasks.max_workspace_bytes < "
          "rows.max_workspace_bytes THEN rows.max_workspace_bytes "
          "ELSE tasks.max_workspace_bytes END, "
          "priority = CASE WHEN tasks.priority < rows.priority "
          "THEN rows.priority ELSE tasks.priority END FROM $rows WHERE {} AND "
          "(tasks.max_workspace_bytes < rows.max_workspace_bytes OR "
          "tasks.priority < rows.priority)",
          kTaskHasRowsKey),
      rows));
  return std::ssize(reopened);
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

std::string_view Name(TaskState state) {
  return kTaskStates.at(static_cast<std::size_t>(state));
}
Result<TaskState> ParseTaskState(std::string_view text) {
  return ParseState<TaskState>(kTaskStates, "a task's state", text);
}

SqlRows KeyRows(std::span<const TaskKey> keys) {
  SqlRows rows("kind TEXT, problem TEXT, batch BIGINT, goal TEXT");
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
                    .driver = row.Text(17),
                    .asked_by = row.Text(18)};
}

Result<EnqueueResult> TaskStore::EnqueueTasks(std::span<const NewTask> tasks,
                                              const Asker& asker,
                                              UnixMillis now_ms) {
  for (const NewTask& task : tasks) {
    UCUDNN_RETURN_IF_ERROR(CheckKey("a task's kind", task.key.kind));
    UCUDNN_RETURN_IF_ERROR(CheckKey("a task's problem", task.key.problem));
  }
  const std::vector<NewTask> merged = Merged(tasks);
  EnqueueResult result;
  UCUDNN_RETURN_IF_ERROR(OpenInTransaction(
      database_, asker, [&](SqlTransaction& sql) -> Result<std::int64_t> {
        UCUDNN_ASSIGN_OR_RETURN(result.added,
                                AddTasks(sql, merged, asker.caller, now_ms));
        UCUDNN_ASSIGN_OR_RETURN(result.reopened,
                                RaiseTasks(sql, merged, asker.caller));
        return result.added + result.reopened;
      }));
  return result;
}

Result<std::vector<TaskRecord>> TaskStore::ListTasks(const TaskFilter& filter) {
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
  return database_.Read([&](SqlTransaction& sql) {
    return Records(
        sql.Query(
            fmt::format("SELECT {} FROM tasks WHERE {} ORDER BY id LIMIT $2",
                        kTaskColumns, conditions),
            parameters),
        TaskOf);
  });
}

Result<std::vector<TaskRecord>> TaskStore::FindTasks(
    std::span<const TaskKey> keys) {
  return database_.Read(
      [&](SqlTransaction& sql) -> Result<std::vector<TaskRecord>> {
        UCUDNN_ASSIGN_OR_RETURN(
            auto tasks,
            Records(sql.Query(fmt::format("SELECT {} FROM tasks WHERE "
                                          "(kind, problem, batch, goal) IN "
                                          "(SELECT * FROM $rows)",
                                          kTaskColumns),
                              KeyRows(keys)),
                    TaskOf));
        std::ranges::sort(tasks, {}, &TaskRecord::id);
        return tasks;
      });
}

Result<TaskRecord> TaskStore::GetTask(std::int64_t id) {
  return database_.Read([&](SqlTransaction& sql) {
    return OneRecord(sql.Query(fmt::format("SELECT {} FROM tasks WHERE id = $1",
                                           kTaskColumns),
                               {id}),
                     TaskOf, fmt::format("task {}", id));
  });
}

Result<std::vector<TaskRecord>> TaskStore::ListLeases(UnixMillis now_ms) {
  return database_.Read([&](SqlTransaction& sql) {
    return Records(
        sql.Query(fmt::format("SELECT {} FROM tasks WHERE state = 'leased' AND "
                              "lease_until_ms > $1 ORDER BY device, id",
                              kTaskColumns),
                  {now_ms}),
        TaskOf);
  });
}

Result<std::map<std::string, TaskCounts>> TaskStore::CountTasks(
    UnixMillis now_ms) {
  using Counts = std::map<std::string, TaskCounts>;
  return database_.Read([&](SqlTransaction& sql) -> Result<Counts> {
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
