// SQLite through SQLiteCpp: one connection writes while several read, which
// write-ahead logging allows. A database in memory has a single connection.

#include <SQLiteCpp/SQLiteCpp.h>
#include <sqlite3.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "base/units.h"
#include "coordinator/store/connection_pool.h"
#include "coordinator/store/schema.h"
#include "coordinator/store/sql_database.h"

namespace ucudnn {
namespace {

constexpr int kBusyTimeoutMs = 10'000;
constexpr std::size_t kReaders = 4;
// Statements that are kept prepared; there are fewer, except where one names
// lists of drivers or batches.
constexpr std::size_t kMaxKept = 300;
// Statements with more parameters vary in length and are not kept prepared.
constexpr std::size_t kMaxKeptParameters = 20;

Code CodeOf(int extended) {
  switch (extended) {
    case SQLITE_CONSTRAINT_PRIMARYKEY:
    case SQLITE_CONSTRAINT_UNIQUE:
      return Code::kAlreadyExists;
    default:
      break;
  }
  switch (extended & 0xFF) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_READONLY:
    case SQLITE_AUTH:
    case SQLITE_IOERR:
    case SQLITE_PROTOCOL:
    case SQLITE_INTERRUPT:
      return Code::kUnavailable;
    case SQLITE_FULL:
    case SQLITE_NOMEM:
      return Code::kResourceExhausted;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return Code::kDataLoss;
    case SQLITE_TOOBIG:
      return Code::kInvalidArgument;
    default:
      return Code::kInternal;
  }
}

// Runs `body`, which returns a Result; exceptions become errors. Clients read
// them, so they do not tell where the database is.
template <class Body>
auto Guarded(const Body& body) -> decltype(body()) {
  try {
    return body();
  } catch (const SQLite::Exception& e) {
    return Fail(CodeOf(e.getExtendedErrorCode()), "SQLite: {} ({})", e.what(),
                e.getErrorStr());
  } catch (const std::exception& e) {
    return Fail(Code::kInternal, "SQLite: {}", e.what());
  }
}

SqlValue ValueOf(const SQLite::Column& column) {
  switch (column.getType()) {
    case SQLITE_INTEGER:
      return std::int64_t{column.getInt64()};
    case SQLITE_TEXT:
      return column.getString();
    case SQLITE_BLOB:
      return SqlBytes{column.getString()};
    default:
      return SqlNull();
  }
}

void Bind(SQLite::Statement& statement, int index, const SqlValue& value) {
  if (const auto* number = std::get_if<std::int64_t>(&value)) {
    statement.bind(index, *number);
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    statement.bindNoCopy(index, *text);
  } else if (const auto* bytes = std::get_if<SqlBytes>(&value)) {
    // c_str() is never null; a null pointer would be bound as NULL.
    const void* data = bytes->bytes.c_str();
    statement.bindNoCopy(index, data, static_cast<int>(bytes->bytes.size()));
  } else {
    statement.bind(index);
  }
}

void BindAll(SQLite::Statement& statement,
             std::span<const SqlValue> parameters) {
  int index = 0;
  for (const SqlValue& value : parameters) Bind(statement, ++index, value);
}

// Runs the statement and appends its rows.
void ReadRows(SQLite::Statement& statement, std::vector<SqlRow>* rows) {
  while (statement.executeStep()) {
    std::vector<SqlValue> values;
    const int columns = statement.getColumnCount();
    values.reserve(static_cast<std::size_t>(columns));
    for (int i = 0; i < columns; ++i) {
      values.push_back(ValueOf(statement.getColumn(i)));
    }
    rows->emplace_back(std::move(values));
  }
}

// The statement for one of the rows, behind so many other parameters.
std::string WithOneRow(const std::string& statement, const SqlRows& rows,
                       std::size_t parameters) {
  std::string table;
  std::string values;
  for (const SqlRows::Column& column : rows.columns()) {
    const char* const comma = table.empty() ? "" : ", ";
    table += fmt::format("{}${} AS {}", comma, ++parameters, column.name);
    values += fmt::format("{}${}", comma, parameters);
  }
  return WithRows(statement, fmt::format("(SELECT {}) AS rows", table),
                  fmt::format("VALUES ({})", values));
}

// Binds one row after another. A statement keeps what was bound to it, so texts
// that stay the same are not bound again.
class RowBinder {
 public:
  // The rows' parameters follow `first` others.
  RowBinder(SQLite::Statement& statement, const SqlRows& rows, int first)
      : statement_(statement),
        rows_(rows),
        first_(first),
        bound_(rows.columns().size()) {}

