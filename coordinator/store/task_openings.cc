// How many tasks are open, and how many of them each caller may have.

#include <algorithm>

#include "coordinator/store/task_rows.h"

namespace ucudnn {
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

Result<OpenTasks> Tasks::CountOpenTasks(const std::string& caller) {
  return database_.Read([&](SqlTransaction& sql) -> Result<OpenTasks> {
    OpenTasks open;
    UCUDNN_ASSIGN_OR_RETURN(open.all, CountAll(sql));
    UCUDNN_ASSIGN_OR_RETURN(open.of_caller, CountOfCaller(sql, caller));
    return open;
  });
}

}  // namespace ucudnn
