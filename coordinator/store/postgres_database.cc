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
  explicit PostgresDatabase(std::string url) : url_(std::move(url)) {}

  const SqlDialect& dialect() const override {
    return PostgresConnection::Dialect();
  }

  Status Run(TransactionMode mode, const Body& body) override {
    bool reconnected = false;
    for (int conflicts = 0;;) {
      UCUDNN_ASSIGN_OR_RETURN(auto connection, connections_.Take([&] {
        return PostgresConnection::Open(url_);
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