  void Bind(std::size_t row) {
    int index = first_;
    for (std::size_t i = 0; i < bound_.size(); ++i) {
      const SqlRows::Column& column = rows_.columns()[i];
      ++index;
      if (column.is_number()) {
        statement_.bind(index, column.numbers[row]);
      } else if (row == 0 || bound_[i] != column.texts[row]) {
        bound_[i] = column.texts[row];
        if (column.is_bytes()) {
          statement_.bindNoCopy(index,
                                static_cast<const void*>(bound_[i].c_str()),
                                static_cast<int>(bound_[i].size()));
        } else {
          statement_.bindNoCopy(index, bound_[i]);
        }
      }
    }
  }

 private:
  SQLite::Statement& statement_;
  const SqlRows& rows_;
  const int first_;
  std::vector<std::string> bound_;
};

const SqlDialect& SqliteDialect() {
  // Only one transaction writes at a time, so rows need no locks.
  static const SqlDialect kDialect{.schema = kSqliteSchema,
                                   .lock_rows = "",
                                   .skip_locked = "",
                                   .lock_schema = "",
                                   .lock_queue = "",
                                   .writers = 1,
                                   .adds_counts = false};
  return kDialect;
}

// One connection, and the transaction that runs on it.
class SqliteConnection final : public SqlTransaction {
 public:
  // Throws SQLite::Exception.
  explicit SqliteConnection(const std::string& path)
      :  // One thread at a time has it, so SQLite need not lock it for each
         // column that is read.
        database_(
            path,
            SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE | SQLite::OPEN_NOMUTEX,
            kBusyTimeoutMs) {
    database_.exec("PRAGMA foreign_keys = ON");
    database_.exec("PRAGMA synchronous = FULL");
  }

  const SqlDialect& dialect() const override { return SqliteDialect(); }

  SQLite::Database& database() { return database_; }

  Status Run(TransactionMode mode, const SqlDatabase::Body& body) {
    UCUDNN_RETURN_IF_ERROR(ExecuteScript(
        mode == TransactionMode::kWrite ? "BEGIN IMMEDIATE" : "BEGIN"));
    Status status = body(*this);
    if (status) status = ExecuteScript("COMMIT");
    // After some failures SQLite has already rolled back.
    if (!status && sqlite3_get_autocommit(database_.getHandle()) == 0) {
      database_.tryExec("ROLLBACK");
    }
    return status;
  }

  Status ExecuteScript(const std::string& script) override {
    return Guarded([&]() -> Status {
      database_.exec(script);
      return {};
    });
  }

 protected:
  Result<std::vector<SqlRow>> DoQuery(
      const std::string& statement,
      std::span<const SqlValue> parameters) override {
    return Guarded([&]() -> Result<std::vector<SqlRow>> {
      std::vector<SqlRow> rows;
      if (parameters.size() > kMaxKeptParameters) {
        SQLite::Statement once = Prepare(statement);
        BindAll(once, parameters);
        ReadRows(once, &rows);
        return rows;
      }
      const Used used(Kept(statement));
      BindAll(used.statement, parameters);
      ReadRows(used.statement, &rows);
      return rows;
    });
  }

  Result<std::vector<SqlRow>> DoQuery(
      const std::string& statement, const SqlRows& rows,
      std::span<const SqlValue> parameters) override {
    return Guarded([&]() -> Result<std::vector<SqlRow>> {
      const Used used(Kept(WithOneRow(statement, rows, parameters.size())));
      BindAll(used.statement, parameters);
      RowBinder binder(used.statement, rows,
                       static_cast<int>(parameters.size()));
      std::vector<SqlRow> found;
      for (std::size_t row = 0; row < rows.size(); ++row) {
        if (row > 0) used.statement.reset();
        binder.Bind(row);
        ReadRows(used.statement, &found);
      }
      return found;
    });
  }

