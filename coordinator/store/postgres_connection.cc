#include "coordinator/store/postgres_connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "coordinator/store/schema.h"

namespace ucudnn {
namespace {

// Statements that are kept prepared; there are fewer, except where one names a
// list of drivers.
constexpr std::size_t kMaxPrepared = 300;
// Of SqlRows in one statement: some MB of parameters.
constexpr std::size_t kRowsAtOnce = 10'000;

// Ends statements that hang, silences notices, and has commits wait for the
// disk: of a session, or of a transaction.
#define UCUDNN_SETTINGS(local)                                        \
  "SELECT set_config('client_min_messages', 'error', " local          \
  "), set_config('statement_timeout', '60s', " local                  \
  "), set_config('lock_timeout', '20s', " local                       \
  "), set_config('idle_in_transaction_session_timeout', '60s', " local \
  "), set_config('synchronous_commit', "                              \
  "CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' "  \
  "ELSE current_setting('synchronous_commit') END, " local ")"
constexpr char kSessionSettings[] = UCUDNN_SETTINGS("false");
constexpr char kTransactionSettings[] = UCUDNN_SETTINGS("true");
#undef UCUDNN_SETTINGS

constexpr char kBeginRead[] =
    "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY";
constexpr char kBeginWrite[] = "BEGIN ISOLATION LEVEL READ COMMITTED";

using Failure = PostgresFailure;

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
  // The server became a replica: a new connection may find the one that is not
  // (target_session_attrs).
  if (state == "25006") return {Failure::kBroken, Code::kUnavailable};
  // Another transaction added the row first; a second run sees it.
  if (state == "23505") return {Failure::kConflict, Code::kAlreadyExists};
  if (state == "53300" || group == "55" || group == "57" || group == "58") {
    return {Failure::kFinal, Code::kUnavailable};
  }
  if (state == "42501" || state == "3F000") {
    return {Failure::kFinal, Code::kFailedPrecondition};
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

// What lets `user` do what PostgreSQL refused, if `what` says so, as in
// "permission denied for schema public". Since version 15, that is what a
// database's user lacks who does not own it.
std::string AdviceOn(std::string_view state, std::string_view what,
                     std::string_view user) {
  constexpr std::string_view kDenied = "permission denied for ";
  if (state != "42501" && state != "3F000") return {};
  if (what.starts_with("must be owner of ")) return {};
  // No schema may be used, or PostgreSQL speaks another language.
  if (!what.starts_with(kDenied)) what = "permission denied for schema public";
  return fmt::format("; run as its owner: GRANT ALL ON {} TO \"{}\"",
                     what.substr(kDenied.size()), user);
}

bool IsOk(const PGresult* result) {
  switch (PQresultStatus(result)) {
    case PGRES_COMMAND_OK:
    case PGRES_TUPLES_OK:
    case PGRES_PIPELINE_SYNC:
      return true;
    default:
      return false;
  }
}

SqlValue ValueOf(const PGresult* result, int row, int column) {
  // PostgreSQL: src/include/catalog/pg_type.dat.
  constexpr Oid kBytea = 17;
  constexpr Oid kInt8 = 20;
  constexpr Oid kInt4 = 23;
  if (PQgetisnull(result, row, column) != 0) return SqlNull();
  const char* const text = PQgetvalue(result, row, column);
  switch (PQftype(result, column)) {
    case kInt8:
    case kInt4:
      return std::int64_t{std::strtoll(text, nullptr, 10)};
    case kBytea: {
      std::size_t size = 0;
      unsigned char* const bytes =
          PQunescapeBytea(reinterpret_cast<const unsigned char*>(text), &size);
      SqlBytes copy{{reinterpret_cast<const char*>(bytes), size}};
      PQfreemem(bytes);
      return copy;
    }
    default:
      return std::string(
          text, static_cast<std::size_t>(PQgetlength(result, row, column)));
  }
}

std::vector<SqlRow> RowsOf(const PGresult* result) {
  std::vector<SqlRow> rows;
  const int count = PQntuples(result);
  const int columns = PQnfields(result);
  rows.reserve(static_cast<std::size_t>(count));
  for (int row = 0; row < count; ++row) {
    std::vector<SqlValue> values;
    values.reserve(static_cast<std::size_t>(columns));
    for (int i = 0; i < columns; ++i) {
      values.push_back(ValueOf(result, row, i));
    }
    rows.emplace_back(std::move(values));
  }
  return rows;
}

// "SELECT unnest($3::TEXT[]) AS id, unnest($4::BIGINT[]) AS beats", behind so
// many other parameters. In FROM, each array would first be written to a table
// of its own.
std::string SelectArrays(const SqlRows& rows, std::size_t parameters) {
  std::string arrays;
  for (const SqlRows::Column& column : rows.columns()) {
    arrays += fmt::format("{} unnest(${}::{}[]) AS {}",
                          arrays.empty() ? "SELECT" : ",", ++parameters,
                          column.type, column.name);
  }
  return arrays;
}

}  // namespace

const SqlDialect& PostgresConnection::Dialect() {
  static const SqlDialect kDialect{
      .schema = kPostgresSchema,
      .lock_rows = " FOR UPDATE",
      .skip_locked = " FOR UPDATE SKIP LOCKED",
      // Arbitrary lock numbers: the letters of "ucudnn", and the next.
      .lock_schema =
          "SELECT CAST(pg_advisory_xact_lock(128906494537326) "
          "AS TEXT)",
      .lock_queue =
          "SELECT CAST(pg_advisory_xact_lock(128906494537327) "
          "AS TEXT)",
      .writers = 2,
      .adds_counts = true};
  return kDialect;
}

Result<std::unique_ptr<PostgresConnection>> PostgresConnection::Open(
    const PostgresUrl& url, bool pooled) {
  UCUDNN_ASSIGN_OR_RETURN(PGconn* const connection, url.Connect());
  std::unique_ptr<PostgresConnection> opened(
      new PostgresConnection(connection, pooled));
  if (PQstatus(connection) != CONNECTION_OK) return opened->Failed(nullptr);
  PQsetNoticeProcessor(
      connection, [](void*, const char*) {}, nullptr);
  if (pooled) {
    PQenterPipelineMode(connection);
  } else {
    UCUDNN_RETURN_IF_ERROR(opened->RunScript(kSessionSettings));
  }
  return opened;
}

Status PostgresConnection::Run(TransactionMode mode,
                               const SqlDatabase::Body& body) {
  failure_ = Failure::kNone;
  begin_ = mode == TransactionMode::kRead ? kBeginRead : kBeginWrite;
  Status status = body(*this);
  if (std::exchange(begin_, nullptr) != nullptr) return status;
  if (status) return Commit(mode);
  Rollback();
  return status;
}

Status PostgresConnection::Commit(TransactionMode mode) {
  if (!Send("COMMIT") || PQpipelineSync(connection_.get()) == 0) {
    return Failed(nullptr);
  }
  ++pieces_;
  if (mode == TransactionMode::kRead) return {};
  UCUDNN_ASSIGN_OR_RETURN(const ResultPtr result, Await());
  // Of a transaction that failed, COMMIT is a ROLLBACK.
  if (std::string_view(PQcmdStatus(result.get())) == "COMMIT") return {};
  return Fail(Code::kInternal,
              "PostgreSQL: a failed transaction was committed");
}

void PostgresConnection::Rollback() {
  if (PQstatus(connection_.get()) != CONNECTION_OK) return;
  const Failure failure = failure_;
  if (Send("ROLLBACK") && PQpipelineSync(connection_.get()) != 0) {
    ++pieces_;
    (void)Await();
  }
  // A connection that breaks now is found to be broken when it is used next.
  failure_ = failure;
}

Status PostgresConnection::ExecuteScript(const std::string& script) {
  const char* const begin = std::exchange(begin_, nullptr);
  if (begin == nullptr) return RunScript(script);
  return RunScript(fmt::format("{}; {}; {}", begin,
                               pooled_ ? kTransactionSettings : "", script));
}

Status PostgresConnection::RunScript(const std::string& script) {
  PGconn* const connection = connection_.get();
  if (pieces_ > 0) UCUDNN_RETURN_IF_ERROR(Await());
  PQexitPipelineMode(connection);
  const ResultPtr result(PQexec(connection, script.c_str()));
  PQenterPipelineMode(connection);
  if (IsOk(result.get())) return {};
  return Failed(result.get());
}

Result<std::vector<SqlRow>> PostgresConnection::DoQuery(
    const std::string& statement, std::span<const SqlValue> parameters) {
  return Exchange(statement, PostgresParameters(parameters));
}

Result<std::vector<SqlRow>> PostgresConnection::DoQuery(
    const std::string& statement, const SqlRows& rows,
    std::span<const SqlValue> parameters) {
  const std::string arrays = SelectArrays(rows, parameters.size());
  const std::string text =
      WithRows(statement, fmt::format("({}) AS rows", arrays), arrays);
  std::vector<SqlRow> all;
  for (std::size_t first = 0; first < rows.size(); first += kRowsAtOnce) {
    PostgresParameters piece(parameters);
    piece.AddRows(rows, first, std::min(kRowsAtOnce, rows.size() - first));
    UCUDNN_ASSIGN_OR_RETURN(auto found, Exchange(text, piece));
    std::ranges::move(found, std::back_inserter(all));
  }
  return all;
}

Result<std::vector<SqlRow>> PostgresConnection::Exchange(
    const std::string& statement, const PostgresParameters& parameters) {
  PGconn* const connection = connection_.get();
  // Statements are prepared at their second use: some are used only once.
  const auto known = statements_.find(statement);
  const bool prepare = known != statements_.end() && known->second.empty();
  if (prepare) known->second = fmt::format("s{}", ++prepared_);
  const char* const begin = std::exchange(begin_, nullptr);
  const bool sent =
      (begin == nullptr ||
       (Send(begin) && (!pooled_ || Send(kTransactionSettings)))) &&
      (!prepare || PQsendPrepare(connection, known->second.c_str(),
                                 statement.c_str(), 0, nullptr) != 0) &&
      (known == statements_.end() ? SendOnce(statement, parameters)
                                  : SendPrepared(known->second, parameters)) &&
      PQpipelineSync(connection) != 0;
  if (!sent) return Failed(nullptr);
  ++pieces_;
  const auto result = Await();
  if (!result) {
    // It may have been the preparation that failed.
    if (prepare) statements_.erase(known);
    return tl::unexpected<Error>(result.error());
  }
  if (!pooled_ && known == statements_.end() &&
      statements_.size() < kMaxPrepared) {
    statements_.try_emplace(statement);
  }
  return RowsOf(result->get());
}

bool PostgresConnection::SendOnce(const std::string& statement,
                                  const PostgresParameters& parameters) {
  return PQsendQueryParams(connection_.get(), statement.c_str(),
                           parameters.count(), nullptr, parameters.values(),
                           parameters.lengths(), parameters.formats(),
                           /*resultFormat=*/0) != 0;
}

bool PostgresConnection::SendPrepared(const std::string& name,
                                      const PostgresParameters& parameters) {
  return PQsendQueryPrepared(connection_.get(), name.c_str(),
                             parameters.count(), parameters.values(),
                             parameters.lengths(), parameters.formats(),
                             /*resultFormat=*/0) != 0;
}

bool PostgresConnection::Send(const char* statement) {
  return PQsendQueryParams(connection_.get(), statement, 0, nullptr, nullptr,
                           nullptr, nullptr, /*resultFormat=*/0) != 0;
}

Result<PostgresConnection::ResultPtr> PostgresConnection::Await() {
  ResultPtr last;
  ResultPtr failed;
  while (pieces_ > 0) {
    ResultPtr result(PQgetResult(connection_.get()));
    if (result == nullptr) {  // the end of a statement's results
      if (PQstatus(connection_.get()) == CONNECTION_BAD) break;
    } else if (PQresultStatus(result.get()) == PGRES_PIPELINE_SYNC) {
      --pieces_;
    } else if (IsOk(result.get())) {
      last = std::move(result);
    } else if (failed == nullptr) {
      failed = std::move(result);
    }
  }
  if (failed != nullptr || pieces_ > 0) return Failed(failed.get());
  return last;
}

tl::unexpected<Error> PostgresConnection::Failed(const PGresult* result) {
  const char* const state = result == nullptr
                                ? nullptr
                                : PQresultErrorField(result, PG_DIAG_SQLSTATE);
  Verdict verdict = VerdictOf(state == nullptr ? "" : state);
  if (PQstatus(connection_.get()) != CONNECTION_OK) {
    verdict = {Failure::kBroken, Code::kUnavailable};
  }
  failure_ = verdict.failure;
  // The lines behind the first repeat the statement.
  std::string_view what = result == nullptr ? PQerrorMessage(connection_.get())
                                            : PQresultErrorMessage(result);
  what = what.substr(0, what.find('\n'));
  // Clients read this, and need not know where the database is.
  constexpr std::string_view kWhere = "connection to server ";
  constexpr std::string_view kFailed = " failed: ";
  const std::size_t failed = what.find(kFailed);
  if (what.starts_with(kWhere) && failed != std::string_view::npos) {
    return Fail(verdict.code, "PostgreSQL: no connection: {}",
                what.substr(failed + kFailed.size()));
  }
  const char* const user = PQuser(connection_.get());
  return Fail(verdict.code, "PostgreSQL: {}{}", what,
              AdviceOn(state == nullptr ? "" : state, what,
                       user == nullptr ? "" : user));
}

}  // namespace ucudnn
