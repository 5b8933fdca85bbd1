#ifndef UCUDNN_COORDINATOR_MEASURING_TASK_ROWS_H_
#define UCUDNN_COORDINATOR_MEASURING_TASK_ROWS_H_

// What the parts of Tasks share, within transactions.

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "coordinator/measuring/task_store.h"
#include "coordinator/store/records.h"

namespace ucudnn {

// The columns that TaskOf reads, in its order.
inline constexpr std::string_view kTaskColumns =
    "id, kind, problem, batch, max_workspace_bytes, priority, state, attempts, "
    "failures, lease_token, agent, device, lease_until_ms, error, created_ms, "
    "finished_ms, goal, driver, asked_by";
Result<TaskRecord> TaskOf(const SqlRow& row);

// What makes a task pending again, with its attempts starting from zero.
inline constexpr std::string_view kOpenAgain =
    "state = 'pending', attempts = 0, failures = 0, error = '', "
    "finished_ms = 0";
// Runs `open`, which opens tasks for the asker and returns their number, in a
// transaction. Adds the error of CheckOpen.
Result<std::int64_t> OpenInTransaction(
    SqlDatabase& database, const Asker& asker,
    const std::function<Result<std::int64_t>(SqlTransaction&)>& open);

// The keys as rows (kind, problem, batch, goal).
SqlRows KeyRows(std::span<const TaskKey> keys);
// Whether a task has the key that a row has.
inline constexpr char kTaskHasRowsKey[] =
    "tasks.kind = rows.kind AND tasks.problem = rows.problem AND "
    "tasks.batch = rows.batch AND tasks.goal = rows.goal";

// kFailedPrecondition if the lease is not the task's latest.
Status CheckLease(const TaskRecord& task, const LeaseRef& lease);

// Ends a task's lease. The token stays, so that repeated reports are known.
inline constexpr char kNoLease[] =
    "agent = '', device = '', lease_until_ms = 0";

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_MEASURING_TASK_ROWS_H_
