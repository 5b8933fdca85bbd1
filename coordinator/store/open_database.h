#ifndef UCUDNN_COORDINATOR_STORE_OPEN_DATABASE_H_
#define UCUDNN_COORDINATOR_STORE_OPEN_DATABASE_H_

// Opens the database that a URL names.

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "coordinator/store/sql_database.h"

namespace ucudnn {

// Called with whether a transaction could write, and how long it took, by any
// thread.
using TransactionObserver =
    std::function<void(bool write, std::chrono::nanoseconds took)>;

// Opens the database, creating its tables if it is empty; several processes
// may do so at once.
//
//   sqlite:///var/lib/ucudnn/coordinator.db   a file; its folder must exist
//   sqlite::memory:                           for tests; ends with the object
//   postgresql://user@host/database           passed to libpq
//
// kInvalidArgument: `url` has none of these forms; kUnimplemented: the build
// has no PostgreSQL; kFailedPrecondition: another version wrote the database;
// kUnavailable, kDataLoss: it cannot be opened.
//
// The observer is told of each transaction.
Result<std::unique_ptr<SqlDatabase>> OpenDatabase(
    const std::string& url, TransactionObserver observer = {});

// Whether `url` has one of these forms; opens nothing. kInvalidArgument.
Status CheckDatabaseUrl(const std::string& url);

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_STORE_OPEN_DATABASE_H_
