#ifndef UCUDNN_COORDINATOR_STORE_ACTIONS_H_
#define UCUDNN_COORDINATOR_STORE_ACTIONS_H_

// What people did: who cancelled, deleted, cordoned or drained what, when and
// why. stores.h states what holds for every call.

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "coordinator/store/sql_database.h"
#include "coordinator/store/unix_millis.h"

namespace ucudnn {

struct ActionRecord {
  std::int64_t id = 0;  // assigned by the store; ascending, with gaps
  UnixMillis made_ms = 0;
  std::string who;
  std::string what;    // "cancel", "delete", ...
  std::string object;  // "campaign 12"
  std::string reason;  // for people, as is the outcome
  std::string outcome;

  friend bool operator==(const ActionRecord&, const ActionRecord&) = default;
};

// Actions::AddAction within a transaction.
Status AddAction(SqlTransaction& sql, const ActionRecord& action);

// The same after `deletion` of what has the id, which returns what it deleted.
// kNotFound, "there is no OBJECT", if that is nothing.
Status DeleteOne(SqlTransaction& sql, const std::string& deletion,
                 const SqlValue& id, const std::string& object,
                 const ActionRecord& action);

class Actions {
 public:
  explicit Actions(SqlDatabase& database) : database_(database) {}

  // Ignores the id.
  Status AddAction(const ActionRecord& action);
  // Newest first; if `before_id` is positive, only those with smaller ids.
  Result<std::vector<ActionRecord>> ListActions(std::int64_t limit,
                                                std::int64_t before_id);

 private:
  SqlDatabase& database_;
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_STORE_ACTIONS_H_
