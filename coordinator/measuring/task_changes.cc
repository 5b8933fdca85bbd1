// Tasks that people and plans cancel and open again, and how many each caller
// may have open.

#include <algorithm>

#include "coordinator/measuring/task_rows.h"

namespace ucudnn {

Result<TaskCounts> TaskStore::CancelTasks(std::span<const std::int64_t> tasks,
                                          const std::string& why,
                                          UnixMillis now_ms) {
  // Writers that lock rows in the same order do not deadlock.
  std::vector<std::int64_t> sorted(tasks.begin(), tasks.end());
  std::ranges::sort(sorted);
  SqlRows rows("id BIGINT");
  for (const std::int64_t id : sorted) rows.Add({id});
  return database_.Write([&](SqlTransaction& sql) -> Result<TaskCounts> {
    TaskCounts cancelled;
    for (const bool running : {false, true}) {
      UCUDNN_ASSIGN_OR_RETURN(
          const auto found,
          sql.Query(
              fmt::format("UPDATE tasks SET state = 'cancelled', error = $1, "
                          "finished_ms = $2, agent = '', device = '', "
                          "lease_until_ms = 0 FROM $rows "
                          "WHERE tasks.id = rows.id AND {} RETURNING tasks.id",
                          running ? "state = 'leased' AND lease_until_ms > $2"
                                  : "(state = 'pending' OR (state = 'leased' "
                                    "AND lease_until_ms <= $2))"),
              rows, {why, now_ms}));
      (running ? cancelled.leased : cancelled.pending) += std::ssize(found);
    }
    return cancelled;
  });
}

Result<std::int64_t> TaskStore::ReopenCancelledTasks(
    std::span<const TaskKey> keys, const Asker& asker) {
  std::vector<TaskKey> sorted(keys.begin(), keys.end());
  std::ranges::sort(sorted);
  return OpenInTransaction(
      database_, asker, [&](SqlTransaction& sql) -> Result<std::int64_t> {
        UCUDNN_ASSIGN_OR_RETURN(
            const auto found,
            sql.Query(
                fmt::format("UPDATE tasks SET {}, asked_by = $1 FROM $rows "
                            "WHERE tasks.state = 'cancelled' AND {} "
                            "RETURNING tasks.id",
                            kOpenAgain, kTaskHasRowsKey),
                KeyRows(sorted), {asker.caller}));
        return std::ssize(found);
      });
}

Result<std::int64_t> TaskStore::RetryFailedTasks(const std::string& kind,
                                                 const Asker& asker) {
  return OpenInTransaction(
      database_, asker, [&](SqlTransaction& sql) -> Result<std::int64_t> {
        UCUDNN_ASSIGN_OR_RETURN(
            const auto rows,
            sql.Query(
                fmt::format("UPDATE tasks SET {}, asked_by = $2 "
                            "WHERE state = 'failed' AND ($1 = '' OR kind = $1) "
                            "RETURNING id",
                            kOpenAgain),
                {kind, asker.caller}));
        return static_cast<std::int64_t>(rows.size());
      });
}

Result<std::int64_t> TaskStore::ReopenStaleTasks(
    const std::string& kind, std::span<const TaskKey> keys,
    std::span<const std::string> drivers, const Asker& asker) {
  std::vector<TaskKey> distinct;
  for (const TaskKey& key : keys) {
    if (key.kind == kind) distinct.push_back(key);
  }
  std::ranges::sort(distinct);
  return OpenInTransaction(
      database_, asker, [&](SqlTransaction& sql) -> Result<std::int64_t> {
        std::vector<SqlValue> parameters = {asker.caller};
        const std::string known = AddTexts(drivers, &parameters);
        // Tasks done under schema 1 have no driver and are kept.
        UCUDNN_ASSIGN_OR_RETURN(
            const auto found,
            sql.Query(
                fmt::format("UPDATE tasks SET {}, asked_by = $1 FROM $rows "
                            "WHERE tasks.state = 'done' AND "
                            "tasks.driver <> '' AND tasks.driver NOT IN ({}) "
                            "AND {} RETURNING tasks.id",
                            kOpenAgain, known, kTaskHasRowsKey),
                KeyRows(distinct), parameters));
        return std::ssize(found);
      });
}

namespace {

Result<std::int64_t> CountAll(SqlTransaction& sql) {
  UCUDNN_ASSIGN_OR_RETURN(
      const auto rows,
      sql.Query("SELECT CAST(COALESCE(SUM(n), 0) AS BIGINT) FROM task_counts "
                "WHERE state IN ('pending', 'leased')"));
  return rows.at(0).Int(0);
}

Result<std::int64_t> CountOfCaller(SqlTransaction& sql,
                                   const std::string& caller) {
  UCUDNN_ASSIGN_OR_RETURN(const auto rows,
                          sql.Query("SELECT COUNT(*) FROM tasks WHERE "
                                    "asked_by = $1 AND "
                                    "state IN ('pending', 'leased')",
                                    {caller}));
  return rows.at(0).Int(0);
}

}  // namespace

Status CheckOpen(const Asker& asker, const OpenTasks& open,
                 std::int64_t added) {
  if (added > asker.max_open_of_caller - open.of_caller) {
    return Fail(Code::kResourceExhausted,
                "{} measurements would be requested, and {} that {} requested "
                "are queued already; up to {} may be queued at once for one "
                "caller (max-queued-measurements-per-caller of the "
                "coordinator)",
                added, open.of_caller,
                asker.caller.empty() ? "callers without a name" : asker.caller,
                asker.max_open_of_caller);
  }
  if (added > asker.max_open - open.all) {
    return Fail(Code::kResourceExhausted,
                "{} measurements would be requested and {} are queued already; "
                "up to {} may be queued at once (max-queued-measurements of "
                "the coordinator)",
                added, open.all, asker.max_open);
  }
  return {};
}

Result<std::int64_t> OpenInTransaction(
    SqlDatabase& database, const Asker& asker,
    const std::function<Result<std::int64_t>(SqlTransaction&)>& open) {
  return database.Write([&](SqlTransaction& sql) -> Result<std::int64_t> {
    const std::string& lock = sql.dialect().lock_queue;
    if (!lock.empty()) UCUDNN_RETURN_IF_ERROR(sql.Execute(lock));
    UCUDNN_ASSIGN_OR_RETURN(const std::int64_t opened, open(sql));
    if (opened == 0) return 0;
    OpenTasks others;
    UCUDNN_ASSIGN_OR_RETURN(const std::int64_t all, CountAll(sql));
    others.all = all - opened;
    // Counting the caller's takes longer, and they are no more than all.
    if (all > std::min(asker.max_open, asker.max_open_of_caller)) {
      UCUDNN_ASSIGN_OR_RETURN(others.of_caller,
                              CountOfCaller(sql, asker.caller));
      others.of_caller -= opened;
    }
    UCUDNN_RETURN_IF_ERROR(CheckOpen(asker, others, opened));
    return opened;
  });
}

Result<OpenTasks> TaskStore::CountOpenTasks(const std::string& caller) {
  return database_.Read([&](SqlTransaction& sql) -> Result<OpenTasks> {
    OpenTasks open;
    UCUDNN_ASSIGN_OR_RETURN(open.all, CountAll(sql));
    UCUDNN_ASSIGN_OR_RETURN(open.of_caller, CountOfCaller(sql, caller));
    return open;
  });
}

}  // namespace ucudnn
