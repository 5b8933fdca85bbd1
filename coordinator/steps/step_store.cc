#include "coordinator/steps/step_store.h"

#include "coordinator/store/records.h"

namespace ucudnn {
namespace {

// `content` is the column, or an expression in its place.
std::string SelectSteps(const std::string& content) {
  return "SELECT name, revision, hash, put_by, updated_ms, outline, " +
         content + " FROM steps ";
}

Result<StepRecord> StepOf(const SqlRow& row) {
  return StepRecord{.name = row.Text(0),
                    .revision = row.Int(1),
                    .hash = row.Text(2),
                    .put_by = row.Text(3),
                    .updated_ms = row.Int(4),
                    .outline = row.Bytes(5),
                    .content = row.IsNull(6) ? "" : row.Bytes(6)};
}

}  // namespace

Result<StepRecord> StepStore::PutStep(const StepRecord& step, std::int64_t most,
                                      bool own_only) {
  UCUDNN_RETURN_IF_ERROR(CheckKey("the step's name", step.name));
  UCUDNN_RETURN_IF_ERROR(CheckKey("the step's hash", step.hash));
  return database_.Write([&](SqlTransaction& sql) -> Result<StepRecord> {
    const std::string select =
        SelectSteps("NULL") + "WHERE name = $1 " + sql.dialect().lock_rows;
    StepRecord stored = step;
    stored.content.clear();
    UCUDNN_ASSIGN_OR_RETURN(auto found,
                            Records(sql.Query(select, {step.name}), StepOf));
    if (found.empty()) {
      // Of two who put a new name at once the second one waits, and finds it.
      UCUDNN_ASSIGN_OR_RETURN(
          const auto added,
          sql.Query("INSERT INTO steps (name, revision, hash, put_by, "
                    "updated_ms, outline, content) "
                    "VALUES ($1, 1, $2, $3, $4, $5, $6) "
                    "ON CONFLICT (name) DO NOTHING RETURNING name",
                    {step.name, step.hash, step.put_by, step.updated_ms,
                     SqlBytes{step.outline}, SqlBytes{step.content}}));
      if (!added.empty()) {
        stored.revision = 1;
        UCUDNN_ASSIGN_OR_RETURN(const auto counted,
                                sql.Query("SELECT COUNT(*) FROM steps"));
        if (counted.at(0).Int(0) <= most) return stored;
        return Fail(Code::kResourceExhausted,
                    "there are {} steps, as many as are accepted; `ucudnn "
                    "steps rm` removes one",
                    most);
      }
      UCUDNN_ASSIGN_OR_RETURN(found.emplace_back(),
                              OneRecord(sql.Query(select, {step.name}), StepOf,
                                        fmt::format("step '{}'", step.name)));
    }
    const StepRecord& known = found.front();
    if (own_only && known.put_by != step.put_by) {
      return Fail(Code::kPermissionDenied,
                  "step '{}' was put by {}; {} may put another name, operators "
                  "and admins replace every step",
                  step.name,
                  known.put_by.empty() ? "nobody known" : known.put_by,
                  step.put_by);
    }
    if (known.hash == step.hash) return known;
    stored.revision = known.revision + 1;
    UCUDNN_RETURN_IF_ERROR(sql.Execute(
        "UPDATE steps SET revision = $2, hash = $3, put_by = $4, "
        "updated_ms = $5, outline = $6, content = $7 WHERE name = $1",
        {step.name, stored.revision, step.hash, step.put_by, step.updated_ms,
         SqlBytes{step.outline}, SqlBytes{step.content}}));
    return stored;
  });
}

Result<std::vector<StepRecord>> StepStore::ListSteps(std::int64_t limit,
                                                     const std::string& after) {
  UCUDNN_RETURN_IF_ERROR(CheckLimit(limit));
  return database_.Read([&](SqlTransaction& sql) {
    return Records(sql.Query(SelectSteps("NULL") +
                                 "WHERE name > $1 ORDER BY name LIMIT $2",
                             {after, limit}),
                   StepOf);
  });
}

Result<StepRecord> StepStore::GetStep(const std::string& name) {
  return database_.Read([&](SqlTransaction& sql) {
    return OneRecord(
        sql.Query(SelectSteps("content") + "WHERE name = $1", {name}), StepOf,
        fmt::format("step '{}'", name));
  });
}

Status StepStore::DeleteStep(const std::string& name,
                             const ActionRecord& action) {
  return database_.Write([&](SqlTransaction& sql) {
    return DeleteOne(sql, "DELETE FROM steps WHERE name = $1 RETURNING name",
                     name, fmt::format("step '{}'", name), action);
  });
}

}  // namespace ucudnn
