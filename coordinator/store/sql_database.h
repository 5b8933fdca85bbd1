#ifndef UCUDNN_COORDINATOR_STORE_SQL_DATABASE_H_
#define UCUDNN_COORDINATOR_STORE_SQL_DATABASE_H_

// The port to an SQL database, with adapters for SQLite and PostgreSQL. The
// store writes each statement once, in what both dialects share: $1-style
// parameters, ON CONFLICT, RETURNING, WITH ... AS MATERIALIZED; and $rows and
// $values (SqlRows).
//
//   auto rows = database.Read([&](SqlTransaction& sql) {
//     return sql.Query("SELECT id FROM agents WHERE host = $1", {host});
//   });

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
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
  std::string_view schema;  // schema.h
  // Appended to a SELECT: locks its rows; also skips rows that are locked.
  std::string lock_rows;
  std::string skip_locked;
  // A statement that lets one process at a time make the schema.
  std::string lock_schema;
  // A statement that lets one transaction at a time open tasks.
  std::string lock_queue;
  // How many transactions may usefully write at once.
  std::size_t writers = 1;
  // Whether tables of counts get a row with each change (schema/postgres.sql).
  bool adds_counts = false;
};

// Rows that a statement works on.
//
//   SqlRows rows("id TEXT, beats BIGINT");
//   for (const Pulse& pulse : pulses) rows.Add({pulse.id, pulse.beats});
//   sql.Execute("UPDATE agents SET state = 'gone' FROM $rows "
//               "WHERE agents.id = rows.id AND agents.beats = rows.beats",
//               rows);
//
// In the statement, $rows is a table of them, named `rows`, and $values is what
// INSERT INTO takes them from. PostgreSQL runs it once for all rows, SQLite
// once for each, in order; it has to come to the same.
class SqlRows {
 public:
  using Cell = std::variant<std::int64_t, std::string_view>;
  struct Column {
    std::string name;
    std::string type;  // TEXT, BYTEA or BIGINT; its cells are in one of:
    std::vector<std::string_view> texts = {};
    std::vector<std::int64_t> numbers = {};

    bool is_number() const { return type == "BIGINT"; }
    bool is_bytes() const { return type == "BYTEA"; }
  };

  // "NAME TYPE, NAME TYPE, ..."
  explicit SqlRows(std::string_view columns);

  // A row, with a cell for each column. Texts must outlive this object.
  void Add(std::initializer_list<Cell> cells) {
    Add(std::span(cells.begin(), cells.size()));
  }
  void Add(std::span<const Cell> cells);

  std::size_t size() const { return size_; }
  const std::vector<Column>& columns() const { return columns_; }
  // "id, beats"
  std::string Names() const;

 private:
  std::vector<Column> columns_;
  std::size_t size_ = 0;
};

// The statement with these texts in place of $rows and $values, each of which
// it has once at most.
std::string WithRows(std::string statement, const std::string& table,
                     const std::string& values);

// kInvalidArgument if the text is not UTF-8 or holds a NUL, which PostgreSQL
// refuses.
Status CheckText(std::string_view text);

// A running transaction.
class SqlTransaction {
 public:
  virtual ~SqlTransaction() = default;

  virtual const SqlDialect& dialect() const = 0;

  // Runs one statement; returns the rows of SELECT or RETURNING.
  // Errors of CheckText.
  Result<std::vector<SqlRow>> Query(const std::string& statement,
                                    std::span<const SqlValue> parameters);
  Result<std::vector<SqlRow>> Query(
      const std::string& statement,
      std::initializer_list<SqlValue> parameters = {}) {
    return Query(statement, std::span(parameters.begin(), parameters.size()));
  }
  // Runs one statement over rows, if there are any.
  Result<std::vector<SqlRow>> Query(
      const std::string& statement, const SqlRows& rows,
      std::initializer_list<SqlValue> parameters = {}) {
    return Query(statement, rows,
                 std::span(parameters.begin(), parameters.size()));
  }
  Result<std::vector<SqlRow>> Query(const std::string& statement,
                                    const SqlRows& rows,
                                    std::span<const SqlValue> parameters);
  // The same, returning no rows.
  Status Execute(const std::string& statement,
                 std::span<const SqlValue> parameters);
  Status Execute(const std::string& statement, const SqlRows& rows,
                 std::initializer_list<SqlValue> parameters = {});
  Status Execute(const std::string& statement,
                 std::initializer_list<SqlValue> parameters = {}) {
    return Execute(statement, std::span(parameters.begin(), parameters.size()));
  }
  // Runs several statements without parameters.
  virtual Status ExecuteScript(const std::string& script) = 0;

 protected:
  virtual Result<std::vector<SqlRow>> DoQuery(
      const std::string& statement, std::span<const SqlValue> parameters) = 0;
  virtual Result<std::vector<SqlRow>> DoQuery(
      const std::string& statement, const SqlRows& rows,
      std::span<const SqlValue> parameters) = 0;
};

enum class TransactionMode { kRead, kWrite };

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
  virtual Status Run(TransactionMode mode, const Body& body) = 0;

  // Run for a body that returns a Status or a Result.
  template <class Do>
  auto Read(const Do& body) {
    return RunFor(TransactionMode::kRead, body);
  }
  template <class Do>
  auto Write(const Do& body) {
    return RunFor(TransactionMode::kWrite, body);
  }

  // kResourceExhausted if its disk, as far as this process sees it, has less
  // than kLeastRoom left.
  virtual Status CheckRoom() { return {}; }

 private:
  template <class Do>
  auto RunFor(TransactionMode mode, const Do& body) {
    using R = std::invoke_result_t<const Do&, SqlTransaction&>;
    if constexpr (std::is_same_v<R, Status>) {
      return Run(mode, body);
    } else {
      std::optional<typename R::value_type> value;
      const Status status = Run(mode, [&](SqlTransaction& sql) -> Status {
        R result = body(sql);
        if (!result) return tl::unexpected<Error>(std::move(result).error());
        value = *std::move(result);
        return {};
      });
      return status ? R(*std::move(value))
                    : R(tl::unexpected<Error>(status.error()));
    }
  }
};

// Transactions take up to some MiB; a disk that is nearly full would fail them
// one by one.
inline constexpr std::int64_t kLeastRoom = std::int64_t{16} << 20;

// `url` is "sqlite::memory:" or "sqlite:///path". Errors of OpenStore.
Result<std::unique_ptr<SqlDatabase>> OpenSqlite(const std::string& url);

// `url` is a "postgresql://" or "postgres://" URL of libpq. Errors of
// OpenStore.
Result<std::unique_ptr<SqlDatabase>> OpenPostgres(const std::string& url);

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_STORE_SQL_DATABASE_H_
