#include "coordinator/upkeep/retention_store.h"

#include <algorithm>

#include "coordinator/jobs/job_rows.h"

namespace ucudnn {
namespace {

// Of tasks that ended before $1.
constexpr char kPrunableTask[] =
    "finished_ms < $1 AND (state IN ('failed', 'cancelled') OR "
    "(state = 'done' AND driver <> '' AND EXISTS (SELECT 1 FROM devices d "
    "WHERE d.kind = tasks.kind AND d.state <> 'lost') AND NOT EXISTS "
    "(SELECT 1 FROM devices d WHERE d.kind = tasks.kind AND "
    "d.state <> 'lost' AND d.driver = tasks.driver)))";

// Of jobs last heard of before $1.
constexpr char kPrunableJob[] = "j.state <> 'running' AND j.seen_ms < $1";

Result<std::int64_t> Count(SqlTransaction& sql, const std::string& from,
                           std::initializer_list<SqlValue> parameters) {
  UCUDNN_ASSIGN_OR_RETURN(
      const auto rows, sql.Query("SELECT COUNT(*) FROM " + from, parameters));
  return rows.at(0).Int(0);
}

// Runs a statement that returns a row for each one that it deletes.
Result<std::int64_t> Delete(SqlDatabase& database, const std::string& statement,
                            std::initializer_list<SqlValue> parameters) {
  return database.Write([&](SqlTransaction& sql) -> Result<std::int64_t> {
    UCUDNN_ASSIGN_OR_RETURN(const auto rows, sql.Query(statement, parameters));
    return std::ssize(rows);
  });
}

}  // namespace

Result<PrunedTasks> RetentionStore::PruneTasks(UnixMillis before_ms,
                                               std::int64_t after_id,
                                               std::int64_t most) {
  return database_.Write([&](SqlTransaction& sql) -> Result<PrunedTasks> {
    UCUDNN_ASSIGN_OR_RETURN(
        const auto last,
        sql.Query("SELECT COALESCE(MAX(id), 0) FROM (SELECT id FROM tasks "
                  "WHERE id > $1 ORDER BY id LIMIT $2) AS piece",
                  {after_id, most}));
    PrunedTasks pruned{.deleted = 0, .last_id = last.at(0).Int(0)};
    UCUDNN_ASSIGN_OR_RETURN(
        const auto deleted,
        sql.Query(fmt::format("DELETE FROM tasks WHERE id > $2 AND "
                              "id <= $3 AND {} RETURNING id",
                              kPrunableTask),
                  {before_ms, after_id, pruned.last_id}));
    pruned.deleted = std::ssize(deleted);
    return pruned;
  });
}

Result<std::int64_t> RetentionStore::PruneSteps(UnixMillis before_ms,
                                                std::int64_t most) {
  return Delete(
      database_,
      fmt::format("DELETE FROM job_steps WHERE (job, revision, rank) IN "
                  "(SELECT s.job, s.revision, s.rank FROM jobs j "
                  "JOIN job_steps s ON s.job = j.id WHERE {} LIMIT $2) "
                  "RETURNING rank",
                  kPrunableJob),
      {before_ms, most});
}

Result<std::int64_t> RetentionStore::PruneJobs(UnixMillis before_ms,
                                               std::int64_t most) {
  return database_.Write([&](SqlTransaction& sql) -> Result<std::int64_t> {
    // A lost job that reports meanwhile waits, and is registered again.
    UCUDNN_ASSIGN_OR_RETURN(
        const auto jobs,
        sql.Query(fmt::format("SELECT j.id FROM jobs j WHERE {} "
                              "ORDER BY j.id LIMIT $2 {}",
                              kPrunableJob, sql.dialect().lock_rows),
                  {before_ms, most}));
    for (const SqlRow& job : jobs) {
      UCUDNN_RETURN_IF_ERROR(DeleteJobRows(sql, job.Text(0)));
    }
    return std::ssize(jobs);
  });
}

Result<std::int64_t> RetentionStore::PrunePlans(UnixMillis before_ms,
                                                std::int64_t most) {
  return Delete(database_,
                "DELETE FROM plans WHERE id IN (SELECT p.id FROM plans p "
                "WHERE p.used_ms < $1 AND NOT EXISTS (SELECT 1 FROM "
                "job_revisions r WHERE r.plan = p.id) ORDER BY p.id LIMIT $2) "
                "RETURNING id",
                {before_ms, most});
}

Result<PruneCounts> RetentionStore::CountPrunable(const Cutoffs& cutoffs) {
  return database_.Read([&](SqlTransaction& sql) -> Result<PruneCounts> {
    PruneCounts counts;
    const std::string of_jobs = fmt::format(" WHERE {}", kPrunableJob);
    UCUDNN_ASSIGN_OR_RETURN(
        counts.tasks, Count(sql, fmt::format("tasks WHERE {}", kPrunableTask),
                            {cutoffs.tasks_ms}));
    UCUDNN_ASSIGN_OR_RETURN(
        counts.steps,
        Count(sql, "jobs j JOIN job_steps s ON s.job = j.id" + of_jobs,
              {std::max(cutoffs.steps_ms, cutoffs.jobs_ms)}));
    UCUDNN_ASSIGN_OR_RETURN(counts.jobs,
                            Count(sql, "jobs j" + of_jobs, {cutoffs.jobs_ms}));
    UCUDNN_ASSIGN_OR_RETURN(
        counts.plans,
        Count(sql,
              fmt::format("plans p WHERE p.used_ms < $2 AND NOT EXISTS "
                          "(SELECT 1 FROM job_revisions r JOIN jobs j ON "
                          "j.id = r.job WHERE r.plan = p.id AND NOT ({}))",
                          kPrunableJob),
              {cutoffs.jobs_ms, cutoffs.plans_ms}));
    return counts;
  });
}

}  // namespace ucudnn
