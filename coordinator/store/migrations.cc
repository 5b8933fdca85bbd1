#include "coordinator/store/migrations.h"

#include <string>
#include <utility>

#include "coordinator/store/pack_measurements.h"

namespace ucudnn {

Result<std::int64_t> SchemaVersion(SqlTransaction& sql) {
  UCUDNN_ASSIGN_OR_RETURN(
      const auto rows,
      sql.Query("SELECT COALESCE(MAX(version), 0) FROM schema_version"));
  return rows.at(0).Int(0);
}

namespace {

// What a migration does that SQL cannot, after its script.
Status Continue(const Migration& migration, SqlTransaction& sql) {
  if (migration.name == "0016_measured_batches") return PackMeasurements(sql);
  return {};
}

}  // namespace

Status Migrate(SqlDatabase& database, std::span<const Migration> migrations) {
  const SqlDialect& dialect = database.dialect();
  return database.Run(
      TransactionMode::kWrite, [&](SqlTransaction& sql) -> Status {
        if (!dialect.lock_schema.empty()) {
          UCUDNN_RETURN_IF_ERROR(sql.Execute(dialect.lock_schema));
        }
        UCUDNN_RETURN_IF_ERROR(
            sql.Execute("CREATE TABLE IF NOT EXISTS schema_version ("
                        "version BIGINT PRIMARY KEY, name TEXT NOT NULL)"));
        UCUDNN_ASSIGN_OR_RETURN(const std::int64_t found, SchemaVersion(sql));
        std::int64_t latest = 0;
        for (const Migration& migration : migrations) {
          if (migration.dialect != dialect.name) continue;
          latest = migration.version;
          if (migration.version <= found) continue;
          Status status = sql.ExecuteScript(std::string(migration.script));
          if (status) status = Continue(migration, sql);
          if (!status) return Within(migration.name, std::move(status).error());
          UCUDNN_RETURN_IF_ERROR(
              sql.Execute("INSERT INTO schema_version (version, name) "
                          "VALUES ($1, $2)",
                          {migration.version, std::string(migration.name)}));
        }
        if (found > latest) {
          return Fail(
              Code::kFailedPrecondition,
              "the database has schema version {}, but this program only "
              "knows versions up to {}: a newer ucudnn wrote it; use that "
              "version or a newer one",
              found, latest);
        }
        return {};
      });
}

}  // namespace ucudnn
