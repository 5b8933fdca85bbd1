#ifndef UCUDNN_COORDINATOR_STORE_POSTGRES_CONNECTION_H_
#define UCUDNN_COORDINATOR_STORE_POSTGRES_CONNECTION_H_

// One connection to PostgreSQL, over libpq in pipeline mode, and the
// transaction that runs on it. What need not be waited for travels with what
// must be: BEGIN with the first statement, the preparation of a statement with
// its use, and the COMMIT of a read with the next transaction.

#include <libpq-fe.h>

#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "coordinator/store/postgres_parameters.h"
#include "coordinator/store/postgres_url.h"
#include "coordinator/store/sql_database.h"

namespace ucudnn {

// What a failure means for the transaction.
enum class PostgresFailure {
  kNone,
  kFinal,     // a retry would fail too
  kConflict,  // a concurrent transaction won
  kBroken,    // the connection is lost
};

// Used by one thread at a time.
class PostgresConnection final : public SqlTransaction {
 public:
  // kUnavailable. `pooled`: a pooler gives each transaction another session, so
  // nothing is kept in one, such as settings and prepared statements.
  static Result<std::unique_ptr<PostgresConnection>> Open(
      const PostgresUrl& url, bool pooled);

  static const SqlDialect& Dialect();
  const SqlDialect& dialect() const override { return Dialect(); }

  // Runs `body` once; see SqlDatabase::Run.
  Status Run(TransactionMode mode, const SqlDatabase::Body& body);
  // Of the last Run.
  PostgresFailure failure() const { return failure_; }

  Status ExecuteScript(const std::string& script) override;

 protected:
  Result<std::vector<SqlRow>> DoQuery(
      const std::string& statement,
      std::span<const SqlValue> parameters) override;
  Result<std::vector<SqlRow>> DoQuery(
      const std::string& statement, const SqlRows& rows,
      std::span<const SqlValue> parameters) override;

 private:
  struct Close {
    void operator()(PGconn* connection) const { PQfinish(connection); }
    void operator()(PGresult* result) const { PQclear(result); }
  };
  using ResultPtr = std::unique_ptr<PGresult, Close>;

  PostgresConnection(PGconn* connection, bool pooled)
      : connection_(connection), pooled_(pooled) {}

  // Sends what waits and the statement; returns the statement's rows.
  Result<std::vector<SqlRow>> Exchange(const std::string& statement,
                                       const PostgresParameters& parameters);
  // Put a statement into the pipeline; false if that is impossible.
  bool SendOnce(const std::string& statement,
                const PostgresParameters& parameters);
  bool SendPrepared(const std::string& name,
                    const PostgresParameters& parameters);
  bool Send(const char* statement);
  // Waits for the results of all that was sent; returns the last.
  Result<ResultPtr> Await();
  // Runs a script outside of the pipeline.
  Status RunScript(const std::string& script);
  Status Commit(TransactionMode mode);
  void Rollback();

  // The error of a result, or of the connection if there is none; remembered in
  // failure_.
  tl::unexpected<Error> Failed(const PGresult* result);

  std::unique_ptr<PGconn, Close> connection_;
  const bool pooled_;
  // The names of prepared statements; empty for those used once so far.
  std::unordered_map<std::string, std::string> statements_;
  int prepared_ = 0;
  int pieces_ = 0;               // of the pipeline, whose results are to come
  const char* begin_ = nullptr;  // waits for the first statement
  PostgresFailure failure_ = PostgresFailure::kNone;
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_STORE_POSTGRES_CONNECTION_H_
