#ifndef UCUDNN_COORDINATOR_UPKEEP_RETENTION_STORE_H_
#define UCUDNN_COORDINATOR_UPKEEP_RETENTION_STORE_H_

// Deletes what ended long ago. stores.h states what holds for every call.

#include <cstdint>

#include "base/result.h"
#include "coordinator/store/unix_millis.h"

namespace ucudnn {

class SqlDatabase;

// What ended, or was made, before these moments may be deleted; 0: nothing.
struct Cutoffs {
  UnixMillis tasks_ms = 0;
  UnixMillis steps_ms = 0;
  UnixMillis plans_ms = 0;
  UnixMillis jobs_ms = 0;

  friend bool operator==(const Cutoffs&, const Cutoffs&) = default;
};

struct PruneCounts {
  std::int64_t tasks = 0;
  std::int64_t steps = 0;  // rows, each of one rank under one revision
  std::int64_t plans = 0;
  std::int64_t jobs = 0;

  friend bool operator==(const PruneCounts&, const PruneCounts&) = default;
};

struct PrunedTasks {
  std::int64_t deleted = 0;
  std::int64_t last_id = 0;  // of those it looked at; 0: there was none
};

class RetentionStore {
 public:
  explicit RetentionStore(SqlDatabase& database) : database_(database) {}

  // Looks at `most` tasks with ids above `after_id` and deletes those that
  // ended before `before_ms` and tell nothing that plans need: failed and
  // cancelled ones, and those done under a driver that none of the kind's
  // online devices has. The other done tasks tell which measurements are
  // complete.
  Result<PrunedTasks> PruneTasks(UnixMillis before_ms, std::int64_t after_id,
                                 std::int64_t most);
  // These delete up to `most` and return how many: fewer if none is left.
  //
  // Step times of jobs that ended and were last heard of before `before_ms`.
  Result<std::int64_t> PruneSteps(UnixMillis before_ms, std::int64_t most);
  // Such jobs, with their ranks, revisions and steps.
  Result<std::int64_t> PruneJobs(UnixMillis before_ms, std::int64_t most);
  // Plans that were not asked for since `before_ms` and that no job has.
  Result<std::int64_t> PrunePlans(UnixMillis before_ms, std::int64_t most);
  // What all of these would delete: jobs, then plans. Steps of deleted jobs
  // count.
  Result<PruneCounts> CountPrunable(const Cutoffs& cutoffs);

 private:
  SqlDatabase& database_;
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_UPKEEP_RETENTION_STORE_H_
