#ifndef UCUDNN_COORDINATOR_STORE_SQL_DATABASE_H_
#define UCUDNN_COORDINATOR_STORE_SQL_DATABASE_H_

// The little of an SQL database that the store needs; SQLite and PostgreSQL
// are its adapters. Statements are written once, in the dialect both share:
// $1-style parameters, ON CONFLICT, RETURNING, WITH ... AS MATERIALIZED.
//
//   auto rows = InTransaction(database, Access::kRead, [&](auto& sql) {
//     return sql.Query("SELECT id FROM agents WHERE host = $1", {host});
//   });

#include <algorithm>
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

// One row of a result. Reading a column as what it is not is a fault of ours
// and aborts: the tables' columns are typed in both databases.
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

// What the dialects do not share.
struct SqlDialect {
  std::string name;  // of the migrations' files: "sqlite", "postgres"
  // After a SELECT: locks its rows, and passes over those that are locked.
  std::string lock_rows;
  std::string skip_locked;
  // A statement that admits one process at a time to the migrations.
  std::string lock_schema;
  // How many rows of SqlRows make a statement fast: in SQLite few, so that it
  // is prepared once; in PostgreSQL many, so that the way there does not count.
  std::size_t rows_per_statement = 1;
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
  // The same where no rows are asked for.
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

  // Runs `body` in a transaction: committed, durably, if it returns OK, else
  // undone. It is run again, a bounded number of times, if a concurrent
  // transaction or a lost connection made it fail; it must have no effects of
  // its own. Transactions that write see all that was committed before each of
  // their statements and lock what they change; those that read see one
  // moment.
  virtual Status Run(Access access, const Body& body) = 0;
};

// Run, for a body that returns a Result.
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

// Calls `body` with one piece of `items` after the other, each of as many as a
// statement of the dialect should take; stops at an error.
template <class T, class Body>
Status InPieces(const SqlDialect& dialect, std::span<const T> items,
                const Body& body) {
  while (!items.empty()) {
    const auto piece =
        items.first(std::min(items.size(), dialect.rows_per_statement));
    if (Status status = body(piece); !status) return status;
    items = items.subspan(piece.size());
  }
  return {};
}

// `url` is "sqlite::memory:" or "sqlite:///path". Errors: OpenStore's.
Result<std::unique_ptr<SqlDatabase>> OpenSqlite(const std::string& url);

// `url` is a "postgresql://" or "postgres://" URL of libpq. Errors:
// OpenStore's.
Result<std::unique_ptr<SqlDatabase>> OpenPostgres(const std::string& url);

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_STORE_SQL_DATABASE_H_
