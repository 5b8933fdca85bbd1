#ifndef UCUDNN_COORDINATOR_PLANS_PLAN_STORE_H_
#define UCUDNN_COORDINATOR_PLANS_PLAN_STORE_H_

// Plans. stores.h states what holds for every call.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "coordinator/store/actions.h"
#include "coordinator/store/unix_millis.h"

namespace ucudnn {

class SqlDatabase;

// What to store of a plan. Body and outline are opaque to the store; the
// outline is what lists and jobs read, and much smaller.
struct PlanRecord {
  std::string key;  // hash of the canonical inputs; unique
  Nanoseconds predicted{0};
  UnixMillis created_ms = 0;
  std::string outline;
  std::string body;
};

struct StoredPlan {
  std::int64_t id = 0;  // assigned by the store; ascending, with gaps
  Nanoseconds predicted{0};

  friend bool operator==(const StoredPlan&, const StoredPlan&) = default;
};

struct CreatedPlan {
  StoredPlan plan;
  bool already = false;  // `plan` existed before
};

class PlanStore {
 public:
  explicit PlanStore(SqlDatabase& database) : database_(database) {}

  // Stores the plan unless there is one with its key.
  Result<CreatedPlan> CreatePlan(const PlanRecord& plan);
  // Newest first; if `before_id` is positive, only smaller ids.
  Result<std::vector<std::int64_t>> ListPlanIds(std::int64_t limit,
                                                std::int64_t before_id = 0);
  Result<std::string> GetPlanBody(std::int64_t id);     // kNotFound
  Result<std::string> GetPlanOutline(std::int64_t id);  // kNotFound
  // The plan with this key; absent if there is none.
  Result<std::optional<StoredPlan>> FindPlan(const std::string& key);
  // Notes that the plans are in use; those that do not exist are ignored.
  Status UsePlans(std::span<const std::int64_t> ids, UnixMillis now_ms);
  // Deletes the plan and records the action. kNotFound; kFailedPrecondition: a
  // job has it.
  Status DeletePlan(std::int64_t id, const ActionRecord& action);

 private:
  Result<std::string> GetColumn(const char* column, std::int64_t id);

  SqlDatabase& database_;
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_PLANS_PLAN_STORE_H_
