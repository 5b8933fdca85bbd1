#ifndef UCUDNN_COORDINATOR_STORE_ACTIONS_H_
#define UCUDNN_COORDINATOR_STORE_ACTIONS_H_

// What people did: who cancelled, deleted, cordoned or drained what, when and
// why. stores.h states what holds for every call.

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "coordinator/store/unix_millis.h"

namespace ucudnn {

class SqlDatabase;
class SqlTransaction;

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
