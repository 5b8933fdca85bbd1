#ifndef UCUDNN_COORDINATOR_STORE_TIMED_DATABASE_H_
#define UCUDNN_COORDINATOR_STORE_TIMED_DATABASE_H_

#include <chrono>
#include <memory>
#include <utility>

#include "coordinator/store/open_database.h"
#include "coordinator/store/sql_database.h"

namespace ucudnn {

// Tells an observer how long each transaction takes, with its repeats and the
// wait for a connection.
class TimedDatabase final : public SqlDatabase {
 public:
  TimedDatabase(std::unique_ptr<SqlDatabase> database,
                TransactionObserver observer)
      : database_(std::move(database)), observer_(std::move(observer)) {}

  const SqlDialect& dialect() const override { return database_->dialect(); }

  Status Run(TransactionMode mode, const Body& body) override {
    const auto start = std::chrono::steady_clock::now();
    Status status = database_->Run(mode, body);
    observer_(mode == TransactionMode::kWrite,
              std::chrono::steady_clock::now() - start);
    return status;
  }

  Status CheckRoom() override { return database_->CheckRoom(); }

 private:
  const std::unique_ptr<SqlDatabase> database_;
  const TransactionObserver observer_;
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_STORE_TIMED_DATABASE_H_
