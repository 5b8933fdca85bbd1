#ifndef UCUDNN_COORDINATOR_STORE_MIGRATIONS_H_
#define UCUDNN_COORDINATOR_STORE_MIGRATIONS_H_

// The tables, as numbered steps: schema/NNNN_name.<dialect>.sql, compiled in.
// A step that was released is never changed; the next one changes the tables.

#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"
#include "coordinator/store/sql_database.h"

namespace ucudnn {

struct Migration {
  std::int64_t version = 0;
  std::string_view name;     // "0001_initial"
  std::string_view dialect;  // SqlDialect::name
  std::string_view script;
};

// By version; generated from the files that CMakeLists.txt lists.
std::span<const Migration> Migrations();

// Applies those of the database's dialect that it has not yet seen, all in one
// transaction; processes that do so at once wait for each other.
// kFailedPrecondition if the database has seen a later one than the last.
Status Migrate(SqlDatabase& database, std::span<const Migration> migrations);

// The last one applied.
Result<std::int64_t> SchemaVersion(SqlTransaction& sql);

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_STORE_MIGRATIONS_H_
