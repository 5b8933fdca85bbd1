#include "coordinator/store/actions.h"

#include "coordinator/store/records.h"

namespace ucudnn {

Status AddAction(SqlTransaction& sql, const ActionRecord& action) {
  return sql.Execute(
      "INSERT INTO actions (made_ms, who, what, object, reason, outcome) "
      "VALUES ($1, $2, $3, $4, $5, $6)",
      {action.made_ms, action.who, action.what, action.object, action.reason,
       action.outcome});
}

Status DeleteOne(SqlTransaction& sql, const std::string& deletion,
                 const SqlValue& id, const std::string& object,
                 const ActionRecord& action) {
  UCUDNN_ASSIGN_OR_RETURN(const auto deleted, sql.Query(deletion, {id}));
  if (deleted.empty()) return Fail(Code::kNotFound, "there is no {}", object);
  return AddAction(sql, action);
}

Status Actions::AddAction(const ActionRecord& action) {
  return database_.Write([&](SqlTransaction& sql) -> Status {
    return ucudnn::AddAction(sql, action);
  });
}

Result<std::vector<ActionRecord>> Actions::ListActions(std::int64_t limit,
                                                       std::int64_t before_id) {
  UCUDNN_RETURN_IF_ERROR(CheckLimit(limit));
  return database_.Read([&](SqlTransaction& sql) {
    return Records(
        sql.Query("SELECT id, made_ms, who, what, object, reason, outcome "
                  "FROM actions WHERE CAST($1 AS BIGINT) <= 0 OR id < $1 "
                  "ORDER BY id DESC LIMIT $2",
                  {before_id, limit}),
        [](const SqlRow& row) -> Result<ActionRecord> {
          return ActionRecord{.id = row.Int(0),
                              .made_ms = row.Int(1),
                              .who = row.Text(2),
                              .what = row.Text(3),
                              .object = row.Text(4),
                              .reason = row.Text(5),
                              .outcome = row.Text(6)};
        });
  });
}

}  // namespace ucudnn
