// PostgreSQL: a pool of connections, each with one transaction at a time.

#include <fmt/format.h>

#include <utility>

#include "coordinator/store/connection_pool.h"
#include "coordinator/store/postgres_connection.h"
#include "coordinator/store/sql_database.h"

namespace ucudnn {
namespace {

// PostgreSQL accepts 100 by default, which several processes share.
constexpr std::size_t kConnections = 8;
// How often a transaction that lost a conflict runs again. The loser of a
// deadlock lets the winner pass, so few rounds are enough.
constexpr int kMaxConflicts = 10;

class PostgresDatabase final : public SqlDatabase {
 public:
  PostgresDatabase(PostgresUrl url, bool pooled)
      : url_(std::move(url)), pooled_(pooled) {}

  const SqlDialect& dialect() const override {
    return PostgresConnection::Dialect();
  }

  Status Run(TransactionMode mode, const Body& body) override {
    bool reconnected = false;
    for (int conflicts = 0;;) {
      UCUDNN_ASSIGN_OR_RETURN(auto connection, connections_.Take([&] {
        return PostgresConnection::Open(url_, pooled_);
      }));
      Status status = connection->Run(mode, body);
      if (status) return status;
      switch (connection->failure()) {
        case PostgresFailure::kConflict:
          if (++conflicts > kMaxConflicts) return status;
          break;
        case PostgresFailure::kBroken:
          // The idle connections are probably broken too.
          connection.Discard();
          connections_.DiscardIdle();
          if (std::exchange(reconnected, true)) return status;
          break;
        case PostgresFailure::kNone:
        case PostgresFailure::kFinal:
          return status;
      }
    }
  }

 private:
  const PostgresUrl url_;
  const bool pooled_;
  ConnectionPool<PostgresConnection> connections_{kConnections};
};

// Whether a pooler such as PgBouncer (pool_mode = transaction) is between us
// and the server: then a session is not ours alone, and not always the same.
Result<bool> IsPooled(const PostgresUrl& url) {
  UCUDNN_ASSIGN_OR_RETURN(const auto first,
                          PostgresConnection::Open(url, /*pooled=*/true));
  UCUDNN_ASSIGN_OR_RETURN(const auto second,
                          PostgresConnection::Open(url, /*pooled=*/true));
  const auto session = [](PostgresConnection& connection) {
    std::int64_t pid = 0;
    const Status asked = connection.Run(
        TransactionMode::kWrite, [&](SqlTransaction& sql) -> Status {
          UCUDNN_ASSIGN_OR_RETURN(const auto rows,
                                  sql.Query("SELECT pg_backend_pid()"));
          pid = rows.at(0).Int(0);
          return {};
        });
    return asked ? Result<std::int64_t>(pid) : tl::unexpected(asked.error());
  };
  UCUDNN_ASSIGN_OR_RETURN(const std::int64_t before, session(*first));
  UCUDNN_ASSIGN_OR_RETURN(const std::int64_t other, session(*second));
  UCUDNN_ASSIGN_OR_RETURN(const std::int64_t after, session(*first));
  return other == before || after != before;
}

}  // namespace

Result<std::unique_ptr<SqlDatabase>> OpenPostgres(const std::string& url) {
  UCUDNN_ASSIGN_OR_RETURN(const PostgresUrl parsed, PostgresUrl::Parse(url));
  const Result<bool> pooled = IsPooled(parsed);
  if (!pooled) {
    return Within(fmt::format("the database at {}", parsed.servers()),
                  pooled.error());
  }
  auto database = std::make_unique<PostgresDatabase>(parsed, *pooled);
  const auto encoding = database->Read([](SqlTransaction& sql) {
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
