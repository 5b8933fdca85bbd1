// Tasks that people and plans cancel and open again.

#include <algorithm>

#include "coordinator/store/task_rows.h"

namespace ucudnn {

Result<TaskCounts> Tasks::CancelTasks(std::span<const std::int64_t> tasks,
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

Result<std::int64_t> Tasks::ReopenCancelledTasks(std::span<const TaskKey> keys,
                                                 const Asker& asker) {
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

Result<std::int64_t> Tasks::RetryFailedTasks(const std::string& kind,
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

Result<std::int64_t> Tasks::ReopenStaleTasks(
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

}  // namespace ucudnn
