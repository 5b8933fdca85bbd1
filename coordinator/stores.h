#ifndef UCUDNN_COORDINATOR_STORES_H_
#define UCUDNN_COORDINATOR_STORES_H_

// All that the coordinator stores: a class for each subject, over one database
// (sql_database.h). Functions take the subjects they need.
//
//   UCUDNN_ASSIGN_OR_RETURN(auto store, OpenStore("sqlite:///var/lib/u.db"));
//   Heartbeats heartbeats(store->agents);
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

#include <memory>
#include <string>
#include <utility>

#include "base/result.h"
#include "coordinator/agents/agent_store.h"
#include "coordinator/jobs/job_store.h"
#include "coordinator/measuring/campaign_store.h"
#include "coordinator/measuring/measurement_store.h"
#include "coordinator/measuring/task_store.h"
#include "coordinator/networks/network_store.h"
#include "coordinator/plans/plan_store.h"
#include "coordinator/steps/step_store.h"
#include "coordinator/store/actions.h"
#include "coordinator/store/changes.h"
#include "coordinator/store/open_database.h"
#include "coordinator/store/sql_database.h"
#include "coordinator/upkeep/retention_store.h"

namespace ucudnn {

struct Store {
  // Of a database that OpenDatabase opened.
  explicit Store(std::unique_ptr<SqlDatabase> opened)
      : database(std::move(opened)) {}

  // OK if the database stores what it is given: commits a change, and has room
  // for more.
  Status CheckWritable();
  // A text that no other database has: it was drawn when this one was created.
  Result<std::string> Epoch();

  const std::unique_ptr<SqlDatabase> database;
  Actions actions{*database};
  Changes changes{*database};
  AgentStore agents{*database};
  NetworkStore networks{*database};
  StepStore steps{*database};
  TaskStore tasks{*database};
  MeasurementStore measurements{*database};
  CampaignStore campaigns{*database};
  PlanStore plans{*database};
  JobStore jobs{*database};
  RetentionStore retention{*database};
};

// The stores of the database that OpenDatabase opens; errors of that.
Result<std::unique_ptr<Store>> OpenStore(const std::string& url,
                                         TransactionObserver observer = {});

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_STORES_H_
