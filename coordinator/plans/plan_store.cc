#include "coordinator/plans/plan_store.h"

#include <algorithm>

#include "coordinator/store/records.h"

namespace ucudnn {
namespace {

Result<std::optional<StoredPlan>> PlanWithKey(SqlTransaction& sql,
                                              const std::string& key) {
  UCUDNN_ASSIGN_OR_RETURN(
      const auto rows,
      sql.Query("SELECT id, predicted_ns FROM plans WHERE key = $1", {key}));
  if (rows.empty()) return std::nullopt;
  return StoredPlan{rows[0].Int(0), Nanoseconds(rows[0].Int(1))};
}

}  // namespace

Result<CreatedPlan> PlanStore::CreatePlan(const PlanRecord& plan) {
  UCUDNN_RETURN_IF_ERROR(CheckKey("the plan's key", plan.key));
  return database_.Write([&](SqlTransaction& sql) -> Result<CreatedPlan> {
    UCUDNN_ASSIGN_OR_RETURN(auto existing, PlanWithKey(sql, plan.key));
    if (existing) return CreatedPlan{*existing, true};
    UCUDNN_ASSIGN_OR_RETURN(
        const auto created,
        sql.Query("INSERT INTO plans (key, predicted_ns, created_ms, used_ms, "
                  "outline, body) VALUES ($1, $2, $3, $3, $4, $5) "
                  "ON CONFLICT (key) DO NOTHING RETURNING id",
                  {plan.key, plan.predicted.count(), plan.created_ms,
                   SqlBytes{plan.outline}, SqlBytes{plan.body}}));
    if (!created.empty()) {
      return CreatedPlan{{created[0].Int(0), plan.predicted}, false};
    }
    // A concurrent call was faster.
    UCUDNN_ASSIGN_OR_RETURN(existing, PlanWithKey(sql, plan.key));
    UCUDNN_CHECK(existing.has_value());
    return CreatedPlan{*existing, true};
  });
}

Result<std::vector<std::int64_t>> PlanStore::ListPlanIds(
    std::int64_t limit, std::int64_t before_id) {
  UCUDNN_RETURN_IF_ERROR(CheckLimit(limit));
  return database_.Read([&](SqlTransaction& sql) {
    return Records(
        sql.Query("SELECT id FROM plans WHERE CAST($1 AS BIGINT) <= 0 OR "
                  "id < $1 ORDER BY id DESC LIMIT $2",
                  {before_id, limit}),
        [](const SqlRow& row) -> Result<std::int64_t> { return row.Int(0); });
  });
}

Result<std::string> PlanStore::GetColumn(const char* column, std::int64_t id) {
  return database_.Read([&](SqlTransaction& sql) {
    return OneRecord(
        sql.Query(fmt::format("SELECT {} FROM plans WHERE id = $1", column),
                  {id}),
        [](const SqlRow& row) -> Result<std::string> { return row.Bytes(0); },
        fmt::format("plan {}", id));
  });
}

Result<std::string> PlanStore::GetPlanBody(std::int64_t id) {
  return GetColumn("body", id);
}

Result<std::string> PlanStore::GetPlanOutline(std::int64_t id) {
  return GetColumn("outline", id);
}

Result<std::optional<StoredPlan>> PlanStore::FindPlan(const std::string& key) {
  return database_.Read(
      [&](SqlTransaction& sql) { return PlanWithKey(sql, key); });
}

Status PlanStore::UsePlans(std::span<const std::int64_t> ids,
                           UnixMillis now_ms) {
  std::vector<std::int64_t> sorted(ids.begin(), ids.end());
  std::ranges::sort(sorted);  // see LockTasks
  SqlRows rows("id BIGINT");
  for (const std::int64_t id : sorted) rows.Add({id});
  return database_.Write([&](SqlTransaction& sql) {
    return sql.Execute(
        "UPDATE plans SET used_ms = $1 FROM $rows "
        "WHERE plans.id = rows.id AND plans.used_ms < $1",
        rows, {now_ms});
  });
}

Status PlanStore::DeletePlan(std::int64_t id, const ActionRecord& action) {
  return database_.Write([&](SqlTransaction& sql) -> Status {
    UCUDNN_ASSIGN_OR_RETURN(
        const auto jobs,
        sql.Query("SELECT job FROM job_revisions WHERE plan = $1 LIMIT 1",
                  {id}));
    if (!jobs.empty()) {
      return Fail(Code::kFailedPrecondition,
                  "job '{}' has plan {}; delete the job first", jobs[0].Text(0),
                  id);
    }
    return DeleteOne(sql, "DELETE FROM plans WHERE id = $1 RETURNING id", id,
                     fmt::format("plan {}", id), action);
  });
}

}  // namespace ucudnn
