#include "coordinator/store/changes.h"

#include "coordinator/store/records.h"

namespace ucudnn {
namespace {

// Rows of a table of counts that are read in no time.
constexpr std::int64_t kFewRows = 200;

// Replaces the rows of the table by one for each pair of the columns.
Status Compact(SqlTransaction& sql, const std::string& table,
               const std::string& columns) {
  UCUDNN_ASSIGN_OR_RETURN(
      const auto rows,
      sql.Query(fmt::format("SELECT COUNT(*) FROM {}", table)));
  if (rows.at(0).Int(0) <= kFewRows) return {};
  UCUDNN_ASSIGN_OR_RETURN(
      const auto deleted,
      sql.Query(fmt::format("DELETE FROM {} RETURNING {}, n", table, columns)));
  std::map<std::pair<std::string, std::string>, std::int64_t> sums;
  for (const SqlRow& row : deleted) {
    sums[{row.Text(0), row.Text(1)}] += row.Int(2);
  }
  for (const auto& [key, n] : sums) {
    if (n == 0) continue;
    UCUDNN_RETURN_IF_ERROR(
        sql.Execute(fmt::format("INSERT INTO {} ({}, n) VALUES ($1, $2, $3)",
                                table, columns),
                    {key.first, key.second, n}));
  }
  return {};
}

}  // namespace

Result<ChangeCounts> Changes::CountChanges() {
  return database_.Read([](SqlTransaction& sql) -> Result<ChangeCounts> {
    UCUDNN_ASSIGN_OR_RETURN(
        const auto rows,
        sql.Query("SELECT what, name, CAST(SUM(n) AS BIGINT) FROM changes "
                  "GROUP BY what, name"));
    ChangeCounts counts;
    for (const SqlRow& row : rows) {
      const std::string& what = row.Text(0);
      if (what == "networks") counts.networks = row.Int(2);
      if (what == "steps") counts.steps = row.Int(2);
      if (what == "deleted_plans") counts.deleted_plans = row.Int(2);
      if (what == "kind") counts.kinds[row.Text(1)] = row.Int(2);
      if (what == "cross_checks") {
        counts.cross_checks[row.Text(1)] = row.Int(2);
      }
    }
    return counts;
  });
}

Status Changes::CompactCounts() {
  if (!database_.dialect().adds_counts) return {};
  return database_.Write([](SqlTransaction& sql) -> Status {
    UCUDNN_RETURN_IF_ERROR(Compact(sql, "changes", "what, name"));
    return Compact(sql, "task_counts", "kind, state");
  });
}

}  // namespace ucudnn
