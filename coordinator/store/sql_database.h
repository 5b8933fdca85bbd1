#ifndef UCUDNN_COORDINATOR_STORE_SQL_DATABASE_H_
#define UCUDNN_COORDINATOR_STORE_SQL_DATABASE_H_

// The port to an SQL database, with adapters for SQLite and PostgreSQL. The
// store writes each statement once, in what both dialects share: $1-style
// parameters, ON CONFLICT, RETURNING, WITH ... AS MATERIALIZED.
//
//   auto rows = InTransaction(database, Access::kRead, [&](auto& sql) {
//     return sql.Query("SELECT id FROM agents WHERE host = $1", {host});
//   });

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"

namespace ucudnn {

struct SqlBytes {
  std::string bytes;

  friend bool operator==(const SqlBytes&, const SqlBytes&) = default;
};

using SqlNull = std::monostate;
using SqlValue = std::variant<SqlNull, std::int64_t, std::string, SqlBytes>;

// One row of a result. Columns are typed in both databases, so reading one as
// another type is a bug and aborts.
class SqlRow {
 public:
  explicit SqlRow(std::vector<SqlValue> values) : values_(std::move(values)) {}

  bool IsNull(std::size_t column) const;
  std::int64_t Int(std::size_t column) const;
  const std::string& Text(std::size_t column) const;
  const std::string& Bytes(std::size_t column) const;

 private:
  std::vector<SqlValue> values_;
};

// Where the dialects differ.
struct SqlDialect {
  std::string name;  // as migration files have it: "sqlite", "postgres"
  // Appended to a SELECT: locks its rows; also skips rows that are locked.
  std::string lock_rows;
  std::string skip_locked;
  // A statement that lets one process at a time migrate.
  std::string lock_schema;
  // How many rows of SqlRows a statement should have: few in SQLite, so that
  // one prepared statement serves all; many in PostgreSQL, to save round trips.
  std::size_t rows_per_statement = 1;
  // Whether tables of counts get a row with each change (schema/0012_changes).
  bool adds_counts = false;
};

// A running transaction.
class SqlTransaction {
 public:
  virtual ~SqlTransaction() = default;

  virtual const SqlDialect& dialect() const = 0;

  // Runs one statement; returns the rows of SELECT or RETURNING.
  // kInvalidArgument if a text is not UTF-8 or holds a NUL.
  Result<std::vector<SqlRow>> Query(const std::string& statement,
                                    std::span<const SqlValue> parameters);
  Result<std::vector<SqlRow>> Query(
      const std::string& statement,
      std::initializer_list<SqlValue> parameters = {}) {
    return Query(statement, std::span(parameters.begin(), parameters.size()));
  }
  // The same, without rows.
  Status Execute(const std::string& statement,
                 std::span<const SqlValue> parameters);
  Status Execute(const std::string& statement,
                 std::initializer_list<SqlValue> parameters = {}) {
    return Execute(statement, std::span(parameters.begin(), parameters.size()));
  }
  // Runs several statements without parameters.
  virtual Status ExecuteScript(const std::string& script) = 0;

 protected:
  virtual Result<std::vector<SqlRow>> DoQuery(
      const std::string& statement, std::span<const SqlValue> parameters) = 0;
};

enum class Access { kRead, kWrite };

// Thread-safe.
class SqlDatabase {
 public:
  using Body = std::function<Status(SqlTransaction&)>;

  virtual ~SqlDatabase() = default;

  virtual const SqlDialect& dialect() const = 0;

  // Runs `body` in a transaction, which is committed durably if it returns OK
  // and rolled back otherwise. If a concurrent transaction or a lost connection
  // made it fail, `body` runs again, a bounded number of times, so it must have
  // no side effects. In a write transaction, each statement sees
  // everything committed before the statement and locks the rows it changes; a
  // read transaction sees one snapshot.
  virtual Status Run(Access access, const Body& body) = 0;

  // kResourceExhausted if its disk, as far as this process sees it, has less
  // than kLeastRoom left.
  virtual Status CheckRoom() { return {}; }
};

// Transactions take up to some MiB; a disk that is nearly full would fail them
// one by one.
inline constexpr std::int64_t kLeastRoom = std::int64_t{16} << 20;

// SqlDatabase::Run for a body that returns a Result.
template <class Body>
auto InTransaction(SqlDatabase& database, Access access, const Body& body) {
  using R = std::invoke_result_t<const Body&, SqlTransaction&>;
  if constexpr (std::is_same_v<R, Status>) {
    return database.Run(access, body);
  } else {
    std::optional<typename R::value_type> value;
    const Status status =
        database.Run(access, [&](SqlTransaction& sql) -> Status {
          R result = body(sql);
          if (!result) {
            return tl::unexpected<Error>(std::move(result).error());
          }
          value = *std::move(result);
          return {};
        });
    return status ? R(*std::move(value))
                  : R(tl::unexpected<Error>(status.error()));
  }
}

// The parameters of a statement over many rows. `row` is the text of one row
// with a '$' for each parameter; Text() numbers them after `first` others:
//
//   SqlRows rows("($, CAST($ AS BIGINT))");
//   rows.Add({"a", 1});  rows.Add({"b", 2});
//   rows.Text();   // "($1, CAST($2 AS BIGINT)), ($3, CAST($4 AS BIGINT))"
class SqlRows {
 public:
  explicit SqlRows(std::string row, std::vector<SqlValue> first = {});

  void Add(std::span<const SqlValue> values);
  void Add(std::initializer_list<SqlValue> values) {
    Add(std::span(values.begin(), values.size()));
  }
  std::string Text() const;
  std::span<const SqlValue> parameters() const { return parameters_; }

 private:
  std::string row_;
  std::size_t first_;
  std::size_t width_;
  std::vector<SqlValue> parameters_;
};

// Calls `body` with consecutive pieces of `items`, each of at most
// rows_per_statement; stops at an error. Shorter pieces have a power of two of
// items, so that there are few different statements and all stay prepared.
template <class T, class Body>
Status InPieces(const SqlDialect& dialect, std::span<const T> items,
                const Body& body) {
  while (!items.empty()) {
    const auto piece = items.first(
        std::min(std::bit_floor(items.size()), dialect.rows_per_statement));
    if (Status status = body(piece); !status) return status;
    items = items.subspan(piece.size());
  }
  return {};
}

// `url` is "sqlite::memory:" or "sqlite:///path". Errors of OpenStore.
Result<std::unique_ptr<SqlDatabase>> OpenSqlite(const std::string& url);

// `url` is a "postgresql://" or "postgres://" URL of libpq. Errors of
// OpenStore.
Result<std::unique_ptr<SqlDatabase>> OpenPostgres(const std::string& url);

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_STORE_SQL_DATABASE_H_
