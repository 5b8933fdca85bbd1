// Plans and jobs.

#include "coordinator/store/sql_store.h"

namespace ucudnn {
namespace {

constexpr char kPlanColumns[] = "id, revision, key, request, body, created_ms";
constexpr char kJobColumns[] =
    "id, name, plan, revision, state, body, created_ms, updated_ms";

Result<PlanRecord> PlanOf(const SqlRow& row) {
  return PlanRecord{.id = row.Int(0),
                    .revision = row.Int(1),
                    .key = row.Text(2),
                    .request = row.Text(3),
                    .body = row.Text(4),
                    .created_ms = row.Int(5)};
}

Result<JobRecord> JobOf(const SqlRow& row) {
  return JobRecord{
      .id = row.Text(0),
      .name = row.Text(1),
      .plan = row.IsNull(2) ? std::nullopt : std::optional(row.Int(2)),
      .revision = row.Int(3),
      .state = row.Text(4),
      .body = row.Text(5),
      .created_ms = row.Int(6),
      .updated_ms = row.Int(7)};
}

Result<std::optional<PlanRecord>> PlanWithKey(SqlTransaction& sql,
                                              const std::string& key) {
  UCUDNN_ASSIGN_OR_RETURN(
      const auto rows,
      sql.Query(
          fmt::format("SELECT {} FROM plans WHERE key = $1", kPlanColumns),
          {key}));
  if (rows.empty()) return std::nullopt;
  return PlanOf(rows.front());
}

}  // namespace

Result<CreatedPlan> SqlStore::CreatePlan(const PlanRecord& plan) {
  UCUDNN_RETURN_IF_ERROR(CheckKey("the plan's key", plan.key));
  return InTransaction(
      *database_, Access::kWrite,
      [&](SqlTransaction& sql) -> Result<CreatedPlan> {
        UCUDNN_ASSIGN_OR_RETURN(auto existing, PlanWithKey(sql, plan.key));
        if (existing) return CreatedPlan{*std::move(existing), true};
        UCUDNN_ASSIGN_OR_RETURN(
            const auto created,
            sql.Query(fmt::format("INSERT INTO plans (revision, key, request, "
                                  "body, created_ms) VALUES ($1, $2, $3, $4, "
                                  "$5) ON CONFLICT (key) DO NOTHING "
                                  "RETURNING {}",
                                  kPlanColumns),
                      {plan.revision, plan.key, plan.request, plan.body,
                       plan.created_ms}));
        if (!created.empty()) {
          UCUDNN_ASSIGN_OR_RETURN(PlanRecord record, PlanOf(created.front()));
          return CreatedPlan{std::move(record), false};
        }
        // Somebody was faster.
        UCUDNN_ASSIGN_OR_RETURN(existing, PlanWithKey(sql, plan.key));
        UCUDNN_CHECK(existing.has_value());
        return CreatedPlan{*std::move(existing), true};
      });
}

Result<std::vector<PlanRecord>> SqlStore::ListPlans(std::int64_t limit,
                                                    std::int64_t before_id) {
  UCUDNN_RETURN_IF_ERROR(CheckLimit(limit));
  return InTransaction(*database_, Access::kRead, [&](SqlTransaction& sql) {
    return Records(
        sql.Query(fmt::format("SELECT {} FROM plans "
                              "WHERE CAST($1 AS BIGINT) <= 0 OR id < $1 "
                              "ORDER BY id DESC LIMIT $2",
                              kPlanColumns),
                  {before_id, limit}),
        PlanOf);
  });
}

Result<PlanRecord> SqlStore::GetPlan(std::int64_t id) {
  return InTransaction(*database_, Access::kRead, [&](SqlTransaction& sql) {
    return OneRecord(sql.Query(fmt::format("SELECT {} FROM plans WHERE id = $1",
                                           kPlanColumns),
                               {id}),
                     PlanOf, fmt::format("plan {}", id));
  });
}

Result<std::optional<PlanRecord>> SqlStore::FindPlan(const std::string& key) {
  return InTransaction(*database_, Access::kRead, [&](SqlTransaction& sql) {
    return PlanWithKey(sql, key);
  });
}

Status SqlStore::PutJob(const JobRecord& job) {
  UCUDNN_RETURN_IF_ERROR(CheckKey("the job's id", job.id));
  return database_->Run(Access::kWrite, [&](SqlTransaction& sql) -> Status {
    if (job.plan) {
      UCUDNN_ASSIGN_OR_RETURN(
          const auto plan,
          sql.Query("SELECT id FROM plans WHERE id = $1", {*job.plan}));
      if (plan.empty()) {
        return Fail(Code::kNotFound, "there is no plan {}", *job.plan);
      }
    }
    return sql.Execute(
        "INSERT INTO jobs (id, name, plan, revision, state, body, created_ms, "
        "updated_ms) VALUES ($1, $2, $3, $4, $5, $6, $7, $8) "
        "ON CONFLICT (id) DO UPDATE SET name = excluded.name, "
        "plan = excluded.plan, revision = excluded.revision, "
        "state = excluded.state, body = excluded.body, "
        "updated_ms = excluded.updated_ms",
        {job.id, job.name, job.plan ? SqlValue(*job.plan) : SqlValue(SqlNull()),
         job.revision, job.state, job.body, job.created_ms, job.updated_ms});
  });
}

Result<std::vector<JobRecord>> SqlStore::ListJobs(std::int64_t limit) {
  UCUDNN_RETURN_IF_ERROR(CheckLimit(limit));
  return InTransaction(*database_, Access::kRead, [&](SqlTransaction& sql) {
    return Records(
        sql.Query(fmt::format("SELECT {} FROM jobs "
                              "ORDER BY created_ms DESC, id LIMIT $1",
                              kJobColumns),
                  {limit}),
        JobOf);
  });
}

Result<JobRecord> SqlStore::GetJob(const std::string& id) {
  return InTransaction(*database_, Access::kRead, [&](SqlTransaction& sql) {
    return OneRecord(
        sql.Query(fmt::format("SELECT {} FROM jobs WHERE id = $1", kJobColumns),
                  {id}),
        JobOf, fmt::format("job '{}'", id));
  });
}

}  // namespace ucudnn