 private:
  // A statement in use. Resets it even after a failure: an unfinished statement
  // blocks COMMIT.
  struct Used {
    explicit Used(SQLite::Statement& kept) : statement(kept) {}
    Used(const Used&) = delete;
    ~Used() { (void)statement.tryReset(); }
    SQLite::Statement& statement;
  };

  SQLite::Statement& Kept(const std::string& statement) {
    auto kept = statements_.find(statement);
    if (kept == statements_.end()) {
      if (statements_.size() >= kMaxKept) statements_.clear();
      kept = statements_.emplace(statement, Prepare(statement)).first;
    }
    return kept->second;
  }

  // SQLite numbers parameters ?1, ?2. No literal in our statements has a '$'.
  SQLite::Statement Prepare(std::string statement) {
    std::ranges::replace(statement, '$', '?');
    return {database_, statement};
  }

  SQLite::Database database_;
  std::unordered_map<std::string, SQLite::Statement> statements_;
};

class SqliteDatabase final : public SqlDatabase {
 public:
  SqliteDatabase(std::string path, bool in_memory,
                 std::unique_ptr<SqliteConnection> writer)
      : path_(std::move(path)),
        in_memory_(in_memory),
        writer_(1, std::move(writer)) {}

  const SqlDialect& dialect() const override { return SqliteDialect(); }

  Status CheckRoom() override {
    struct statvfs disk {};
    if (in_memory_ || statvfs(path_.c_str(), &disk) != 0) return {};
    const auto left = static_cast<std::int64_t>(
        (geteuid() == 0 ? disk.f_bfree : disk.f_bavail) * disk.f_frsize);
    if (left >= kLeastRoom) return {};
    return Fail(Code::kResourceExhausted,
                "SQLite: the disk has {} left; {} are needed",
                FormatBytes(Bytes(left)), FormatBytes(Bytes(kLeastRoom)));
  }

  Status Run(TransactionMode mode, const Body& body) override {
    auto& pool =
        mode == TransactionMode::kWrite || in_memory_ ? writer_ : readers_;
    UCUDNN_ASSIGN_OR_RETURN(auto connection, pool.Take([&] {
      return Guarded([&]() -> Result<std::unique_ptr<SqliteConnection>> {
        return std::make_unique<SqliteConnection>(path_);
      });
    }));
    return connection->Run(mode, body);
  }

 private:
  const std::string path_;
  const bool in_memory_;
  ConnectionPool<SqliteConnection> writer_;
  ConnectionPool<SqliteConnection> readers_{kReaders};
};

// Enables write-ahead logging, which the file keeps from then on. The change
// needs exclusive access and SQLite does not wait for it, so this function
// does.
Status EnableWal(SQLite::Database& database) {
  for (int waited_ms = 0;; waited_ms += 10) {
    const int code = database.tryExec("PRAGMA journal_mode = WAL");
    if (code == SQLITE_OK) break;
    if ((code & 0xFF) != SQLITE_BUSY || waited_ms >= kBusyTimeoutMs) {
      throw SQLite::Exception(database.getHandle(), code);
    }
    sqlite3_sleep(10);
  }
  SQLite::Statement mode(database, "PRAGMA journal_mode");
  if (mode.executeStep() && mode.getColumn(0).getString() == "wal") return {};
  return Fail(Code::kUnavailable,
              "SQLite cannot use write-ahead logging on {}; the file must be "
              "on a local disk",
              database.getFilename());
}

}  // namespace

Result<std::unique_ptr<SqlDatabase>> OpenSqlite(const std::string& url) {
  constexpr std::string_view kFile = "sqlite:///";
  const bool in_memory = url == "sqlite::memory:";
  const std::string path =
      in_memory ? ":memory:" : url.substr(kFile.size() - 1);
  auto opened = Guarded([&]() -> Result<std::unique_ptr<SqlDatabase>> {
    auto writer = std::make_unique<SqliteConnection>(path);
    if (!in_memory) UCUDNN_RETURN_IF_ERROR(EnableWal(writer->database()));
    return std::make_unique<SqliteDatabase>(path, in_memory, std::move(writer));
  });
  if (!opened) return Within(path, std::move(opened).error());
  return opened;
}

}  // namespace ucudnn
