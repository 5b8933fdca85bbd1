// Tasks that people and plans cancel and open again.

#include <algorithm>

#include "coordinator/store/sql_store.h"

namespace ucudnn {

Result<TaskCounts> SqlStore::CancelTasks(std::span<const std::int64_t> tasks,
                                         const std::string& why,
                                         UnixMillis now_ms) {
  // Writers that lock rows in the same order do not deadlock.
  std::vector<std::int64_t> sorted(tasks.begin(), tasks.end());
  std::ranges::sort(sorted);
  return InTransaction(
      *database_, Access::kWrite,
      [&](SqlTransaction& sql) -> Result<TaskCounts> {
        TaskCounts cancelled;
        for (const bool running : {false, true}) {
          UCUDNN_RETURN_IF_ERROR(InPieces(
              sql.dialect(), std::span<const std::int64_t>(sorted),
              [&](auto piece) -> Status {
                SqlRows ids("CAST($ AS BIGINT)", {why, now_ms});
                for (const std::int64_t id : piece) ids.Add({id});
                UCUDNN_ASSIGN_OR_RETURN(
                    const auto found,
                    sql.Query(
                        fmt::format(
                            "UPDATE tasks SET state = 'cancelled', error = $1, "
                            "finished_ms = $2, agent = '', device = '', "
                            "lease_until_ms = 0 WHERE {} AND id IN ({}) "
                            "RETURNING id",
                            running ? "state = 'leased' AND lease_until_ms > $2"
                                    : "(state = 'pending' OR (state = 'leased' "
                                      "AND lease_until_ms <= $2))",
                            ids.Text()),
                        ids.parameters()));
                (running ? cancelled.leased : cancelled.pending) +=
                    std::ssize(found);
                return {};
              }));
        }
        return cancelled;
      });
}

Result<std::int64_t> SqlStore::ReopenCancelledTasks(
    std::span<const TaskKey> keys) {
  std::vector<TaskKey> sorted(keys.begin(), keys.end());
  std::ranges::sort(sorted);
  return InTransaction(
      *database_, Access::kWrite,
      [&](SqlTransaction& sql) -> Result<std::int64_t> {
        std::int64_t reopened = 0;
        UCUDNN_RETURN_IF_ERROR(InPieces(
            sql.dialect(), std::span<const TaskKey>(sorted),
            [&](auto piece) -> Status {
              const SqlRows rows = KeyRows(piece);
              UCUDNN_ASSIGN_OR_RETURN(
                  const auto found,
                  sql.Query("UPDATE tasks SET state = 'pending', "
                            "attempts = 0, failures = 0, error = '', "
                            "finished_ms = 0 WHERE "
                            "state = 'cancelled' AND "
                            "(kind, problem, batch, goal) IN (VALUES " +
                                rows.Text() + ") RETURNING id",
                            rows.parameters()));
              reopened += std::ssize(found);
              return {};
            }));
        return reopened;
      });
}

Result<std::int64_t> SqlStore::RetryFailedTasks(const std::string& kind) {
  return InTransaction(
      *database_, Access::kWrite,
      [&](SqlTransaction& sql) -> Result<std::int64_t> {
        UCUDNN_ASSIGN_OR_RETURN(
            const auto rows,
            sql.Query("UPDATE tasks SET state = 'pending', attempts = 0, "
                      "failures = 0, error = '', finished_ms = 0 "
                      "WHERE state = 'failed' AND ($1 = '' OR kind = $1) "
                      "RETURNING id",
                      {kind}));
        return static_cast<std::int64_t>(rows.size());
      });
}

Result<std::int64_t> SqlStore::ReopenStaleTasks(
    const std::string& kind, std::span<const TaskKey> keys,
    std::span<const std::string> drivers) {
  std::vector<TaskKey> distinct;
  for (const TaskKey& key : keys) {
    if (key.kind == kind) distinct.push_back(key);
  }
  std::ranges::sort(distinct);
  return InTransaction(
      *database_, Access::kWrite,
      [&](SqlTransaction& sql) -> Result<std::int64_t> {
        std::int64_t reopened = 0;
        UCUDNN_RETURN_IF_ERROR(InPieces(
            sql.dialect(), std::span<const TaskKey>(distinct),
            [&](auto piece) -> Status {
              SqlRows rows("($, CAST($ AS BIGINT), $)", {kind});
              for (const TaskKey& key : piece) {
                rows.Add({key.problem, key.batch.count(), key.goal});
              }
              const auto asked = rows.parameters();
              std::vector<SqlValue> parameters(asked.begin(), asked.end());
              std::string known;
              for (const std::string& driver : drivers) {
                parameters.emplace_back(driver);
                known += fmt::format("{}${}", known.empty() ? "" : ", ",
                                     parameters.size());
              }
              // Tasks done under schema 1 have no driver and are kept.
              UCUDNN_ASSIGN_OR_RETURN(
                  const auto found,
                  sql.Query("WITH asked (problem, batch, goal) AS (VALUES " +
                                rows.Text() +
                                ") UPDATE tasks SET state = 'pending', "
                                "attempts = 0, failures = 0, error = '', "
                                "finished_ms = 0 FROM asked "
                                "WHERE tasks.kind = $1 AND "
                                "tasks.problem = asked.problem AND "
                                "tasks.batch = asked.batch AND "
                                "tasks.goal = asked.goal AND "
                                "tasks.state = 'done' AND "
                                "tasks.driver <> '' AND "
                                "tasks.driver NOT IN (" +
                                known + ") RETURNING tasks.id",
                            parameters));
              reopened += static_cast<std::int64_t>(found.size());
              return {};
            }));
        return reopened;
      });
}

}  // namespace ucudnn
