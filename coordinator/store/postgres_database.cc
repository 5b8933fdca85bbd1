// PostgreSQL through libpqxx: a pool of connections, each with one transaction
// at a time. Exceptions of libpqxx become errors here.

#include <map>
#include <pqxx/pqxx>
#include <string_view>

#include "coordinator/store/connection_pool.h"
#include "coordinator/store/sql_database.h"

namespace ucudnn {
namespace {

// A parameter in PostgreSQL's text form.
struct PgParameter {
  std::string text;
  bool null = false;
};

}  // namespace
}  // namespace ucudnn

namespace pqxx {

template <>
struct string_traits<ucudnn::PgParameter> {
  static const char* name() { return "parameter"; }
  static bool has_null() { return true; }
  static bool is_null(const ucudnn::PgParameter& p) { return p.null; }
  static std::string to_string(const ucudnn::PgParameter& p) { return p.text; }
};

}  // namespace pqxx

namespace ucudnn {
namespace {

// PostgreSQL accepts 100 by default, which several processes share.
constexpr std::size_t kConnections = 8;
// How often a transaction that lost a conflict runs again. The loser of a
// deadlock lets the winner pass, so few rounds are enough.
constexpr int kMaxConflicts = 10;
// Per connection. There are few statements, but bulk statements have some
// lengths each (InPieces).
constexpr std::size_t kMaxPrepared = 300;

// Ends statements that hang, silences notices, and has commits wait for the
// disk.
constexpr char kSessionSettings[] =
    "SET client_encoding TO 'UTF8';"
    "SET client_min_messages TO error;"
    "SET statement_timeout TO '60s';"
    "SET lock_timeout TO '20s';"
    "SET idle_in_transaction_session_timeout TO '60s';"
    "SELECT set_config('synchronous_commit', 'on', false) "
    "WHERE current_setting('synchronous_commit') = 'off'";

// What a failure means for the transaction.
enum class Failure {
  kNone,
  kFinal,     // a retry would fail too
  kConflict,  // a concurrent transaction won
  kBroken,    // the connection is lost
};

struct Verdict {
  Failure failure;
  Code code;
};

// By SQLSTATE: PostgreSQL's manual, appendix A.
Verdict VerdictOf(std::string_view state) {
  const std::string_view group = state.substr(0, 2);
  if (group == "40") return {Failure::kConflict, Code::kUnavailable};
  if (group == "08" || state == "57P01" || state == "57P02" ||
      state == "57P03" || state == "57P05" || state == "25P03") {
    return {Failure::kBroken, Code::kUnavailable};
  }
  if (state == "23505") return {Failure::kFinal, Code::kAlreadyExists};
  if (state == "53300" || group == "55" || group == "57" || group == "58" ||
      state == "25006") {
    return {Failure::kFinal, Code::kUnavailable};
  }
  if (group == "53") return {Failure::kFinal, Code::kResourceExhausted};
  if (group == "54" || state == "22021") {
    return {Failure::kFinal, Code::kInvalidArgument};
  }
  if (state == "XX001" || state == "XX002") {
    return {Failure::kFinal, Code::kDataLoss};
  }
  return {Failure::kFinal, Code::kInternal};
}

// The first line; the others repeat the statement.
std::string_view Summary(std::string_view what) {
  return what.substr(0, what.find('\n'));
}

PgParameter ParameterOf(const SqlValue& value) {
  if (const auto* number = std::get_if<std::int64_t>(&value)) {
    return {.text = std::to_string(*number)};
  }
  if (const auto* text = std::get_if<std::string>(&value)) {
    return {.text = *text};
  }
  if (const auto* bytes = std::get_if<SqlBytes>(&value)) {
    constexpr char kDigits[] = "0123456789abcdef";
    std::string hex = "\\x";
    hex.reserve(2 + 2 * bytes->bytes.size());
    for (const char c : bytes->bytes) {
      const auto byte = static_cast<unsigned char>(c);
      hex += kDigits[byte >> 4U];
      hex += kDigits[byte & 15U];
    }
    return {.text = std::move(hex)};
  }
  return {.text = "", .null = true};
}

SqlValue ValueOf(const pqxx::field& field) {
  // PostgreSQL: src/include/catalog/pg_type.dat.
  constexpr pqxx::oid kBytea = 17;
  constexpr pqxx::oid kInt8 = 20;
  constexpr pqxx::oid kInt4 = 23;
  if (field.is_null()) return SqlNull();
  switch (field.type()) {
    case kInt8:
    case kInt4:
      return field.as<std::int64_t>();
    case kBytea:
      return SqlBytes{pqxx::binarystring(field).str()};
    default:
      return std::string(field.c_str(), field.size());
  }
}

const SqlDialect& PostgresDialect() {
  static const SqlDialect kDialect{
      .name = "postgres",
      .lock_rows = " FOR UPDATE",
      .skip_locked = " FOR UPDATE SKIP LOCKED",
      // An arbitrary lock number: the letters of "ucudnn".
      .lock_schema =
          "SELECT CAST(pg_advisory_xact_lock(128906494537326) "
          "AS TEXT)",
      .rows_per_statement = 256,
      .adds_counts = true};
  return kDialect;
}

// Keeps libpqxx from reconnecting by itself, which would lose the session's
// settings and could happen within a transaction. A new object takes the place
// of a lost connection.
void StayLost(pqxx::connection& connection) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  connection.inhibit_reactivation(true);
#pragma GCC diagnostic pop
}

// One connection, and the transaction that runs on it.
class PostgresConnection final : public SqlTransaction {
 public:
  static Result<std::unique_ptr<PostgresConnection>> Open(
      const std::string& url) {
    auto connection = std::make_unique<PostgresConnection>();
    UCUDNN_RETURN_IF_ERROR(connection->Guarded([&]() -> Status {
      connection->connection_ = std::make_unique<pqxx::connection>(url);
      StayLost(*connection->connection_);
      pqxx::nontransaction(*connection->connection_).exec(kSessionSettings);
      return {};
    }));
    return connection;
  }

