// Reports of what agents measured of their tasks. Those that arrive while a
// transaction runs share the next one.

#include <algorithm>
#include <map>
#include <utility>

#include "coordinator/measuring/point_rows.h"
#include "coordinator/measuring/task_rows.h"

namespace ucudnn {
namespace {

// Other writers wait for a transaction; so many points take SQLite some 50 ms.
constexpr std::size_t kPointsAtOnce = 2'000;

using Receipts = std::vector<Result<CompletionResult>>;

// The tasks that are reported, locked until the transaction ends, by id. Those
// that do not exist are absent.
Result<std::map<std::int64_t, TaskRecord>> LockTasks(
    SqlTransaction& sql, std::span<const TaskReport* const> reports) {
  // Writers that lock rows in the same order do not deadlock.
  std::vector<std::int64_t> ids;
  for (const TaskReport* report : reports) {
    ids.push_back(report->completion.lease.task);
  }
  std::ranges::sort(ids);
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  SqlRows rows("id BIGINT");
  for (const std::int64_t id : ids) rows.Add({id});
  UCUDNN_ASSIGN_OR_RETURN(
      auto found,
      Records(sql.Query(fmt::format("SELECT {} FROM tasks WHERE id IN "
                                    "(SELECT id FROM $rows) ORDER BY id{}",
                                    kTaskColumns, sql.dialect().lock_rows),
                        rows),
              TaskOf));
  std::map<std::int64_t, TaskRecord> tasks;
  for (TaskRecord& task : found) tasks.emplace(task.id, std::move(task));
  return tasks;
}

Status CheckBatch(const TaskRecord& task, const TaskCompletion& completion) {
  for (const MeasuredPoint& point : completion.points) {
    if (point.batch == task.key.batch) continue;
    if (point.batch < task.key.batch && !task.key.goal.empty()) continue;
    return Fail(Code::kInvalidArgument,
                "task {} measures batch {}, but a point is of batch {}",
                task.id, task.key.batch.count(), point.batch.count());
  }
  return {};
}

// What the reports of one transaction change; refers to them and to their
// tasks.
struct Edits {
  std::vector<MeasuredPoints> measured;
  std::vector<const TaskCompletion*> cross_checked;
  std::vector<const TaskCompletion*> done;
  std::vector<std::int64_t> reopened;
};

// Takes in one report of the task, which reports before it may have changed. A
// report that is refused changes nothing.
Result<CompletionResult> TakeIn(const TaskReport& report,
                                const std::string& epoch, TaskRecord* task,
                                Edits* edits) {
  const TaskCompletion& completion = report.completion;
  UCUDNN_RETURN_IF_ERROR(CheckIdentity(completion.identity, epoch,
                                       task->key.kind, task->key.problem,
                                       fmt::format("task {}", task->id)));
  UCUDNN_RETURN_IF_ERROR(CheckLease(*task, completion.lease));
  UCUDNN_RETURN_IF_ERROR(CheckBatch(*task, completion));
  if (!report.partial && task->state == TaskState::kDone) {
    return CompletionResult{.already = true};
  }
  const MeasuredPoints measured{task->key.kind, task->key.problem,
                                completion.points, completion.origin};
  UCUDNN_RETURN_IF_ERROR(CheckPoints(measured));
  edits->measured.push_back(measured);
  if (report.partial) return CompletionResult{};
  if (completion.cross_check) edits->cross_checked.push_back(&completion);
  if (completion.max_workspace >= task->max_workspace) {
    edits->done.push_back(&completion);
    task->state = TaskState::kDone;
    return CompletionResult{};
  }
  if (task->state == TaskState::kLeased) {
    edits->reopened.push_back(task->id);
    task->state = TaskState::kPending;
  }
  return CompletionResult{.reopened = true};
}

Status EndTasks(SqlTransaction& sql, std::span<const TaskCompletion*> done) {
  std::ranges::sort(done, {}, [](const auto* c) { return c->lease.task; });
  SqlRows ended("task BIGINT, now_ms BIGINT, driver TEXT");
  for (const TaskCompletion* c : done) {
    ended.Add({c->lease.task, c->now_ms, c->origin.driver});
  }
  return sql.Execute(
      fmt::format("UPDATE tasks SET state = 'done', error = '', "
                  "finished_ms = rows.now_ms, driver = rows.driver, {} "
                  "FROM $rows WHERE tasks.id = rows.task",
                  kNoLease),
      ended);
}

Status Apply(SqlTransaction& sql, Edits edits) {
  UCUDNN_RETURN_IF_ERROR(StorePoints(sql, edits.measured));
  for (const TaskCompletion* completion : edits.cross_checked) {
    UCUDNN_RETURN_IF_ERROR(AddCrossCheck(sql, *completion));
  }
  UCUDNN_RETURN_IF_ERROR(EndTasks(sql, edits.done));
  for (const std::int64_t task : edits.reopened) {
    UCUDNN_RETURN_IF_ERROR(
        sql.Execute(fmt::format("UPDATE tasks SET {}, {} WHERE id = $1",
                                kOpenAgain, kNoLease),
                    {task}));
  }
  return {};
}

Result<Receipts> StoreTogether(SqlTransaction& sql,
                               std::span<const TaskReport* const> reports) {
  UCUDNN_ASSIGN_OR_RETURN(auto tasks, LockTasks(sql, reports));
  UCUDNN_ASSIGN_OR_RETURN(const std::string epoch, ReadEpoch(sql));
  Receipts receipts;
  Edits edits;
  for (const TaskReport* report : reports) {
    const std::int64_t id = report->completion.lease.task;
    const auto task = tasks.find(id);
    if (task == tasks.end()) {
      receipts.push_back(Fail(Code::kNotFound, "there is no task {}", id));
    } else {
      receipts.push_back(TakeIn(*report, epoch, &task->second, &edits));
    }
  }
  UCUDNN_RETURN_IF_ERROR(Apply(sql, std::move(edits)));
  return receipts;
}

}  // namespace

Status CheckIdentity(const ReportIdentity& identity, const std::string& epoch,
                     const std::string& kind, const std::string& problem,
                     std::string_view what) {
  if (!identity.epoch.empty() && identity.epoch != epoch) {
    return Fail(Code::kFailedPrecondition,
                "the report is of {} of another database", what);
  }
  if ((identity.kind.empty() || identity.kind == kind) &&
      (identity.problem.empty() || identity.problem == problem)) {
    return {};
  }
  return Fail(Code::kFailedPrecondition,
              "the report is of '{}' on '{}', but {} is of '{}' on '{}'",
              identity.problem, identity.kind, what, problem, kind);
}

Receipts StoreReports(SqlDatabase& database,
                      std::span<const TaskReport* const> reports) {
  std::size_t count = 0;
  for (std::size_t points = 0; count < reports.size(); ++count) {
    points += reports[count]->completion.points.size();
    if (count > 0 && points > kPointsAtOnce) break;
  }
  const auto group = reports.first(count);
  auto stored = database.Write(
      [&](SqlTransaction& sql) { return StoreTogether(sql, group); });
  if (stored) return *std::move(stored);
  if (count == 1 || stored.error().code == Code::kUnavailable) {
    return Receipts(count, tl::unexpected<Error>(stored.error()));
  }
  // The database refused one of them, and with it all.
  Receipts receipts;
  for (const TaskReport* const& report : group) {
    receipts.push_back(StoreReports(database, {&report, 1})[0]);
  }
  return receipts;
}

Result<CompletionResult> TaskStore::CompleteTask(
    const TaskCompletion& completion) {
  return reports_.Run({completion, /*partial=*/false});
}

Status TaskStore::AddToTask(const TaskCompletion& completion) {
  UCUDNN_RETURN_IF_ERROR(reports_.Run({completion, /*partial=*/true}));
  return {};
}

}  // namespace ucudnn
