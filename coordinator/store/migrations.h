#ifndef UCUDNN_COORDINATOR_STORE_MIGRATIONS_H_
#define UCUDNN_COORDINATOR_STORE_MIGRATIONS_H_

// The schema as numbered migrations, schema/NNNN_name[.<dialect>].sql, which
// are compiled in. A released migration never changes; later ones change the
// tables.

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

// Sorted by version; generated from the files that CMakeLists.txt lists.
std::span<const Migration> Migrations();

// Applies the migrations of the database's dialect that are still missing, all
// in one transaction; concurrent processes wait for each other.
// kFailedPrecondition if a later migration than the last one here was applied.
Status Migrate(SqlDatabase& database, std::span<const Migration> migrations);

// The version of the last migration applied.
Result<std::int64_t> SchemaVersion(SqlTransaction& sql);

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_STORE_MIGRATIONS_H_
