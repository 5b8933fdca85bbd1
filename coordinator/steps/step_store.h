#ifndef UCUDNN_COORDINATOR_STEPS_STEP_STORE_H_
#define UCUDNN_COORDINATOR_STEPS_STEP_STORE_H_

// The training steps that frameworks measured. stores.h states what holds for
// every call.

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "coordinator/store/actions.h"
#include "coordinator/store/unix_millis.h"

namespace ucudnn {

class SqlDatabase;

struct StepRecord {
  std::string name;
  std::int64_t revision = 0;  // counts contents; assigned by the store
  std::string hash;           // of the content; equal hash, equal content
  std::string put_by;
  UnixMillis updated_ms = 0;
  std::string outline;  // opaque to the store
  std::string content;  // as it was put

  friend bool operator==(const StepRecord&, const StepRecord&) = default;
};

class StepStore {
 public:
  explicit StepStore(SqlDatabase& database) : database_(database) {}

  // Replaces what has the name, unless that has the same hash. Returns what it
  // left there, without `content`: others may replace that at once.
  // `step.revision` is ignored. kResourceExhausted: it is a new name, and there
  // are `most` already. kPermissionDenied: `own_only`, and somebody else put
  // what has the name.
  Result<StepRecord> PutStep(const StepRecord& step, std::int64_t most,
                             bool own_only = false);
  // The first `limit` steps whose names come after `after`, without `content`.
  Result<std::vector<StepRecord>> ListSteps(std::int64_t limit,
                                            const std::string& after = "");
  // kNotFound.
  Result<StepRecord> GetStep(const std::string& name);
  // Records the action. kNotFound.
  Status DeleteStep(const std::string& name, const ActionRecord& action);

 private:
  SqlDatabase& database_;
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_STEPS_STEP_STORE_H_
