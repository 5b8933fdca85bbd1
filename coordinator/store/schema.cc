#include "coordinator/store/schema.h"

#include <string>

namespace ucudnn {

Status PrepareSchema(SqlDatabase& database) {
  const SqlDialect& dialect = database.dialect();
  return database.Write([&](SqlTransaction& sql) -> Status {
    if (!dialect.lock_schema.empty()) {
      UCUDNN_RETURN_IF_ERROR(sql.Execute(dialect.lock_schema));
    }
    UCUDNN_RETURN_IF_ERROR(
        sql.Execute("CREATE TABLE IF NOT EXISTS schema_version ("
                    "version BIGINT PRIMARY KEY)"));
    // Databases of before version 20 have a row for each version.
    UCUDNN_ASSIGN_OR_RETURN(
        const auto rows,
        sql.Query("SELECT COALESCE(MAX(version), 0) FROM schema_version"));
    const std::int64_t found = rows.at(0).Int(0);
    if (found == kSchemaVersion) return {};
    if (found == 0) {
      UCUDNN_RETURN_IF_ERROR(sql.ExecuteScript(std::string(dialect.schema)));
      return sql.Execute("INSERT INTO schema_version (version) VALUES ($1)",
                         {kSchemaVersion});
    }
    return Fail(
        Code::kFailedPrecondition,
        "the database has schema version {}, but this program reads and "
        "writes version {}: use the ucudnn that wrote it; or let that "
        "write its measurements to a file (ucudnn profiles export FILE) "
        "and import them into a new database (ucudnn profiles import "
        "FILE), or measure again",
        found, kSchemaVersion);
  });
}

}  // namespace ucudnn