  const SqlDialect& dialect() const override { return PostgresDialect(); }

  // Of the last Run.
  Failure failure() const { return failure_; }

  Status Run(Access access, const SqlDatabase::Body& body) {
    failure_ = Failure::kNone;
    return Guarded([&] {
      if (access == Access::kRead) {
        pqxx::transaction<pqxx::repeatable_read, pqxx::read_only> transaction(
            *connection_);
        return RunIn(transaction, body);
      }
      pqxx::transaction<pqxx::read_committed> transaction(*connection_);
      return RunIn(transaction, body);
    });
  }

  Status ExecuteScript(const std::string& script) override {
    return Guarded([&]() -> Status {
      transaction_->exec(script);
      return {};
    });
  }

 protected:
  Result<std::vector<SqlRow>> DoQuery(
      const std::string& statement,
      std::span<const SqlValue> parameters) override {
    return Guarded([&]() -> Result<std::vector<SqlRow>> {
      std::vector<PgParameter> texts;
      texts.reserve(parameters.size());
      for (const SqlValue& value : parameters) {
        texts.push_back(ParameterOf(value));
      }
      const auto values = pqxx::prepare::make_dynamic_params(texts);
      const std::string& name = PreparedName(statement);
      const pqxx::result result =
          name.empty() ? transaction_->exec_params(statement, values)
                       : transaction_->exec_prepared(name, values);
      std::vector<SqlRow> rows;
      rows.reserve(result.size());
      for (const pqxx::row& row : result) {
        std::vector<SqlValue> columns;
        columns.reserve(row.size());
        for (const pqxx::field& field : row) columns.push_back(ValueOf(field));
        rows.emplace_back(std::move(columns));
      }
      return rows;
    });
  }

 private:
  // The name of the prepared statement; empty if it is not prepared. Statements
  // are prepared at their second use, because the last piece of a bulk is
  // usually unique.
  const std::string& PreparedName(const std::string& statement) {
    static const std::string kNone;
    if (seen_.size() >= kMaxPrepared && !seen_.contains(statement)) {
      return kNone;
    }
    const auto [it, is_new] = seen_.try_emplace(statement);
    if (!is_new && it->second.empty()) {
      const std::string name = fmt::format("s{}", ++prepared_);
      connection_->prepare(name, statement);
      it->second = name;
    }
    return it->second;
  }

