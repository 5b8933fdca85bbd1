#ifndef UCUDNN_COORDINATOR_STORE_SCHEMA_H_
#define UCUDNN_COORDINATOR_STORE_SCHEMA_H_

// The schema: schema/tables.sql, then schema/<dialect>.sql, compiled in.

#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "coordinator/store/sql_database.h"

namespace ucudnn {

// Stored in each database. No release has written an earlier version. After a
// release, a change to the schema raises it, and PrepareSchema makes the change
// in databases of the version before.
inline constexpr std::int64_t kSchemaVersion = 23;

// Generated from the files.
extern const std::string_view kSqliteSchema;
extern const std::string_view kPostgresSchema;

// Makes the tables of an empty database; concurrent processes wait for each
// other. kFailedPrecondition: the database has a schema of another version.
Status PrepareSchema(SqlDatabase& database);

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_STORE_SCHEMA_H_
