#ifndef UCUDNN_COORDINATOR_STORE_STORE_H_
#define UCUDNN_COORDINATOR_STORE_STORE_H_

// All that the coordinator stores: a class for each subject, over one database
// (sql_database.h). Functions take the subjects they need.
//
//   UCUDNN_ASSIGN_OR_RETURN(auto store, OpenStore("sqlite:///var/lib/u.db"));
//   Heartbeats heartbeats(store->agents, store->tasks);
//
// What holds for every call of every subject:
//
// Durable: a write that returned OK is committed and survives the death of any
// process and of the machine. A write that failed changed nothing, except after
// kUnavailable, when its outcome may be unknown. Every write may be repeated; a
// repeat changes nothing more.
//
// Thread-safe, and safe with other processes that have the same database open.
// Calls block on the disk or the network only.
//
// The store reads no clock: callers pass the time.
//
// Lists are sorted by id, name or key, bytewise, unless they say otherwise.
//
// Errors, besides those named at each call: kUnavailable (the database cannot
// be reached or is locked; retry later), kResourceExhausted (the disk is full),
// kDataLoss (the file is corrupt), kInvalidArgument (a name, key or id is empty
// or longer than 512 bytes; a text is not UTF-8 or holds a NUL), kInternal (a
// bug).

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/result.h"
#include "coordinator/store/actions.h"
#include "coordinator/store/agents.h"
#include "coordinator/store/campaigns.h"
#include "coordinator/store/changes.h"
#include "coordinator/store/jobs.h"
#include "coordinator/store/measurements.h"
#include "coordinator/store/plans.h"
#include "coordinator/store/retention.h"
#include "coordinator/store/sql_database.h"
#include "coordinator/store/tasks.h"

namespace ucudnn {

struct Store {
  // Of a database with the schema (schema.h).
  explicit Store(std::unique_ptr<SqlDatabase> opened)
      : database(std::move(opened)) {}

  // OK if the database stores what it is given: commits a change, and has room
  // for more.
  Status CheckWritable();
  // A text that no other database has: it was drawn when this one was created.
  Result<std::string> Epoch();

  const std::unique_ptr<SqlDatabase> database;
  Agents agents{*database};
  Tasks tasks{*database};
  Campaigns campaigns{*database};
  Actions actions{*database};
  Changes changes{*database};
  Measurements measurements{*database};
  Plans plans{*database};
  Jobs jobs{*database};
  Retention retention{*database};
};

// Called with whether a transaction could write, and how long it took, by any
// thread.
using TransactionObserver =
    std::function<void(bool write, std::chrono::nanoseconds took)>;

// Opens the database, creating its tables if it is empty; several processes
// may do so at once.
//
//   sqlite:///var/lib/ucudnn/coordinator.db   a file; its folder must exist
//   sqlite::memory:                           for tests; ends with the Store
//   postgresql://user@host/database           passed to libpq
//
// kInvalidArgument: `url` has none of these forms; kUnimplemented: the build
// has no PostgreSQL; kFailedPrecondition: another version wrote the database;
// kUnavailable, kDataLoss: it cannot be opened.
//
// The observer is told of each transaction.
Result<std::unique_ptr<Store>> OpenStore(const std::string& url,
                                         TransactionObserver observer = {});

// Whether `url` has one of these forms; opens nothing. kInvalidArgument.
Status CheckDatabaseUrl(const std::string& url);

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_STORE_STORE_H_