  Status RunIn(pqxx::dbtransaction& transaction,
               const SqlDatabase::Body& body) {
    transaction_ = &transaction;
    Status status = body(*this);
    if (status) transaction.commit();
    transaction_ = nullptr;
    return status;
  }

  // Runs `body`, which returns a Result; exceptions become errors.
  template <class Body>
  auto Guarded(const Body& body) -> decltype(body()) {
    const auto fail = [&](Verdict verdict, std::string_view what) {
      if (connection_ == nullptr || !connection_->is_open()) {
        verdict = {Failure::kBroken, Code::kUnavailable};
      }
      failure_ = verdict.failure;
      return Fail(verdict.code, "PostgreSQL: {}", Summary(what));
    };
    try {
      return body();
    } catch (const pqxx::broken_connection& e) {
      return fail({Failure::kBroken, Code::kUnavailable}, e.what());
    } catch (const pqxx::in_doubt_error& e) {
      return fail({Failure::kBroken, Code::kUnavailable}, e.what());
    } catch (const pqxx::transaction_rollback& e) {
      return fail({Failure::kConflict, Code::kUnavailable}, e.what());
    } catch (const pqxx::sql_error& e) {
      return fail(VerdictOf(e.sqlstate()), e.what());
    } catch (const std::exception& e) {
      return fail({Failure::kFinal, Code::kInternal}, e.what());
    }
  }

  std::unique_ptr<pqxx::connection> connection_;
  std::map<std::string, std::string> seen_;  // prepared name by statement
  int prepared_ = 0;
  pqxx::dbtransaction* transaction_ = nullptr;
  Failure failure_ = Failure::kNone;
};

class PostgresDatabase final : public SqlDatabase {
 public:
  explicit PostgresDatabase(std::string url) : url_(std::move(url)) {}

  const SqlDialect& dialect() const override { return PostgresDialect(); }

  Status Run(Access access, const Body& body) override {
    bool reconnected = false;
    for (int conflicts = 0;;) {
      UCUDNN_ASSIGN_OR_RETURN(auto connection, connections_.Take([&] {
        return PostgresConnection::Open(url_);
      }));
      Status status = connection->Run(access, body);
      if (status) return status;
      switch (connection->failure()) {
        case Failure::kConflict:
          if (++conflicts > kMaxConflicts) return status;
          break;
        case Failure::kBroken:
          // The idle connections are probably broken too.
          connection.Discard();
          connections_.DiscardIdle();
          if (std::exchange(reconnected, true)) return status;
          break;
        case Failure::kNone:
        case Failure::kFinal:
          return status;
      }
    }
  }

 private:
  const std::string url_;
  ConnectionPool<PostgresConnection> connections_{kConnections};
};

// Adds timeouts, so that an unreachable server does not block callers, unless
// the URL sets them.
std::string WithTimeouts(std::string url) {
  for (const auto& [name, value] :
       {std::pair{"connect_timeout", "10"},
        std::pair{"tcp_user_timeout", "30000"},
        std::pair{"application_name", "ucudnn-coord"}}) {
    if (url.find(fmt::format("{}=", name)) != std::string::npos) continue;
    const char separator = url.find('?') == std::string::npos ? '?' : '&';
    url += fmt::format("{}{}={}", separator, name, value);
  }
  return url;
}

}  // namespace

Result<std::unique_ptr<SqlDatabase>> OpenPostgres(const std::string& url) {
  auto database = std::make_unique<PostgresDatabase>(WithTimeouts(url));
  const auto encoding =
      InTransaction(*database, Access::kRead, [](SqlTransaction& sql) {
        return sql.Query("SELECT current_setting('server_encoding')");
      });
  if (!encoding) return tl::unexpected<Error>(encoding.error());
  if (encoding->at(0).Text(0) != "UTF8") {
    return Fail(Code::kFailedPrecondition,
                "PostgreSQL: the database's encoding is {}; create it with "
                "ENCODING 'UTF8'",
                encoding->at(0).Text(0));
  }
  return database;
}

}  // namespace ucudnn
